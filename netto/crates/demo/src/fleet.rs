//! Many made-up hosts in one process, which a scraper takes for as many targets.
//!
//! Nothing happens on a host until it is scraped: then it has one interval, from its last scrape
//! to this one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use actix_web::web::Bytes;
use metrics_common::Info;
use netto_metrics::prometheus::{Exported, Form, Metrics, Targets};

use super::{Settings, Source, info, since_epoch_ns};

/// Possible numbers of further hosts.
pub const HOSTS: std::ops::RangeInclusive<u32> = 1..=10_000;

/// Kernels of the hosts, one after the other.
const KERNELS: [&str; 3] = ["6.1.0-demo", "6.12.0-demo", "6.18.0-demo"];
/// The hosts are in different phases of their day, by so much.
const APART_NS: u64 = 37_000_000_000;

/// The hosts, by name.
pub struct Fleet(BTreeMap<String, Host>);

struct Host {
    info: Arc<Info>,
    metrics: Metrics,
    live: Mutex<Live>,
}

struct Live {
    source: Source,
    /// End of its last interval.
    ended: Option<Instant>,
}

impl Fleet {
    /// This many hosts, each with another seed; `exported` says what each exports.
    pub fn new(settings: Settings, count: u32, exported: &Exported) -> Self {
        let now_ns = since_epoch_ns();
        let counted = (Arc::default(), Arc::default());
        let host = |number: u32| {
            let settings = Settings {
                seed: settings.seed.wrapping_add(u64::from(number)),
                ..settings
            };
            let name = format!("demo-{number}");
            let info = Arc::new(Info {
                hostname: name.clone(),
                kernel: KERNELS[number as usize % KERNELS.len()].to_owned(),
                ..info(settings, now_ns)
            });
            let mut source = Source::new(settings);
            source.elapsed_ns = u64::from(number) * APART_NS;
            source.past_end_ns = now_ns;
            let metrics = Metrics::new(info.clone(), counted.clone(), exported.clone());
            let live = Mutex::new(Live {
                source,
                ended: None,
            });
            let host = Host {
                info,
                metrics,
                live,
            };
            (name, host)
        };
        Fleet((1..=count).map(host).collect())
    }
}

impl Targets for Fleet {
    fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    fn page(&self, name: &str, form: Form) -> Option<Bytes> {
        let host = self.0.get(name)?;
        // After a panic, the next interval is made up all the same.
        let mut live = host.live.lock().unwrap_or_else(PoisonError::into_inner);
        let period = live.source.settings.period;
        let length = live.ended.map_or(period, |ended| ended.elapsed());
        if length >= period {
            live.ended = Some(Instant::now());
            let snapshot = live.source.make(length.as_nanos() as u64, since_epoch_ns());
            host.metrics.add(host.info.clone(), &snapshot);
        }
        Some(host.metrics.written(form))
    }
}
