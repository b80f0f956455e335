//! Tells load balancers the score: the agent of HAProxy's agent-check, one line of text for each
//! connection.
//!
//! A thread of its own, without capabilities and files, serves one connection after the other; each
//! takes at most a tenth of a second, and reads at most some bytes. It knows only the answers that the
//! analyzer left for it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use netto_sys::privileges;

use crate::analysis::score::{Judged, Score};
use crate::api::Orca;

/// How long a client may take to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_millis(50);
/// Most bytes of what it says.
const MOST_BYTES: usize = 16;
/// An answer that is older is none.
const LONGEST: Duration = Duration::from_secs(30);
/// What tells HAProxy that there is nothing to tell: the weight stays as it is.
const NO_SCORE: &str = "up";

/// The newest answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Answers {
    reads: String,
    writes: String,
    both: String,
    weighted: String,
    orca: String,
    made: Option<Instant>,
}

impl Answers {
    /// Those of a score.
    pub(crate) fn of(score: &Score, orca: &Orca) -> Self {
        let (reads, writes) = (percent(&score.reads), percent(&score.writes));
        let least = [reads, writes].into_iter().flatten().min();
        let line = |percent: Option<u64>| match percent {
            Some(percent) => format!("{percent}%\n"),
            None => format!("{NO_SCORE}\n"),
        };
        Answers {
            reads: line(reads),
            writes: line(writes),
            both: line(least),
            weighted: line(score.reads.weighted.map(weight)),
            orca: format!("endpoint-load-metrics: TEXT {}\n", orca.text()),
            made: Some(Instant::now()),
        }
    }

    /// The answer to what a client said: reads if it said nothing.
    fn to(&self, said: &str, now: Instant) -> String {
        let is_new = self
            .made
            .is_some_and(|made| now.saturating_duration_since(made) <= LONGEST);
        match said.trim() {
            _ if !is_new => format!("{NO_SCORE}\n"),
            "" | "reads" => self.reads.clone(),
            "writes" => self.writes.clone(),
            "both" => self.both.clone(),
            "weighted" => self.weighted.clone(),
            "orca" => self.orca.clone(),
            _ => format!("{NO_SCORE}\n"),
        }
    }
}

/// The score as a weight. That is never 0, which would end all traffic, and with it what is measured.
fn percent(judged: &Judged) -> Option<u64> {
    judged.score.map(weight)
}

fn weight(score: f64) -> u64 {
    score.round().clamp(1.0, 100.0) as u64
}

/// See the head of this file; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Agent {
    at: SocketAddr,
    answers: Arc<Mutex<Answers>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Begins to listen.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub(crate) fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(address)
            .with_context(|| format!("cannot listen at {address} (--agent-check)"))?;
        let at = listener.local_addr()?;
        let answers: Arc<Mutex<Answers>> = Arc::default();
        let is_over: Arc<AtomicBool> = Arc::default();
        let (own_answers, own_is_over) = (answers.clone(), is_over.clone());
        let serve = move || {
            privileges::confine();
            while !own_is_over.load(Ordering::Acquire) {
                match listener.accept() {
                    // Who does not wait for an answer gets none.
                    Ok((stream, _)) => drop(answer(stream, &own_answers)),
                    // No descriptor is free, for one.
                    Err(_) => std::thread::sleep(PATIENCE),
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("agent-check".to_owned())
            .spawn(serve)
            .context("cannot start a thread")?;
        Ok(Agent {
            at,
            answers,
            is_over,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[cfg(test)]
    pub(crate) fn at(&self) -> SocketAddr {
        self.at
    }

    /// Leaves new answers.
    pub(crate) fn tell(&self, answers: Answers) {
        *self.answers.lock().unwrap_or_else(PoisonError::into_inner) = answers;
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // It waits for a connection.
        let is_woken = TcpStream::connect_timeout(&self.at, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_woken) {
            let _ = thread.join();
        }
    }
}

/// Holds the answers only while it takes one: the analyzer, which leaves them, waits for no client.
fn answer(mut stream: TcpStream, answers: &Mutex<Answers>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut said = [0; MOST_BYTES];
    // Most say nothing, and only wait.
    let length = stream.read(&mut said).unwrap_or(0);
    let said = std::str::from_utf8(&said[..length]).unwrap_or("?");
    let line = {
        let newest = answers.lock().unwrap_or_else(PoisonError::into_inner);
        newest.to(said, Instant::now())
    };
    stream.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture;

    use super::*;
    use crate::analysis::score::judge;

    fn answers(reference_ns: Option<u64>) -> Answers {
        let mut health = fixture::health();
        health.reference_ns = reference_ns;
        let score = judge(&health);
        Answers::of(&score, &Orca::of(&health, &score))
    }

    fn asked(agent: &Agent, said: &str) -> String {
        let mut stream = TcpStream::connect(agent.at()).unwrap();
        stream.write_all(said.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn who_connects_gets_a_weight_of_reads_unless_it_asks_for_something_else() {
        let agent = Agent::start("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_eq!(asked(&agent, ""), "up\n", "nothing is known yet");
        agent.tell(answers(Some(205_000)));
        assert_eq!(asked(&agent, ""), "50%\n");
        assert_eq!(asked(&agent, "writes\n"), "3%\n");
        assert_eq!(asked(&agent, "both\n"), "3%\n");
        assert_eq!(asked(&agent, "nonsense\n"), "up\n");
        let orca = asked(&agent, "orca\n");
        let begin = "endpoint-load-metrics: TEXT cpu_utilization=0.25,mem_utilization=0.5,named_metrics.netto_";
        assert!(orca.starts_with(begin) && orca.ends_with('\n'), "{orca}");
        let at = agent.at();
        drop(agent);
        assert!(TcpStream::connect(at).is_err(), "it has ended");
    }

    #[test]
    fn without_a_score_the_weight_stays_and_a_bad_one_is_not_0() {
        let now = Instant::now();
        assert_eq!(answers(None).to("", now), "up\n");
        assert_eq!(answers(Some(1)).to("", now), "1%\n");
        let later = now + LONGEST + Duration::from_secs(5);
        assert_eq!(
            answers(Some(205_000)).to("", later),
            "up\n",
            "it is too old"
        );
    }
}
