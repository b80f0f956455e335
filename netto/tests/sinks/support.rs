//! A daemon with a made-up measurement, and plain clients to look at it from outside.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use metrics_common::Folded;
use metrics_common::sections::{Price, SamplePrice};
use metrics_common::{
    Availability, COMPONENTS, ComponentInfo, Cost, CostliestCpu, CpuModes, Info, InstrumentCost,
    Modes, OwnCost, OwnPart, Power, Sections, Snapshot, ZonePower, fixture,
};
use netto::config::Config;
use netto::features::FEATURES;
use netto::run::{self, Prepared};
use netto_pipeline::profile::{OpenProfile, Profile};
use netto_pipeline::trace_analyzer::{SnapshotSource, StackSource};
use tokio::sync::oneshot;

use crate::work;

/// How long a test waits for anything before it fails.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Tries until there is something: what must happen, however slow the host is.
pub fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until this is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, || is_so().then_some(()));
}

/// A component that the made-up host cannot show.
pub const HIDDEN: &str = "xdp_generic";

/// The made-up host: two CPUs, RAPL, one probe refused.
pub fn info() -> Info {
    Info {
        version: "9.9.9".to_owned(),
        kernel: "6.18.0-test".to_owned(),
        hostname: "testhost".to_owned(),
        boot_id: "b0071d".to_owned(),
        started_unix_ns: 1_700_000_000_000_000_000,
        user_period_ms: 50,
        components: ComponentInfo::table(|index| {
            if COMPONENTS[index].slug == HIDDEN {
                Availability::missing("no such function here")
            } else {
                Availability::by("tp_btf")
            }
        }),
        probes: vec![
            fixture::probe("softirq_entry", "tp_btf", None),
            fixture::probe("inet_sendmsg", "fentry", Some("not permitted")),
        ],
        power: Availability::by("rapl"),
        instruments: work::instruments(),
        notes: vec!["a made-up host".to_owned()],
        ..fixture::info()
    }
}

/// The made-up interval with this number; its values follow from the number, row and column.
pub fn snapshot(sequence: u64) -> Snapshot {
    Snapshot {
        sequence,
        time_unix_ns: 1_700_000_000_000_000_000 + sequence * 50_000_000,
        interval_ns: work::INTERVAL_NS,
        cpus: vec![0, 1],
        sections: Sections {
            cost: Some(Cost {
                components: COMPONENTS
                    .iter()
                    .enumerate()
                    .map(|(row, component)| {
                        let value = row as u64 * 1_000 + sequence;
                        (component.slug != HIDDEN).then(|| vec![value, 2 * value])
                    })
                    .collect(),
                entries: COMPONENTS
                    .iter()
                    .map(|component| (component.slug == "rx_syscall").then(|| vec![3, 1]))
                    .collect(),
                stacks_taken: vec![50, 40],
                stacks_lost: vec![0, 3],
                ..Cost::default()
            }),
            modes: Some(Modes {
                cpus: vec![CpuModes::from_values([1, 2, 3, 4, 5, 6, 7, 8]); 2],
                host: CpuModes::from_values([2, 4, 6, 8, 10, 12, 14, 16]),
            }),
            power: Some(Power {
                host_watts: 40.0,
                network_watts: 10.0,
                network_energy_joules: 0.5,
                network_capacity_watts: 2.0,
                network_capacity_energy_joules: 0.1,
                zones: vec![ZonePower {
                    zone: "package-0".to_owned(),
                    energy_joules: 2.0,
                }],
            }),
            traffic: Some(work::traffic()),
            drops: Some(work::drops()),
            programs: Some(work::programs()),
            slowest: Some(crate::owners::slowest()),
            intruders: Some(work::intruders()),
            latency: Some(work::latency()),
            flows: Some(work::flows()),
            advice: Some(work::setup()),
            health: Some(fixture::health()),
            own: Some(OwnCost {
                user_ns: 1_000_000,
                system_ns: 500_000,
                resident_bytes: 20 << 20,
                analysis_ns: 100_000,
                taken_ns: vec![Some(vec![1_000_000, 0]); OwnPart::ALL.len()],
                sampling_hz: Some(vec![250, 0]),
                costliest: Some(CostliestCpu {
                    cpu: 0,
                    ratio: 0.005,
                }),
                sample_price: Some(SamplePrice {
                    perf: Price {
                        ns: 480_000.0,
                        half_width_ns: 120_000.0,
                    },
                    tick: Some(Price {
                        ns: 35_000.0,
                        half_width_ns: 9_000.0,
                    }),
                    trials: 40,
                }),
                instruments: vec![InstrumentCost {
                    name: "cost".to_owned(),
                    analysis_ns: 2_000_000,
                }],
            }),
            owners: Some(crate::owners::made_up(sequence)),
            ..Sections::default()
        },
    }
}

fn cost(snapshot: &mut Snapshot) -> &mut Cost {
    snapshot.sections.cost.get_or_insert_default()
}

/// The behaviour of the made-up measurement after its last good interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// There is no last one.
    GoOn,
    /// Fails.
    Fail,
    /// Panics.
    Panic,
}

/// A made-up measurement.
pub struct Source {
    sequence: u64,
    intervals: u64,
    then: Then,
    padding: usize,
    /// Number of the snapshot with which [`HIDDEN`] is measured, if ever.
    reveals_at: Option<u64>,
    /// Counts requests for stacks.
    pub witness: Arc<Witness>,
}

impl Source {
    /// This many intervals, and then this behaviour.
    pub fn new(intervals: u64, then: Then) -> Self {
        Source {
            sequence: 0,
            intervals,
            then,
            padding: 0,
            reveals_at: None,
            witness: Arc::default(),
        }
    }

    /// Endless intervals; from this one on [`HIDDEN`] is measured.
    pub fn revealing(at: u64) -> Self {
        Source {
            reveals_at: Some(at),
            ..endless()
        }
    }

    /// Endless intervals with so many columns more, so that buffers fill.
    pub fn bulky(numbers: usize) -> Self {
        Source {
            padding: numbers,
            ..Source::new(u64::MAX, Then::GoOn)
        }
    }
}

/// Sees on which threads the made-up measurement is asked.
#[derive(Debug, Default)]
pub struct Witness {
    analyzer: Mutex<Option<ThreadId>>,
    folded: AtomicUsize,
}

impl Witness {
    fn analyzer(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.analyzer.lock().expect("nobody panics with it")
    }

    /// How often stacks have been folded.
    pub fn folded(&self) -> usize {
        self.folded.load(Ordering::SeqCst)
    }
}

impl StackSource for Witness {
    fn folded(&self) -> anyhow::Result<Folded> {
        let analyzer = *self.analyzer();
        assert_ne!(
            analyzer,
            Some(std::thread::current().id()),
            "a client's request on the analyzer's thread"
        );
        self.folded.fetch_add(1, Ordering::SeqCst);
        let mut folded = Folded {
            window_ns: 45_500_000_000,
            left_out: 2,
            ..Folded::default()
        };
        folded.add("rx_softirq", ["net_rx_action", "leaf"].into_iter(), 7);
        Ok(folded)
    }

    fn begin_profile(self: Arc<Self>) -> anyhow::Result<Box<dyn OpenProfile>> {
        Ok(Box::new(Witnessed(self)))
    }
}

/// A profile of what the witness has seen.
struct Witnessed(Arc<Witness>);

impl OpenProfile for Witnessed {
    fn end(self: Box<Self>) -> anyhow::Result<Profile> {
        Ok(Profile::of_folded(
            &StackSource::folded(&*self.0)?,
            1,
            1_000_000,
        ))
    }
}

impl SnapshotSource for Source {
    fn stacks(&self) -> Arc<dyn StackSource> {
        self.witness.clone()
    }

    fn next_snapshot(&mut self) -> anyhow::Result<Snapshot> {
        *self.witness.analyzer() = Some(std::thread::current().id());
        if self.sequence == self.intervals {
            match self.then {
                Then::GoOn => {}
                Then::Fail => anyhow::bail!("the clock of CPU 1 went backwards"),
                Then::Panic => panic!("lane 7 is on fire"),
            }
        }
        self.sequence += 1;
        let mut snapshot = snapshot(self.sequence);
        if self.reveals_at.is_some_and(|at| at <= self.sequence) {
            snapshot = revealed(snapshot);
        }
        let missed = &mut cost(&mut snapshot).probe_missed;
        missed.extend(std::iter::repeat_n(u64::MAX / 2, self.padding));
        Ok(snapshot)
    }

    fn new_info(&mut self) -> Option<Info> {
        (self.reveals_at == Some(self.sequence + 1)).then(revealed_info)
    }
}

/// The made-up host once it has loaded what [`HIDDEN`] needs.
pub fn revealed_info() -> Info {
    let mut info = info();
    for component in &mut info.components {
        component.availability = Availability::by("tp_btf");
    }
    info
}

/// The made-up interval with [`HIDDEN`] measured: 7 and 8 ns.
pub fn revealed(mut snapshot: Snapshot) -> Snapshot {
    let rows = cost(&mut snapshot).components.iter_mut();
    for row in rows.filter(|row| row.is_none()) {
        *row = Some(vec![7, 8]);
    }
    snapshot
}

/// A made-up measurement without end.
pub fn endless() -> Source {
    Source::new(u64::MAX, Then::GoOn)
}

/// Settings for a daemon on a port of the system's choice.
pub fn config() -> Config {
    Config {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        user_period: Duration::from_millis(50),
        ..Config::default()
    }
}

/// A daemon on a thread of this process; ends when dropped.
pub struct Daemon {
    /// Where it listens.
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    outcome: mpsc::Receiver<anyhow::Result<()>>,
}

impl Daemon {
    /// Starts a daemon with these settings.
    pub fn start(config: &Config, source: Source) -> Daemon {
        Daemon::prepared(
            run::bind(FEATURES, config).expect("the daemon can be prepared"),
            source,
        )
    }

    /// Starts a daemon that was prepared.
    pub fn prepared(prepared: Prepared, source: Source) -> Daemon {
        Daemon::serving(prepared, info(), source)
    }

    /// Starts a daemon of any host that was prepared.
    pub fn serving(prepared: Prepared, info: Info, source: impl SnapshotSource) -> Daemon {
        let address = prepared.local_addr().expect("the socket has an address");
        let (stop, stopped) = oneshot::channel();
        let (sender, outcome) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let stopped = async move {
                let _ = stopped.await;
                "the test is over".to_owned()
            };
            let _ = sender.send(prepared.serve_until(info, Box::new(source), stopped));
        });
        Daemon {
            address,
            stop: Some(stop),
            thread: Some(thread),
            outcome,
        }
    }

    /// Waits until it ends by itself.
    pub fn outcome(&self) -> anyhow::Result<()> {
        self.outcome.recv_timeout(LIMIT).expect("the daemon ends")
    }

    /// Asks it to end, and waits.
    pub fn stop(mut self) -> anyhow::Result<()> {
        drop(self.stop.take());
        self.outcome()
    }

    /// Asks again and again until the answer is good, and gives that.
    pub fn wait_for(&self, path: &str, good: impl Fn(&Answer) -> bool) -> Answer {
        eventually(path, || Some(get(self.address, path, &[])).filter(&good))
    }

    /// Waits for the first snapshot.
    pub fn ready(&self) {
        self.wait_for("/readyz", |answer| answer.status == 200);
    }

    /// Waits until the first snapshot is in the metrics, which another thread adds up.
    pub fn counted(&self) {
        self.wait_for("/metrics", |answer| {
            series(&answer.text(), "netto_snapshots_total", &[]) >= Some(1.0)
        });
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An answer to a request.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }
}

/// One GET request, on a connection of its own.
pub fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    request(connect(address), "GET", path, headers)
}

/// A connection that does not wait for ever.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the daemon accepts connections");
    stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
    stream
}

/// A connection of another user of this host, for which the test must be root.
pub fn connect_as(user: u32, address: SocketAddr) -> TcpStream {
    // SAFETY: setfsuid takes any number, and changes this thread only.
    unsafe { libc::setfsuid(user) };
    let stream = connect(address);
    // SAFETY: as above.
    let was = unsafe { libc::setfsuid(libc::geteuid()) };
    assert_eq!(was as u32, user, "only root can be another user");
    stream
}

/// One request on any kind of stream.
pub fn request(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text.push_str("Host: localhost\r\n");
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    stream
        .write_all(text.as_bytes())
        .expect("the request is sent");
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        // TLS without a close message, after everything has been said.
        assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof, "{error}");
    }
    let end = bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&bytes)));
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status");
    let body = bytes.split_off(end + 4);
    Answer { status, head, body }
}

/// The value of a series in a page of metrics, by name and labels in any order.
pub fn series(page: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    page.lines().find_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (found, rest) = series.split_once('{').unwrap_or((series, "}"));
        let pairs = rest.strip_suffix('}')?;
        let count = pairs.split(',').filter(|pair| !pair.is_empty()).count();
        let all = labels.iter().all(|(label, value)| {
            pairs
                .split(',')
                .any(|pair| pair == format!("{label}=\"{value}\""))
        });
        (found == name && count == labels.len() && all).then(|| value.parse().ok())?
    })
}

/// The messages of a log file, and the number of damaged stretches.
pub fn read_log(path: &Path) -> (Vec<metrics_common::codec::ServerMessage>, u64) {
    let file = std::fs::File::open(path).expect("the log is there");
    let mut reader = netto_log_format::LogReader::new(file).expect("it is a log");
    let messages = reader
        .by_ref()
        .map(|message| message.expect("it can be read"))
        .collect();
    (messages, reader.damaged_stretches())
}
