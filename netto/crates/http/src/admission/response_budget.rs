//! A budget for long responses: how much memory all of them may hold, and whose gives way.
//!
//! A response that only its reader holds lives as long as it is being read. Each therefore takes a
//! share of a fixed budget while it lives. When the budget is full, a response that was read for
//! too long ends, or the newest of the peer that holds most, if that is more than the newcomer
//! would hold. This file knows no socket: an evicted connection notices at its next step.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::Bytes;

use super::connection::{Connection, Peer};

/// Most bytes held by all long responses at a time: six dumps, or some more responses about the
/// past.
const MOST_BYTES: usize = 24 << 20;
/// A response that was read for longer than this gives way to any other.
const LONGEST: Duration = Duration::from_secs(60);

/// The budget.
#[derive(Debug, Clone, Default)]
pub struct ResponseBudget {
    held: Rc<RefCell<Held>>,
    evictions: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Held {
    /// Shares by their number, in the order of their begin.
    shares: BTreeMap<u64, Holding>,
    next: u64,
}

#[derive(Debug)]
struct Holding {
    connection: Rc<Connection>,
    bytes: usize,
    since: Instant,
}

/// One response's share of the budget.
#[derive(Debug)]
pub struct BudgetShare {
    budget: ResponseBudget,
    number: u64,
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.held.borrow_mut().shares.remove(&self.number);
    }
}

impl ResponseBudget {
    /// An unused budget; `evictions` counts connections that gave way.
    pub(super) fn new(evictions: Arc<AtomicU64>) -> Self {
        ResponseBudget {
            held: Rc::default(),
            evictions,
        }
    }

    /// Takes this many bytes of the budget for a response on this connection; `None` if they are
    /// not left and nobody has to give way.
    pub(super) fn take(&self, connection: &Rc<Connection>, bytes: usize) -> Option<BudgetShare> {
        let mut held = self.held.borrow_mut();
        for number in held.give_way(connection.peer, bytes, Instant::now())? {
            if let Some(holding) = held.shares.remove(&number) {
                holding.connection.evict();
                self.evictions.fetch_add(1, Ordering::Relaxed);
            }
        }
        let number = held.next;
        held.next += 1;
        held.shares.insert(
            number,
            Holding {
                connection: connection.clone(),
                bytes,
                since: Instant::now(),
            },
        );
        Some(BudgetShare {
            budget: self.clone(),
            number,
        })
    }
}

impl Held {
    /// The shares that end for a newcomer of this many bytes; `None` if it has to wait, so that
    /// none ends in vain.
    fn give_way(&self, newcomer: Peer, bytes: usize, now: Instant) -> Option<Vec<u64>> {
        let mut left: Vec<(&u64, &Holding)> = self.shares.iter().collect();
        let mut ended = Vec::new();
        while left.iter().map(|(_, own)| own.bytes).sum::<usize>() + bytes > MOST_BYTES {
            let (number, _) = left.remove(next_to_end(&left, newcomer, bytes, now)?);
            ended.push(*number);
        }
        Some(ended)
    }
}

/// Which of these shares, the oldest first, ends next for a newcomer of this many bytes.
fn next_to_end(
    shares: &[(&u64, &Holding)],
    newcomer: Peer,
    bytes: usize,
    now: Instant,
) -> Option<usize> {
    let is_late = |(_, own): &(&u64, &Holding)| now.duration_since(own.since) > LONGEST;
    if let Some(at) = shares.iter().position(is_late) {
        return Some(at);
    }
    let mut by_peer: HashMap<Peer, usize> = HashMap::new();
    for (_, own) in shares {
        *by_peer.entry(own.connection.peer).or_default() += own.bytes;
    }
    let held = |peer: Peer| by_peer.get(&peer).copied().unwrap_or(0);
    let of = |at: usize| held(shares[at].1.connection.peer);
    let newest_of_largest = (0..shares.len()).max_by_key(|&at| (of(at), at))?;
    (of(newest_of_largest) > held(newcomer) + bytes).then_some(newest_of_largest)
}

/// A response with its share of the budget.
#[derive(Debug)]
pub struct BudgetedBody<B> {
    /// The response's own body.
    pub body: B,
    /// Held until the body is read.
    pub share: BudgetShare,
}

impl<B: MessageBody + Unpin> MessageBody for BudgetedBody<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn connection(host: u8) -> Rc<Connection> {
        let address = IpAddr::from(Ipv4Addr::new(192, 0, 2, host));
        Rc::new(Connection::new(0, Peer::new(address, None)))
    }

    #[test]
    fn answers_take_no_more_room_than_there_is_and_give_it_back() {
        let (budget, one) = (ResponseBudget::default(), connection(1));
        let first = budget.take(&one, MOST_BYTES / 2 + 1);
        assert!(first.is_some());
        assert!(budget.take(&one, MOST_BYTES / 2).is_none());
        drop(first);
        assert!(budget.take(&one, MOST_BYTES).is_some());
        assert!(budget.held.borrow().shares.is_empty() && !one.is_evicted());
    }

    #[test]
    fn the_newest_of_who_holds_most_gives_way_to_who_holds_less() {
        let budget = ResponseBudget::default();
        let attackers: Vec<_> = (0..6).map(|_| connection(1)).collect();
        let take = |connection: &Rc<Connection>| budget.take(connection, MOST_BYTES / 6);
        let _held: Vec<_> = attackers.iter().map(take).collect();
        assert!(take(&connection(1)).is_none(), "it has everything already");
        let other = connection(2);
        let _shares: Vec<_> = (0..3).map(|_| take(&other).expect("its part")).collect();
        let gone = attackers.iter().map(|attacker| attacker.is_evicted());
        let gone: Vec<bool> = gone.collect();
        assert_eq!(gone, [false, false, false, true, true, true]);
        assert_eq!(budget.evictions.load(Ordering::Relaxed), 3);
        assert!(take(&other).is_none(), "each has a half");
        let third = connection(3);
        assert!(take(&third).is_some());
        let held = budget.held.borrow();
        let bytes: usize = held.shares.values().map(|own| own.bytes).sum();
        assert_eq!(bytes, MOST_BYTES / 6 * 5);
    }

    #[test]
    fn nobody_gives_way_in_vain() {
        let budget = ResponseBudget::default();
        let holders = [1, 1, 2, 3].map(connection);
        let quarters = holders
            .each_ref()
            .map(|own| budget.take(own, MOST_BYTES / 4));
        assert!(quarters.iter().all(Option::is_some));
        // The first has more, but one of its quarters is not enough.
        assert!(budget.take(&connection(4), MOST_BYTES / 8 * 3).is_none());
        assert!(holders.iter().all(|own| !own.is_evicted()));
    }

    #[test]
    fn who_reads_for_too_long_gives_way_to_anybody() {
        let (budget, slow) = (ResponseBudget::default(), connection(1));
        let _share = budget.take(&slow, MOST_BYTES);
        let give_way = |after| {
            let newcomer = Peer::new(IpAddr::from([192, 0, 2, 2]), None);
            let held = budget.held.borrow();
            held.give_way(newcomer, MOST_BYTES, Instant::now() + after)
        };
        assert_eq!(give_way(LONGEST / 2), None);
        assert_eq!(give_way(LONGEST * 2), Some(vec![0]));
    }
}
