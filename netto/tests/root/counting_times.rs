//! What the calls that are counted take: by the sender's own clock, and where the probe of a
//! return was missed.

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::copies::{LARGE, thread_time};
use crate::follow::Followed;
use crate::lab::Namespace;
use crate::traffic::agent_to_end;

/// More threads that wait in a receive than a kretprobe has room for: the
/// kernel's default is 10 returns, or two for each CPU if that is more.
const WAITING: usize = 64;
/// CPU time that each thread takes after its receive, outside the kernel's sockets.
const AFTERWARDS: Duration = Duration::from_millis(10);

/// Every thread waits in a receive, is sent a datagram, and then works on. Where
/// the return from the receive went unseen, the work must not count as receiving.
pub fn many_waiting_receivers(daemon: &mut Followed) -> Result<()> {
    let cpus = std::thread::available_parallelism()?.get();
    ensure!(cpus <= 16, "not enough threads for {cpus} CPUs");
    let receives = daemon.entries("rx_syscall")?;
    let time_ns = daemon.time_ns("rx_syscall")?;
    let mut threads = Vec::new();
    let mut senders = Vec::new();
    for _ in 0..WAITING {
        let far = UdpSocket::bind("127.0.0.1:0")?;
        let near = UdpSocket::bind("127.0.0.1:0")?;
        near.connect(far.local_addr()?)?;
        far.set_read_timeout(Some(Duration::from_secs(60)))?;
        senders.push(near);
        threads.push(std::thread::spawn(move || -> Result<()> {
            far.recv(&mut [0; SMALL_DATAGRAM])?;
            let enough = thread_time()? + AFTERWARDS;
            while thread_time()? < enough {
                std::hint::spin_loop();
            }
            Ok(())
        }));
    }
    for _ in 0..50 {
        daemon.catch_up()?;
        if daemon.entries("rx_syscall")? - receives >= WAITING as u64 {
            break;
        }
    }
    for near in &senders {
        near.send(&[1; SMALL_DATAGRAM])?;
    }
    for thread in threads {
        thread
            .join()
            .map_err(|_| anyhow::anyhow!("a receiver panicked"))??;
    }
    daemon.catch_up()?;
    let receives = daemon.entries("rx_syscall")? - receives;
    let time_ms = (daemon.time_ns("rx_syscall")? - time_ns) as f64 / 1e6;
    let work_ms = (WAITING as u32 * AFTERWARDS).as_secs_f64() * 1e3;
    println!("\n{receives} receives took {time_ms:.1} ms, the work after them {work_ms:.0} ms");
    ensure!(
        receives == WAITING as u64,
        "{receives} receives counted, {WAITING} made"
    );
    // In guests: 7 and 20 ms; without the look at the return address it was 769 ms.
    ensure!(
        time_ms < work_ms / 3.0,
        "the work after a receive was taken for receiving"
    );
    Ok(())
}

/// Bytes of a datagram whose copying takes no time to speak of.
const SMALL_DATAGRAM: usize = 16;

/// Number of copies.
const COPIES: usize = 400;
/// Number of measurements; the median is checked, so that one disturbed measurement does not
/// matter.
const MEASUREMENTS: usize = 5;
/// By how much the two clocks may differ, as a share of the sender's own.
const TOLERANCE: f64 = 0.10;

/// Makes the statement fair: the datagrams go to a device that drops them, whole,
/// so nobody receives and no softirq runs on the sender's account; what the
/// sender's own clock sees beyond netto's is the way into the kernel and back.
pub fn large_copies(daemon: &mut Followed) -> Result<()> {
    let namespace = Namespace::new()?;
    namespace.ip("link add sink type dummy")?;
    namespace.ip("link set sink mtu 65535 up")?;
    namespace.ip("address add 10.78.0.1/24 dev sink")?;
    println!();
    let mut differences = Vec::new();
    for _ in 0..MEASUREMENTS {
        differences.push(difference_of_clocks(daemon, &namespace)?);
    }
    differences.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let median = differences[MEASUREMENTS / 2];
    ensure!(
        median.abs() <= TOLERANCE,
        "netto's clock and the sender's differ by {:+.1} % in the median of {differences:+.3?}",
        100.0 * median
    );
    Ok(())
}

/// By how much netto's time of some sends exceeds the sender's own, as a share of the latter.
fn difference_of_clocks(daemon: &mut Followed, namespace: &Namespace) -> Result<f64> {
    daemon.catch_up()?;
    let (sends, time_ns) = (daemon.entries("tx_syscall")?, daemon.time_ns("tx_syscall")?);
    let printed = agent_to_end(
        namespace,
        &["udp-copy", "10.78.0.2:9", &COPIES.to_string(), "1"],
    )?;
    daemon.catch_up()?;
    let own_ns: f64 = printed.trim().parse().with_context(|| printed.clone())?;
    let time_ns = (daemon.time_ns("tx_syscall")? - time_ns) as f64;
    let sends = daemon.entries("tx_syscall")? - sends;
    let difference = (time_ns - own_ns) / own_ns;
    println!(
        "{sends} sends of {LARGE} bytes: {:.0} ns each by netto, {:.0} ns by the sender's own \
         clock: {:+.1} %",
        time_ns / COPIES as f64,
        own_ns / COPIES as f64,
        100.0 * difference
    );
    ensure!(
        sends == COPIES as u64,
        "{sends} sends counted, {COPIES} made"
    );
    Ok(difference)
}
