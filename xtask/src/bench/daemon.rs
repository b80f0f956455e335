//! The netto that is measured: started, asked over HTTP, ended.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::lab::{self, Owned};

/// What a freshly started or ended netto does on top of its work is over by then.
const SETTLE: Duration = Duration::from_millis(300);

/// A running netto.
pub struct Daemon {
    process: Owned,
    at: SocketAddr,
}

/// What a daemon says of itself, as running totals.
#[derive(Debug, Clone, Copy)]
pub struct Totals {
    /// CPU time in user mode, seconds; the kernel tells it from system mode by its ticks only.
    pub user_seconds: f64,
    /// CPU time in the kernel, seconds.
    pub system_seconds: f64,
    /// Stacks drained.
    pub stacks: f64,
    /// Stacks that found no room.
    pub lost: f64,
    /// Resident memory, bytes.
    pub resident_bytes: f64,
}

impl Daemon {
    /// Starts it and waits until it measures.
    pub fn start(netto: &Path, frequency_hz: u64, options: &[String]) -> Result<Daemon> {
        let mut command = lab::mortal(netto);
        command
            .args([
                "run",
                "--port",
                "0",
                "--frequency",
                &frequency_hz.to_string(),
            ])
            .args(options)
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process = Owned::start(&mut command)?;
        let stderr = process.0.stderr.take().context("no standard error")?;
        let mut lines = BufReader::new(stderr).lines();
        let mut said = String::new();
        let at = loop {
            let Some(line) = lines.next() else {
                bail!("netto ended at once: {}", said.trim());
            };
            let line = line.context("cannot read what netto says")?;
            if let Some((_, rest)) = line.split_once("dashboard at http://") {
                let at = rest.trim_end_matches('/');
                break at
                    .parse()
                    .with_context(|| format!("netto listens at {at:?}"))?;
            }
            said += &line;
            said.push('\n');
        };
        // Nobody may be blocked on a pipe that nobody reads.
        std::thread::spawn(move || for _ in lines.map_while(|line| line.ok()) {});
        std::thread::sleep(SETTLE);
        Ok(Daemon { process, at })
    }

    /// Ends it, and waits until the kernel has taken its probes away.
    pub fn end(self) {
        drop(self.process);
        std::thread::sleep(SETTLE);
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// What it says of itself now.
    pub fn totals(&self) -> Result<Totals> {
        let page = self.get("/metrics")?;
        let sum = |series: &str| sum_of(&page, series).with_context(|| format!("no {series}"));
        Ok(Totals {
            user_seconds: sum("netto_user_cpu_seconds_total{mode=\"user\"}")?,
            system_seconds: sum("netto_user_cpu_seconds_total{mode=\"system\"}")?,
            stacks: sum("netto_samples_total")?,
            lost: sum("netto_samples_lost_total")?,
            resident_bytes: sum("netto_resident_memory_bytes")?,
        })
    }

    fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(self.at).context("netto does not answer")?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
        let status = head.lines().next().unwrap_or_default();
        if !status.contains(" 200 ") {
            bail!("netto answered {status} for {path}");
        }
        Ok(body.to_owned())
    }
}

/// The sum of a family's series on a metrics page, or of those that begin like this;
/// `None` if there is none.
fn sum_of(page: &str, series: &str) -> Option<f64> {
    page.lines()
        .filter(|line| {
            line.strip_prefix(series)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        })
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .reduce(|a, b| a + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_a_family_are_summed_and_longer_names_are_other_families() {
        let page = "# HELP a Things.\na{cpu=\"0\"} 1\na{cpu=\"1\"} 2.5\na_lost{cpu=\"0\"} 9\n";
        assert_eq!(sum_of(page, "a"), Some(3.5));
        assert_eq!(sum_of(page, "a{cpu=\"1\"}"), Some(2.5));
        assert_eq!(sum_of(page, "b"), None);
    }
}
