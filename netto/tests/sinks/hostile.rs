//! What clients without a password can cost the real program: the bounds that
//! `docs/SECURITY.md` states, under each attack that it names.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::Process;
use crate::support::*;
use netto_http::admission;
use socket2::SockRef;

/// Responses being sent: each version is shared by all readers.
const ANSWERS_BYTES: usize = 8 << 20;

/// How much may be left when all is over: the allocator's own granularity.
const LEFT_BYTES: usize = 4 << 20;

/// Duration of an attack.
const ATTACK: Duration = Duration::from_secs(3);

const UPGRADE: &str = "GET /ws?history HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n";

/// A connection of one of many parties, which on loopback are users.
fn connect_of(number: u8, address: SocketAddr) -> TcpStream {
    let stream = connect_as(10_000 + u32::from(number), address);
    stream.set_nonblocking(true).expect("set up");
    stream
}

/// Sends as much as is taken at once; whether the connection still stands.
fn push(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    let taken = stream.write(bytes);
    taken.map_or_else(
        |error| error.kind() == ErrorKind::WouldBlock,
        |taken| taken > 0,
    )
}

/// Repeats a step while the attack lasts, and checks that memory stays below the
/// bound and that a stranger is still answered.
fn attack(process: &Process, idle: usize, name: &str, mut step: impl FnMut(usize)) {
    let bound = idle + admission::ADMISSION_BYTES + ANSWERS_BYTES;
    let begun = Instant::now();
    let mut peak = 0;
    for round in 0.. {
        step(round);
        peak = peak.max(process.resident());
        assert!(
            peak <= bound,
            "{name}: {peak} bytes are more than {idle} and the stated bound"
        );
        if begun.elapsed() > ATTACK {
            break;
        }
    }
    for path in ["/healthz", "/metrics"] {
        assert_eq!(get(process.address, path, &[]).status, 200, "{name}");
    }
    println!(
        "{name}: {} KiB idle, {} KiB above at most",
        idle >> 10,
        peak.saturating_sub(idle) >> 10
    );
}

/// Checks that resources are released once the attackers are gone.
fn check_recovery(process: &Process, idle: usize, name: &str) {
    let left = process.resident_once_below(idle + LEFT_BYTES);
    assert!(
        left <= idle + LEFT_BYTES,
        "{name}: {left} bytes are kept, {idle} before"
    );
}

#[test]
fn a_frame_is_refused_by_its_header() {
    let process = Process::start("", "--cpus 16");
    let idle = process.warm_up();
    let mut header = vec![0x82, 0xff];
    header.extend_from_slice(&(1u64 << 40).to_be_bytes());
    header.extend_from_slice(&[1, 2, 3, 4]);
    let flood = vec![0; 1 << 16];
    let mut attackers: Vec<_> = (0..16)
        .map(|_| {
            let mut stream = connect(process.address);
            stream.write_all(UPGRADE.as_bytes()).expect("sent");
            let mut answer = [0; 12];
            stream.read_exact(&mut answer).expect("an answer");
            assert_eq!(&answer, b"HTTP/1.1 101");
            stream.write_all(&header).expect("sent");
            stream.set_nonblocking(true).expect("set up");
            stream
        })
        .collect();
    attack(&process, idle, "huge frames", |_| {
        attackers.retain_mut(|stream| push(stream, &flood));
    });
    assert!(attackers.is_empty(), "they are cut off");
    check_recovery(&process, idle, "huge frames");
}

#[test]
fn pipelined_requests_wait_outside() {
    let process = Process::start("", "--cpus 16");
    let idle = process.warm_up();
    for (name, request) in [
        (
            "pipelined metrics",
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ),
        ("pipelined heads", "HEAD / HTTP/1.0\r\n\r\n"),
        (
            "pipelined posts",
            "POST /ws HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nf\r\n123456789abcdef\r\n",
        ),
        (
            "files unpacked",
            "GET /netto_dashboard_bg.wasm HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ),
    ] {
        let requests = request.repeat(3000);
        let mut attackers: Vec<_> = (0..120)
            .map(|number| connect_of(2 + number % 60, process.address))
            .collect();
        attack(&process, idle, name, |_| {
            for stream in &mut attackers {
                push(stream, requests.as_bytes());
            }
        });
        drop(attackers);
        check_recovery(&process, idle, name);
    }
}

#[test]
fn idle_connections_give_way_to_new_ones() {
    let process = Process::start("", "--cpus 16");
    let idle = process.warm_up();
    for (name, addresses) in [("idle, one address", 1), ("idle, thirty addresses", 30)] {
        let open = |number: usize| {
            let mut stream = connect_of(2 + (number % addresses) as u8, process.address);
            push(
                &mut stream,
                b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n",
            );
            stream
        };
        let mut attackers: Vec<_> = (0..200).map(open).collect();
        attack(&process, idle, name, |round| {
            for (number, stream) in attackers.iter_mut().enumerate() {
                // They ask on, so that none is closed for being idle, and come back.
                let mut answer = [0; 4096];
                let is_closed = match stream.read(&mut answer) {
                    Ok(0) => true,
                    Ok(_) => false,
                    Err(error) => error.kind() != ErrorKind::WouldBlock,
                };
                if is_closed
                    || (round % 20 == 0
                        && !push(stream, b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"))
                {
                    *stream = open(number);
                }
            }
        });
        drop(attackers);
        check_recovery(&process, idle, name);
    }
}

#[test]
fn heads_that_do_not_end_are_not_waited_for() {
    let process = Process::start("", "--cpus 16");
    let idle = process.warm_up();
    let mut attackers: Vec<_> = (0..200)
        .map(|number| connect_of(2 + number % 60, process.address))
        .collect();
    attack(&process, idle, "slow heads", |round| {
        for stream in &mut attackers {
            let bytes: &[u8] = if round == 0 {
                b"GET / HTTP/1.1\r\n"
            } else {
                b"a: b\r\n"
            };
            push(stream, bytes);
        }
        std::thread::sleep(Duration::from_millis(50));
    });
    // A second request's head has no more time than a first one's.
    let mut second = connect(process.address);
    second
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\n")
        .expect("sent");
    let begun = Instant::now();
    let mut answer = String::new();
    second.read_to_string(&mut answer).expect("it is closed");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(begun.elapsed() < LIMIT / 2, "after the time for one head");
    drop(attackers);
    check_recovery(&process, idle, "slow heads");
}

#[test]
fn large_heads_are_refused() {
    let process = Process::start("", "--cpus 16");
    let idle = process.warm_up();
    let mut attackers: Vec<_> = (0..120)
        .map(|number| connect_of(2 + number % 60, process.address))
        .collect();
    let line = format!("x: {}\r\n", "y".repeat(8000));
    attack(&process, idle, "large heads", |round| {
        for stream in &mut attackers {
            let begin = if round == 0 { "GET / HTTP/1.1\r\n" } else { "" };
            push(stream, format!("{begin}{line}").as_bytes());
        }
    });
    drop(attackers);
    check_recovery(&process, idle, "large heads");
    let cookie = |length: usize| {
        let value = "c".repeat(length);
        get(process.address, "/healthz", &[("Cookie", &value)]).status
    };
    assert_eq!(cookie(admission::MAX_HEAD_BYTES - 1000), 200);
    assert_eq!(cookie(admission::MAX_HEAD_BYTES), 431);
}

#[test]
fn malformed_requests_are_counted_and_not_logged_one_by_one() {
    let process = Process::start("", "--cpus 16");
    let idle = process.warm_up();
    process.lines();
    let mut sent = 0;
    attack(&process, idle, "malformed", |_| {
        let mut stream = connect(process.address);
        stream.write_all(b"\x16\x03\x01\x00\r\n\r\n").expect("sent");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{answer:?}");
        sent += 1;
    });
    assert!(sent > 1, "{sent}");
    let lines = process.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("could not be understood"), "{lines:?}");
    until(&format!("{sent} malformed requests are counted"), || {
        let page = get(process.address, "/metrics", &[]).text();
        series(&page, "netto_http_malformed_requests_total", &[]) == Some(f64::from(sent))
    });
}

#[test]
fn dashboards_that_do_not_read_cost_their_past_once() {
    let process = Process::start("", "--cpus 16 --max-clients 16");
    let idle = process.warm_up();
    let mut longest = 0;
    let (mut socket, _) = tungstenite::client(
        format!("ws://{}/ws?history", process.address),
        connect(process.address),
    )
    .expect("a WebSocket");
    for _ in 0..8 {
        longest = longest.max(socket.read().expect("a message").len());
    }
    drop(socket);
    let deaf: Vec<_> = (0..16)
        .map(|number| {
            let mut stream = connect_of(2 + number, process.address);
            push(&mut stream, UPGRADE.as_bytes());
            stream
        })
        .collect();
    let begun = Instant::now();
    let mut peak = 0;
    while begun.elapsed() < ATTACK {
        peak = peak.max(process.resident());
        std::thread::sleep(Duration::from_millis(20));
    }
    let bound = idle + deaf.len() * (admission::CONNECTION_BYTES + 3 * longest);
    println!(
        "deaf dashboards: {} KiB idle, past of {} KiB, {} KiB above at most",
        idle >> 10,
        longest >> 10,
        peak.saturating_sub(idle) >> 10
    );
    assert!(peak <= bound, "{peak} bytes, {bound} at most");
}

/// Bytes of answers that wait in the kernel, of all connections or of that with one client's port.
fn unsent(process: &Process, port: Option<u16>) -> usize {
    let filter = format!("sport = :{}", process.address.port());
    let sockets = Command::new("ss").args(["-tnH", &filter]).output();
    let sockets = String::from_utf8(sockets.expect("ss runs").stdout).expect("text");
    let is_meant = |line: &&str| {
        port.is_none_or(|port| {
            line.split_whitespace()
                .last()
                .is_some_and(|peer| peer.ends_with(&format!(":{port}")))
        })
    };
    let column = |line: &str| line.split_whitespace().nth(2)?.parse::<usize>().ok();
    sockets.lines().filter(is_meant).filter_map(column).sum()
}

/// Readers of pages of a host of so many CPUs that take nothing of them, each of another version or
/// another form: what they hold in netto and in the kernel.
fn read_versions_slowly(cpus: usize) {
    let process = Process::start("", &format!("--cpus {cpus} --user-period 200"));
    let idle = process.warm_up();
    let (mut readers, mut peak) = (Vec::new(), 0);
    while readers.len() < 40 {
        for form in ["text/plain", "application/openmetrics-text;version=1.0.0"] {
            let mut stream = connect_as(10_001, process.address);
            let buffer = SockRef::from(&stream).set_recv_buffer_size(4096);
            buffer.expect("a small window");
            let head =
                format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {form}\r\n\r\n");
            stream.write_all(head.as_bytes()).expect("sent");
            // An answer, or a refusal.
            let _ = stream.peek(&mut [0; 1]);
            readers.push(stream);
        }
        // Until another version.
        std::thread::sleep(Duration::from_millis(250));
        peak = peak.max(process.resident() + unsent(&process, None));
    }
    let page = get(process.address, "/metrics", &[]).body.len();
    let above = peak.saturating_sub(idle);
    // Beside what is held, the newest of each form is, and the next ones are made.
    let of_connections =
        admission::ACTIVE * (4 * admission::SLICE_BYTES + 3 * admission::SOCKET_BYTES);
    let bound = admission::most_bytes(cpus) + of_connections + 6 * page;
    println!(
        "{} slow readers, pages of {page}: {above} above {idle}, at most {bound}",
        readers.len()
    );
    assert!(above <= bound, "{above} bytes, {bound} at most");
}

#[test]
fn slow_readers_of_different_versions_hold_no_more_than_is_shared() {
    read_versions_slowly(128);
}

#[test]
#[ignore = "long: half a minute of 1,024 CPUs; `cargo test -p netto --test sinks -- --ignored of_1024`"]
fn slow_readers_of_1024_cpus_hold_no_more_than_is_shared() {
    read_versions_slowly(1024);
}

#[test]
fn the_kernel_holds_little_of_an_answer_that_nobody_reads() {
    let process = Process::start("", "--cpus 128");
    process.warm_up();
    let page = get(process.address, "/metrics", &[]).body.len();
    assert!(page > 1 << 20, "{page}");
    let mut stream = connect(process.address);
    // The client's own buffer takes the rest.
    let buffer = SockRef::from(&stream).set_recv_buffer_size(4096);
    buffer.expect("a small window");
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).expect("sent");
    let port = stream.local_addr().expect("an address").port();
    let mut most = 0;
    until("the answer is stuck", || {
        std::thread::sleep(Duration::from_millis(200));
        let before = std::mem::replace(&mut most, unsent(&process, Some(port)));
        most > 0 && most == before
    });
    println!("{most} of {page} bytes unsent");
    assert!(most <= 3 * admission::SOCKET_BYTES, "{most}");
}

#[test]
fn few_descriptors_mean_few_dashboards_and_that_is_said() {
    let few = admission::UNAUTHENTICATED + admission::ACTIVE + admission::CLOSING + 32 + 64;
    let process = Process::start(&format!("ulimit -n {few};"), "--cpus 2 --max-clients 64");
    process.warm_up();
    let warning = process.line_before_serving("LimitNOFILE");
    assert!(warning.contains("dashboards instead of 64"), "{warning}");
    // More clients than there are descriptors for, of every kind.
    let attackers: Vec<_> = (0..400u16)
        .map(|number| {
            let mut stream = connect_of((2 + number % 200) as u8, process.address);
            let text = if number % 2 == 0 {
                UPGRADE
            } else {
                "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            };
            push(&mut stream, text.as_bytes());
            stream
        })
        .collect();
    let snapshots = || {
        let page = get(process.address, "/metrics", &[]).text();
        series(&page, "netto_snapshots_total", &[]).expect("a count")
    };
    let before = snapshots();
    until("it measures on", || snapshots() >= before + 3.0);
    drop(attackers);
}
