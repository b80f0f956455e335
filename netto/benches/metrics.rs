//! Times what a scrape makes netto do: the page of metrics of a made-up host, written once for
//! each snapshot, and compressed. Needs no root.
//!
//! Prints one line per figure: name, median, and the bounds of the middle half; `--cpus N` chooses
//! the host's size. With `--times N` it writes N pages, with `--gzip` compressed ones, and prints
//! nothing, for tools that count instructions.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use actix_web::web::Bytes;
use anyhow::Context as _;
use netto_demo::{Demo, Settings};
use netto_http::gzip::Gzipped;
use netto_metrics::prometheus::{Form, PrometheusLogger};
use netto_pipeline::metrics_collector::{Deliver, Published};
use netto_pipeline::supervisor::Supervisor;
use netto_pipeline::trace_analyzer::SnapshotSource;

const CPUS: u32 = 256;
const PAGES: usize = 60;

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().collect();
    let number = |option: &str| -> Option<u32> {
        let at = words.iter().position(|word| word == option)?;
        words.get(at + 1)?.parse().ok()
    };
    let settings = Settings {
        cpus: number("--cpus").unwrap_or(CPUS),
        seed: 1,
        period: Duration::from_millis(500),
        frequency_hz: 1000,
        has_owners: false,
        has_latency: false,
    };
    let times = number("--times");
    let pages = times.map_or(PAGES, |times| times as usize);
    let is_packed = times.is_none() || words.iter().any(|word| word == "--gzip");
    let (mut plain_ms, mut gzip_ms, mut sizes) = (Vec::new(), Vec::new(), (0, 0));
    System::new().block_on(async {
        let Demo {
            info, mut source, ..
        } = netto_demo::demo(settings);
        let info = Arc::new(info);
        let (supervisor, _failures) = Supervisor::new();
        let exported = (netto::features::metrics(), false);
        let (logger, metrics) =
            PrometheusLogger::launch(info.clone(), Default::default(), exported, &supervisor);
        let gzipped = Gzipped::default();
        for _ in 0..pages {
            let snapshot = Arc::new(source.next_snapshot()?);
            let published = Arc::new(Published::new(snapshot, info.clone()));
            logger.send(Deliver(published)).await?;
            let begun = Instant::now();
            let plain = page(metrics.page(Form::Text).await)?;
            plain_ms.push(begun.elapsed().as_secs_f64() * 1e3);
            sizes.0 = plain.len();
            if is_packed {
                let begun = Instant::now();
                let packed = page(gzipped.of(plain).await)?;
                gzip_ms.push(begun.elapsed().as_secs_f64() * 1e3);
                sizes.1 = packed.len();
            }
        }
        supervisor.begin_end();
        anyhow::Ok(())
    })?;
    if times.is_some() {
        return Ok(());
    }
    show("page_ms", plain_ms);
    show("gzip_ms", gzip_ms);
    show("page_bytes", vec![sizes.0 as f64]);
    show("gzip_bytes", vec![sizes.1 as f64]);
    Ok(())
}

fn page(made: Result<Bytes, String>) -> anyhow::Result<Bytes> {
    let page = made.map_err(anyhow::Error::msg).context("no page")?;
    Ok(black_box(page))
}

fn show(name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let at = |part: usize| values[values.len() * part / 4];
    println!("{name} {:.3} {:.3} {:.3}", at(2), at(1), at(3));
}
