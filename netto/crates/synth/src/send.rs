//! Packets to an interface, each when it is due, as many at once as are due.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::kernel::{Sender, Way, sleep_exactly};
use crate::lateness::Lateness;
use crate::packet::{Link, Packet};
use crate::passes::Timed;
use crate::plan::Pace;
use crate::progress::{Progress, State};
use crate::summary::{LATE_NS, LatenessSummary, Summary};

/// Packets of one call at most: more make the first of them later.
const BATCH: usize = 64;
/// Packets on their way at most, where another thread sends them.
const WINDOW: usize = 2048;
/// The kernel may wake up so much too late, and so this thread waits without sleep at the end.
const AWAKE: Duration = Duration::from_micros(200);
/// A sleep is no longer, so that signals and progress are seen to.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// A receiver without room is given so long to make some.
const RETRY: Duration = Duration::from_micros(20);

/// What is common to all packets.
pub struct Sending<'a> {
    /// What sends.
    pub sender: Sender,
    /// What precedes IP.
    pub link: Link,
    /// When packets are due.
    pub pace: Pace,
    /// Set when the user has had enough.
    pub stop: &'a AtomicBool,
}

/// A packet that was written and is not yet with the kernel.
struct Waiting {
    due_ns: u64,
    bytes: u16,
    link_bytes: u16,
}

impl Sending<'_> {
    /// Sends all packets that `next` gives, and counts them in the summary. `share` is asked how much
    /// of all is done after so many nanoseconds of the records.
    ///
    /// # Errors
    /// Those of `next`, or the kernel refuses a packet.
    pub fn all(
        mut self,
        summary: &mut Summary,
        mut next: impl FnMut() -> anyhow::Result<Option<Timed>>,
        share: impl Fn(u64) -> Option<f64>,
    ) -> anyhow::Result<()> {
        summary.sent_by = Some(match self.sender.way() {
            Way::Ring => "ring",
            Way::Messages => "sendmmsg",
        });
        let is_paced = !self.pace.is_unpaced();
        let mut lateness = Lateness::new(LATE_NS);
        let mut progress = Progress::new();
        let window = if self.sender.is_helped() {
            WINDOW
        } else {
            BATCH
        };
        let mut waiting = VecDeque::with_capacity(window);
        let mut coming = due(next()?, &mut self.pace);
        let begun = Instant::now();
        let mut late_ns = 0;
        let mut done_ns = 0;
        let outcome = loop {
            if self.stop.load(Ordering::Relaxed) {
                break Ok(());
            }
            let now_ns = elapsed_ns(begun);
            let before = waiting.len();
            for _ in 0..BATCH.min(window - before) {
                let Some((due_ns, timed)) = &coming else {
                    break;
                };
                if *due_ns > now_ns || !self.put(&timed.packet, *due_ns, &mut waiting) {
                    break;
                }
                done_ns = timed.offset_ns;
                match next() {
                    Ok(timed) => coming = due(timed, &mut self.pace),
                    Err(error) => {
                        summary.seconds = begun.elapsed().as_secs_f64();
                        // What is written is whole, and goes out.
                        self.sender.end_help();
                        self.hand_over(&mut waiting, summary, |_| {})?;
                        return Err(error);
                    }
                }
            }
            if !waiting.is_empty() {
                let has_more = waiting.len() > before;
                let handed = self.hand_over(&mut waiting, summary, |due_ns| {
                    if is_paced {
                        late_ns = elapsed_ns(begun).saturating_sub(due_ns);
                        lateness.add(late_ns);
                    }
                });
                match handed {
                    Ok(0) if !has_more => sleep_exactly(RETRY),
                    Ok(_) => {}
                    Err(error) => break Err(error),
                }
            } else {
                match &coming {
                    None => {
                        summary.is_whole = true;
                        break Ok(());
                    }
                    Some((due_ns, _)) if *due_ns > now_ns => wait(begun, *due_ns),
                    // The slots of packets that a driver still sends.
                    Some(_) => sleep_exactly(RETRY),
                }
            }
            progress.tick(Instant::now(), || State {
                packets: summary.packets,
                late_ns: is_paced.then_some(late_ns),
                share: share(done_ns),
            });
        };
        if outcome.is_ok() && !waiting.is_empty() {
            // Stopped with packets that the other thread has not seen to.
            self.sender.end_help();
            self.hand_over(&mut waiting, summary, |_| {})?;
        }
        summary.seconds = begun.elapsed().as_secs_f64();
        summary.lateness = LatenessSummary::of(&lateness);
        outcome
    }

    fn put(&mut self, packet: &Packet, due_ns: u64, waiting: &mut VecDeque<Waiting>) -> bool {
        let mut frame_bytes = 0;
        let is_put = self.sender.put(|frame| {
            frame_bytes = packet.write(&self.link, frame);
            frame_bytes
        });
        if is_put {
            waiting.push_back(Waiting {
                due_ns,
                bytes: packet.bytes,
                // A frame is a packet of 16 bits and its link's header, which stays below with any
                // MTU that an interface has.
                link_bytes: (frame_bytes - usize::from(packet.bytes)) as u16,
            });
        }
        is_put
    }

    /// Hands packets over, and gives how many went; `went` is told when each of them was due.
    fn hand_over(
        &mut self,
        waiting: &mut VecDeque<Waiting>,
        summary: &mut Summary,
        mut went: impl FnMut(u64),
    ) -> anyhow::Result<usize> {
        let sent = self.sender.flush()?;
        for packet in waiting.drain(..sent) {
            summary.packets += 1;
            summary.bytes += u64::from(packet.bytes);
            summary.frame_bytes += u64::from(packet.bytes) + u64::from(packet.link_bytes);
            went(packet.due_ns);
        }
        Ok(sent)
    }
}

fn due(timed: Option<Timed>, pace: &mut Pace) -> Option<(u64, Timed)> {
    timed.map(|timed| (pace.due_ns(timed.offset_ns), timed))
}

fn elapsed_ns(begun: Instant) -> u64 {
    // Five hundred years.
    begun.elapsed().as_nanos() as u64
}

/// Waits until then, or a little, if that is long.
fn wait(begun: Instant, until_ns: u64) {
    let until = Duration::from_nanos(until_ns);
    let left = until.saturating_sub(begun.elapsed());
    if left > AWAKE {
        sleep_exactly((left - AWAKE).min(LONGEST_SLEEP));
        return;
    }
    while begun.elapsed() < until {
        std::hint::spin_loop();
    }
}
