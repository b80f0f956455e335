//! One customer with many addresses against everybody else: while 64 addresses of one block attack,
//! a user of this host and a user from elsewhere get every answer within [`PROMISE`].

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use netto_sys::system::thread_cpu_ns;
use socket2::SockRef;

use crate::elsewhere::{HOST_V4, HOST_V6, Wire, connect_from};
use crate::process::Process;
use crate::support::*;

/// Longest time for an answer on a host that does nothing else, beside what a profile records.
const PROMISE: Duration = Duration::from_secs(2);
/// Addresses of the attackers.
const CROWD: usize = 64;
/// How often each user asks for everything while an attack lasts.
const ROUNDS: usize = 2;
const PORT: u16 = 10880;
const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n";

/// The block that the attackers' addresses are in.
#[derive(Debug, Clone, Copy)]
enum Block {
    /// 64 networks of /64 in one of /56.
    V6Slash56,
    /// 64 networks of /56 in one of /48.
    V6Slash48,
    /// 64 addresses in one network of /24.
    V4Slash24,
}

impl Block {
    fn address(self, number: usize) -> IpAddr {
        let v6 = |third, fourth| Ipv6Addr::new(0x2001, 0xdb8, third, fourth, 0, 0, 0, 1).into();
        let number = number as u16;
        match self {
            Block::V6Slash56 => v6(0x8000, number),
            Block::V6Slash48 => v6(0x8001, number << 8),
            Block::V4Slash24 => Ipv4Addr::new(198, 51, 100, number as u8 + 1).into(),
        }
    }

    /// Where netto is for them.
    fn host(self) -> SocketAddr {
        let host = match self {
            Block::V4Slash24 => HOST_V4,
            Block::V6Slash56 | Block::V6Slash48 => HOST_V6,
        };
        SocketAddr::new(host.parse().expect("an address"), PORT)
    }

    /// An address of the same family that is in no block of the attackers'.
    fn elsewhere(self) -> IpAddr {
        match self {
            Block::V4Slash24 => Ipv4Addr::new(198, 51, 7, 7).into(),
            Block::V6Slash56 | Block::V6Slash48 => {
                Ipv6Addr::new(0x2001, 0xdb8, 0x9000, 0, 0, 0, 0, 7).into()
            }
        }
    }
}

/// What each address of the crowd asks for, as often as it gets an answer.
struct Attack {
    name: &'static str,
    /// Requests a second of all together, after the first of each.
    rate: f64,
    /// Path and further headers of the request with this number.
    request: fn(usize) -> (String, String),
    /// They take nothing of the answer.
    is_deaf: bool,
}

const QUESTIONS: Attack = Attack {
    name: "questions",
    rate: 4.0,
    request: |number| {
        let path = format!("/api/v1/owners?last=15m&limit={}", 1 + number % 500);
        (path, String::new())
    },
    is_deaf: false,
};
const DASHBOARDS: Attack = Attack {
    name: "dashboards",
    rate: 8.5,
    request: |_| ("/ws?history".into(), UPGRADE.into()),
    is_deaf: true,
};
const DUMPS: Attack = Attack {
    name: "dumps",
    rate: 8.5,
    request: |_| ("/api/v1/dump".into(), String::new()),
    is_deaf: true,
};
const PROFILES: Attack = Attack {
    name: "profiles",
    rate: 8.5,
    request: |_| ("/debug/pprof/profile?seconds=60".into(), String::new()),
    is_deaf: true,
};
const PASSWORDS: Attack = Attack {
    name: "passwords",
    rate: 8.5,
    // "ali:close sesame"
    request: |_| {
        (
            "/healthz".into(),
            "Authorization: Basic YWxpOmNsb3NlIHNlc2FtZQ==\r\n".into(),
        )
    },
    is_deaf: false,
};

impl Attack {
    /// Attacks from a block until told to stop; run inside of the namespace beyond the wire.
    fn run(&self, block: Block, until: &AtomicBool, sent: &AtomicUsize) {
        let mut crowd: Vec<Option<TcpStream>> = (0..CROWD).map(|_| None).collect();
        let mut due = Instant::now();
        for number in 0.. {
            let place = &mut crowd[number % CROWD];
            if place.as_mut().is_none_or(|stream| self.has_ended(stream)) {
                *place = self.send(block, number);
                sent.fetch_add(1, Ordering::Relaxed);
            }
            if number >= CROWD {
                due += Duration::from_secs_f64(1.0 / self.rate);
            }
            loop {
                if until.load(Ordering::Relaxed) {
                    return;
                }
                let left = due.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                std::thread::sleep(left.min(Duration::from_millis(20)));
            }
        }
    }

    fn send(&self, block: Block, number: usize) -> Option<TcpStream> {
        let from = Some(block.address(number % CROWD));
        let buffer = self.is_deaf.then_some(4096);
        let mut stream = connect_from(from, block.host(), buffer).ok()?;
        let (path, headers) = (self.request)(number);
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        stream.set_nonblocking(true).ok()?;
        Some(stream)
    }

    /// Whether it may ask again: it has an answer, or was cut off.
    fn has_ended(&self, stream: &mut TcpStream) -> bool {
        let mut chunk = [0; 4096];
        let seen = if self.is_deaf {
            stream.peek(&mut chunk)
        } else {
            stream.read(&mut chunk)
        };
        match seen {
            // A refusal; the head of a deaf client's answer stays unread.
            Ok(length) => !self.is_deaf || length == 0 || chunk.starts_with(b"HTTP/1.1 5"),
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// One answer, or what came instead.
struct Tried {
    path: String,
    status: Result<u16, std::io::Error>,
    took: Duration,
}

/// One request.
fn ask(from: Option<IpAddr>, to: SocketAddr, path: &str, headers: &str) -> Tried {
    let begun = Instant::now();
    let answer = || {
        let mut stream = connect_from(from, to, None)?;
        let close = if headers.contains("Upgrade") {
            ""
        } else {
            "Connection: close\r\n"
        };
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{close}{headers}\r\n");
        stream.write_all(request.as_bytes())?;
        let mut bytes = vec![0; 12];
        stream.read_exact(&mut bytes)?;
        if !close.is_empty() {
            stream.read_to_end(&mut bytes)?;
        }
        let status = String::from_utf8_lossy(&bytes[9..12]).parse();
        status.map_err(|_| ErrorKind::InvalidData.into())
    };
    let status = answer();
    Tried {
        path: path.to_owned(),
        status,
        took: begun.elapsed(),
    }
}

/// How much longer this host takes for work than alone, because of other work; four times at most.
fn stretch(until: &AtomicBool) -> f64 {
    let (mut wall, mut cpu_ns) = (Duration::ZERO, 0);
    while !until.load(Ordering::Relaxed) {
        let (begun, begun_ns) = (Instant::now(), thread_cpu_ns());
        while thread_cpu_ns() < begun_ns + 10_000_000 {
            std::hint::spin_loop();
        }
        wall += begun.elapsed();
        cpu_ns += thread_cpu_ns() - begun_ns;
        std::thread::sleep(Duration::from_millis(90));
    }
    (wall.as_secs_f64() / Duration::from_nanos(cpu_ns).as_secs_f64()).clamp(1.0, 4.0)
}

/// netto in a namespace of its own.
struct Besieged {
    wire: Wire,
    _process: Process,
}

/// Where a user of its host finds it.
fn loopback() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))
}

impl Besieged {
    fn start(arguments: &str, headers: &str) -> Besieged {
        let wire = Wire::new();
        let arguments =
            format!("--address :: --port {PORT} --cpus 16 --user-period 200 {arguments}");
        let process = Process::inside(&wire.host, &arguments);
        let besieged = Besieged {
            wire,
            _process: process,
        };
        besieged.wire.host.inside(|| {
            until("its first snapshot", || {
                let tried = ask(None, loopback(), "/readyz", headers);
                matches!(tried.status, Ok(200))
            });
        });
        besieged
    }

    /// Asks for all of these paths while the attack lasts, as a user of the host and as one from
    /// elsewhere; what was not as promised.
    fn withstand(
        &self,
        attack: &Attack,
        block: Block,
        paths: &[&str],
        users: &Users,
    ) -> Vec<String> {
        let (over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
        let Wire { host, beyond } = &self.wire;
        let all = |from: Option<IpAddr>, to| {
            let mut tried = Vec::new();
            for _ in 0..ROUNDS {
                for path in paths {
                    let mut headers = users.next();
                    if *path == "/ws" {
                        headers.push_str(UPGRADE);
                    }
                    tried.push(ask(from, to, path, &headers));
                }
            }
            tried
        };
        let (tried, stretch) = std::thread::scope(|scope| {
            let attacking = scope.spawn(|| {
                beyond.inside(|| attack.run(block, &over, &sent));
            });
            let stretch = scope.spawn(|| stretch(&over));
            until("the crowd is there", || {
                sent.load(Ordering::Relaxed) >= CROWD
            });
            // Until what it has asked for stands.
            std::thread::sleep(Duration::from_millis(300));
            let near = scope.spawn(|| host.inside(|| all(None, loopback())));
            let far = scope.spawn(|| beyond.inside(|| all(Some(block.elsewhere()), block.host())));
            let tried = [("here", near), ("elsewhere", far)]
                .map(|(who, tried)| (who, tried.join().expect("no panic")));
            over.store(true, Ordering::Relaxed);
            attacking.join().expect("no panic");
            (tried, stretch.join().expect("no panic"))
        });
        let sent = sent.into_inner();
        let mut broken = Vec::new();
        for (who, tried) in tried {
            let count = tried.len();
            let longest = tried
                .iter()
                .map(|tried| tried.took)
                .max()
                .unwrap_or_default();
            let before = broken.len();
            for Tried { path, status, took } in tried {
                let work = Duration::from_secs(u64::from(path.contains("seconds=1")));
                let is_answered = matches!(status, Ok(200 | 101));
                if !is_answered || took > PROMISE.mul_f64(stretch) + work {
                    broken.push(format!(
                        "{} {block:?} {who} {path}: {status:?} after {took:?}",
                        attack.name
                    ));
                }
            }
            println!(
                "{} from {block:?}, {sent} requests: {who} {} of {count} as promised, longest {longest:?}, host {stretch:.1}",
                attack.name,
                count + before - broken.len(),
            );
        }
        broken
    }
}

/// Users with right passwords that were not asked for before, so that each has to be checked.
struct Users(Option<AtomicUsize>);

impl Users {
    fn next(&self) -> String {
        let Some(next) = &self.0 else {
            return String::new();
        };
        let number = next.fetch_add(1, Ordering::Relaxed);
        assert!(number < MOST_USERS, "more users are needed");
        basic(&format!("user{number}:open sesame"))
    }
}

const MOST_USERS: usize = 64;

fn basic(text: &str) -> String {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(text);
    format!("Authorization: Basic {encoded}\r\n")
}

#[test]
fn of_one_customer_who_asks_shuts_out_nobody() {
    let besieged = Besieged::start("--max-clients 16", "");
    let question = "/api/v1/history?component=gro&step=1000";
    let everything = ["/healthz", "/metrics", "/", question, "/api/v1/dump", "/ws"];
    let profile = ["/healthz", "/debug/pprof/profile?seconds=1"];
    let mut broken = Vec::new();
    for (attack, block, paths) in [
        (&QUESTIONS, Block::V6Slash56, &everything[..]),
        (&QUESTIONS, Block::V4Slash24, &everything),
        (&DASHBOARDS, Block::V6Slash56, &everything),
        (&DASHBOARDS, Block::V6Slash48, &everything),
        (&DUMPS, Block::V6Slash48, &everything),
        (&DUMPS, Block::V4Slash24, &everything),
        (&PROFILES, Block::V6Slash56, &profile),
    ] {
        broken.extend(besieged.withstand(attack, block, paths, &Users(None)));
    }
    assert!(broken.is_empty(), "{} {broken:#?}", broken.len());
}

#[test]
fn of_one_customer_who_guesses_passwords_keeps_out_nobody_who_knows_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("web.yml");
    // One check takes a tenth of a second in a debug build, so that 8.5 a second wait for each other.
    let hash = bcrypt::hash("open sesame", COST).expect("a hash");
    let users = (0..MOST_USERS).map(|number| format!("  user{number}: {hash}\n"));
    let users = format!(
        "basic_auth_users:\n  ali: {hash}\n{}",
        users.collect::<String>()
    );
    std::fs::write(&file, users).expect("written");
    let arguments = format!("--web.config.file {}", file.display());
    let begun = Instant::now();
    let besieged = Besieged::start(&arguments, &basic("ali:open sesame"));
    println!("ready after {:?}", begun.elapsed());
    let users = Users(Some(AtomicUsize::new(0)));
    let mut broken = Vec::new();
    for block in [Block::V6Slash56, Block::V6Slash48, Block::V4Slash24] {
        let paths = ["/healthz", "/metrics", "/", "/healthz"];
        broken.extend(besieged.withstand(&PASSWORDS, block, &paths, &users));
    }
    assert!(broken.is_empty(), "{} {broken:#?}", broken.len());
}

/// Of bcrypt.
const COST: u32 = 6;

/// What a client does with its connection; what is still held of it.
type End = fn(TcpStream) -> Option<TcpStream>;

#[test]
fn a_profile_ends_soon_after_its_client_has_gone() {
    let process = Process::start("", "--cpus 2");
    process.warm_up();
    let profile = b"GET /debug/pprof/profile?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let ends: [(&str, End); 3] = [
        ("FIN", |_| None),
        ("RST", |stream| {
            let linger = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            linger.expect("a reset");
            None
        }),
        ("half-close", |stream| {
            stream.shutdown(Shutdown::Write).expect("shut down");
            Some(stream)
        }),
    ];
    for (name, end) in ends {
        let taken: Vec<_> = (0..8)
            .map(|_| {
                let mut stream = connect(process.address);
                stream.write_all(profile).expect("sent");
                stream
            })
            .collect();
        // The four that got no place have been told so.
        until("all places are taken", || {
            taken.iter().filter(|stream| is_answered(stream)).count() == 4
        });
        let begun = Instant::now();
        let _half: Vec<_> = taken.into_iter().filter_map(end).collect();
        until("free places", || {
            get(process.address, "/debug/pprof/profile?seconds=1", &[]).status == 200
        });
        // A second of it is the profile's own.
        let took = begun.elapsed();
        println!("{name}: {took:?}");
        assert!(took < Duration::from_secs(20), "{name}: {took:?}");
    }
}

fn is_answered(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("set");
    stream.peek(&mut [0; 12]).is_ok_and(|length| length == 12)
}
