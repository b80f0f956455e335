//! What the accounts decide, at times of the test's own; no socket.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::super::connection::Phase;
use super::*;

impl Pool {
    pub(in crate::admission) fn count(&self) -> usize {
        self.holdings.len()
    }
}

fn at(address: &str) -> Peer {
    Peer::new(address.parse().unwrap(), None)
}

/// A peer of a customer with a /48, in one of its /56.
fn of(customer: u8, site: u8, network: u8) -> Peer {
    at(&format!("2001:db8:{customer:x}:{site:x}{network:02x}::1"))
}

fn connection(peer: Peer) -> Rc<Connection> {
    let connection = Connection::new(peer, Known::default().standing(peer));
    connection.phase.set(Phase::Working);
    Rc::new(connection)
}

/// Waits for so many milliseconds at the time of all tests.
fn waiting(peer: Peer, ms: u64) -> Rc<Connection> {
    let waiting = connection(peer);
    waiting.phase.set(Phase::Queued);
    waiting.since.set(now() - Duration::from_millis(ms));
    waiting
}

fn now() -> Instant {
    static NOW: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *NOW.get_or_init(|| Instant::now() + Duration::from_secs(3600))
}

/// One place for each of these; without any that is kept.
fn full(holders: &[&Rc<Connection>]) -> Pool {
    let mut pool = Pool::new(holders.len(), Waits::WithConnection);
    for holder in holders {
        holder.standing.set(Standing::Local);
        pool.take(holder, 1, None, now()).unwrap();
    }
    pool
}

/// Which of the holders gives its place to this peer.
fn loser(holders: &[&Rc<Connection>], newcomer: Peer) -> Option<usize> {
    let newcomer = connection(newcomer);
    newcomer.standing.set(Standing::Local);
    let (_, ended) = full(holders).take(&newcomer, 1, None, now())?;
    assert_eq!(ended.len(), 1);
    holders
        .iter()
        .position(|holder| Rc::ptr_eq(holder, &ended[0]))
}

#[test]
fn a_network_of_ipv6_is_one_peer_and_on_this_host_a_user_is() {
    assert_eq!(at("2001:db8:0:7::1"), at("2001:db8:0:7::ffff:2"));
    assert_ne!(at("2001:db8:0:7::1"), at("2001:db8:0:8::1"));
    assert_eq!(at("::ffff:192.0.2.1"), at("192.0.2.1"));
    let user = |address: &str, user| Peer::new(address.parse().unwrap(), Some(user));
    assert_eq!(user("127.0.0.1", 7), user("127.9.9.9", 7));
    assert_eq!(user("::1", 7), user("::ffff:127.0.0.1", 7));
    assert_eq!(
        user("127.0.0.1", 7),
        user("192.0.2.1", 7),
        "its other address"
    );
    assert_ne!(user("127.0.0.1", 7), user("127.0.0.1", 8));
    assert_eq!(at("127.0.0.1"), at("127.9.9.9"));
    assert!(at("::1").is_local() && user("::1", 0).is_local());
    assert!(!at("2001:db8::1").is_local() && !at("0.0.0.1").is_local());
}

#[test]
fn a_block_is_a_48_and_a_56_of_ipv6_and_a_24_of_ipv4() {
    let shared = |one: &str, other: &str| {
        let (one, other) = (at(one).blocks(), at(other).blocks());
        (0..LEVELS)
            .filter(|level| one[*level] == other[*level])
            .count()
    };
    for (one, other, expected) in [
        ("2001:db8:1:aa01::1", "2001:db8:1:aa02::1", 2),
        ("2001:db8:1:aa01::1", "2001:db8:1:ab01::1", 1),
        ("2001:db8:1::1", "2001:db8:2::1", 0),
        ("192.0.2.1", "192.0.2.2", 2),
        ("192.0.2.1", "192.0.3.1", 0),
        ("192.0.2.1", "::c000:0201", 0),
    ] {
        assert_eq!(shared(one, other), expected, "{one} {other}");
    }
}

#[test]
fn the_peer_with_the_most_gives_way_and_of_its_connections_the_longest_waiting() {
    let (lone, working) = (connection(of(1, 0, 0)), connection(of(2, 0, 0)));
    let (short, long) = (waiting(of(2, 0, 0), 5), waiting(of(2, 0, 0), 50));
    let holders = [&lone, &working, &short, &long];
    assert_eq!(loser(&holders, of(3, 0, 0)), Some(3));
}

#[test]
fn a_customer_with_many_networks_is_one_at_each_level() {
    let networks: Vec<_> = (0..5)
        .map(|network| connection(of(1, 1, network)))
        .collect();
    let sites: Vec<_> = (0..5).map(|site| connection(of(2, site, 0))).collect();
    let others = [connection(of(3, 0, 0)), connection(of(4, 0, 0))];
    let holders: Vec<_> = networks.iter().chain(&others).collect();
    assert_eq!(loser(&holders, of(5, 0, 0)), Some(4), "its newest");
    let holders: Vec<_> = sites.iter().chain(&others).collect();
    assert_eq!(
        loser(&holders, of(5, 0, 0)),
        Some(4),
        "whichever site it is of"
    );
    assert_eq!(
        loser(&holders, of(3, 0, 0)),
        Some(4),
        "who has one may have two"
    );
    // Within a customer, one site has no more than another either.
    let holders: Vec<_> = networks[..3].iter().collect();
    assert_eq!(loser(&holders, of(1, 2, 0)), Some(2));
    assert_eq!(
        loser(&holders, of(1, 1, 9)),
        None,
        "all its networks have one"
    );
}

#[test]
fn work_ends_only_for_who_has_less() {
    let [one, two] = [connection(of(1, 0, 0)), connection(of(1, 0, 0))];
    assert_eq!(loser(&[&one, &two], of(1, 0, 0)), None);
    assert_eq!(loser(&[&one, &two], of(2, 0, 0)), Some(1));
    let other = connection(of(2, 0, 0));
    assert_eq!(
        loser(&[&one, &other], of(3, 0, 0)),
        None,
        "everybody has one"
    );
    let idle = waiting(of(2, 0, 0), 1);
    assert_eq!(loser(&[&one, &idle], of(3, 0, 0)), Some(1));
    assert_eq!(
        loser(&[&one, &idle], of(1, 0, 0)),
        None,
        "it has as much already"
    );
}

#[test]
fn users_of_the_host_and_who_was_admitted_before_find_a_place_among_workers() {
    let strangers: Vec<_> = (0..=u8::MAX)
        .map(|number| connection(of(number, 0, 0)))
        .collect();
    let mut pool = Pool::new(64, Waits::WithConnection);
    let admit =
        |pool: &mut Pool, connection: &Rc<Connection>| pool.take(connection, 1, None, now());
    let admitted = strangers
        .iter()
        .filter(|connection| admit(&mut pool, connection).is_some());
    assert_eq!(admitted.count(), 64 - 2 * 4);
    for (standing, more) in [(Standing::Known, 4), (Standing::Local, 4)] {
        for number in 0..=more {
            let visitor = connection(at(&format!("{}.0.{number}.1", 10 + standing as u8)));
            visitor.standing.set(standing);
            assert_eq!(
                admit(&mut pool, &visitor).is_some(),
                number < more,
                "{number}"
            );
        }
    }
    assert_eq!(pool.holdings.len(), 64);
}

#[test]
fn few_of_a_block_are_known_and_the_oldest_are_forgotten() {
    let mut known = Known::default();
    let scraper = of(1, 0, 0);
    known.remember(scraper);
    for network in 0..=u8::MAX {
        known.remember(of(2, network, network));
    }
    assert_eq!(known.standing(scraper), Standing::Known);
    assert_eq!(known.0.len(), 1 + MOST_KNOWN_OF_BLOCK);
    assert_eq!(known.standing(of(2, 255, 255)), Standing::Known);
    assert_eq!(known.standing(of(2, 0, 0)), Standing::Stranger);
    for number in 0..=u8::MAX {
        known.remember(at(&format!("10.{number}.0.1")));
    }
    assert_eq!(known.standing(scraper), Standing::Stranger);
    assert_eq!(known.0.len(), MOST_KNOWN);
}

const BYTES: usize = 24 << 20;

fn bytes() -> Pool {
    Pool::new(BYTES, Waits::WhenOld)
}

#[test]
fn of_bytes_the_newest_of_who_holds_most_give_way_and_none_in_vain() {
    let mut pool = bytes();
    let local = |user| connection(Peer::User(user));
    let take = |pool: &mut Pool, connection: &Rc<Connection>, parts: usize| {
        let taken = pool.take(connection, BYTES / 24 * parts, None, now());
        taken.map(|(_, ended)| ended.len())
    };
    let third = local(3);
    for _ in 0..6 {
        assert_eq!(take(&mut pool, &local(1), 4), Some(0));
    }
    assert_eq!(take(&mut pool, &local(1), 4), None, "it has everything");
    for _ in 0..3 {
        assert_eq!(take(&mut pool, &local(2), 4), Some(1), "its part");
    }
    assert_eq!(take(&mut pool, &local(2), 4), None, "each has a half");
    assert_eq!(take(&mut pool, &third, 12), None, "more than each");
    assert_eq!(pool.holdings.len(), 6);
    assert_eq!(take(&mut pool, &third, 8), Some(2));
    assert_eq!(take(&mut pool, &third, 2), None, "it has as much as others");
    let (mut pool, several) = (bytes(), local(4));
    for _ in 0..6 {
        assert_eq!(take(&mut pool, &several, 4), Some(0));
    }
    let ended = take(&mut pool, &third, 4);
    assert_eq!(ended, Some(6), "all that a connection holds ends with it");
}

#[test]
fn who_reads_for_too_long_gives_way_to_who_holds_no_more() {
    let mut pool = bytes();
    let slow = connection(Peer::User(1));
    pool.take(&slow, BYTES, None, now()).unwrap();
    let later = |after| {
        let other = connection(Peer::User(2));
        let taken = pool.make_room(&other, BYTES, None, now() + after);
        taken.map(|ended| ended.len())
    };
    assert_eq!(later(LONGEST / 2), None);
    assert_eq!(later(LONGEST * 2), Some(1));
}

#[test]
fn one_body_is_held_once_however_many_read_it() {
    let mut pool = bytes();
    let page = Some((4096, BYTES / 2));
    for user in 0..50 {
        let taken = pool.take(&connection(Peer::User(user)), BYTES / 2, page, now());
        assert!(taken.is_some_and(|(_, ended)| ended.is_empty()));
    }
    let reader = connection(Peer::User(99));
    assert!(
        pool.take(&reader, BYTES / 2, Some((8192, BYTES / 2)), now())
            .is_some()
    );
    let next = pool.take(&connection(Peer::User(98)), 1, None, now());
    let (_, ended) = next.expect("room");
    assert!(
        ended.iter().all(|ended| Rc::ptr_eq(ended, &reader)),
        "who has it alone"
    );
}

/// Clients that wait for turns, by the time.
struct Clock {
    turns: Turns,
    now: Instant,
    waiting: Vec<(u64, Peer, Duration, Instant)>,
}

impl Clock {
    fn new(pause: u32) -> Self {
        Clock {
            turns: Turns::new(pause),
            now: now(),
            waiting: Vec::new(),
        }
    }

    fn ask(&mut self, peer: Peer, cpu: Duration) -> u64 {
        let number = self.turns.wait(peer, Known::default().standing(peer));
        self.waiting.push((number, peer, cpu, self.now));
        number
    }

    /// Whose turn is next, with how long it waited; the time goes on until its work is done.
    fn next(&mut self) -> Option<(u64, Duration)> {
        for _ in 0..2 {
            let mut earliest: Option<Instant> = None;
            for at in 0..self.waiting.len() {
                let (number, peer, cpu, since) = self.waiting[at];
                match self.turns.begin(number, self.now) {
                    Ok(()) => {
                        let waited = self.now - since;
                        self.now += cpu;
                        self.turns.end(peer, cpu, self.now);
                        self.waiting.remove(at);
                        return Some((number, waited));
                    }
                    Err(until) => {
                        let sooner =
                            until.filter(|rested| earliest.is_none_or(|other| *rested < other));
                        earliest = sooner.or(earliest);
                    }
                }
            }
            self.now = self.now.max(earliest?);
        }
        None
    }
}

const DEAR: Duration = Duration::from_millis(230);
const CHEAP: Duration = Duration::from_millis(5);

#[test]
fn who_asks_pays_the_pause_and_others_do_not_wait_for_it() {
    let mut clock = Clock::new(9);
    clock.ask(of(1, 0, 0), DEAR);
    clock.next().unwrap();
    for (peer, longest) in [
        (of(2, 0, 0), Duration::ZERO),
        (Peer::User(7), Duration::ZERO),
        (of(2, 1, 1), 9 * CHEAP),
        (of(1, 9, 9), 9 * DEAR),
    ] {
        clock.ask(peer, CHEAP);
        let (_, waited) = clock.next().unwrap();
        assert!(waited <= longest, "{peer:?}: {waited:?}");
        assert!(longest.is_zero() || !waited.is_zero(), "{peer:?} rests");
    }
}

#[test]
fn sixty_four_networks_of_one_customer_delay_another_by_one_answer() {
    for (pause, customer) in [(9, of(1, 0, 0)), (1, of(1, 0, 0)), (9, of(200, 0, 0))] {
        let mut clock = Clock::new(pause);
        let Peer::Network(bits) = customer else {
            panic!("{customer:?}");
        };
        for network in 0..64_u128 {
            clock.ask(Peer::Network(bits + (network << 64)), DEAR);
        }
        let mut longest = Duration::ZERO;
        for round in 0..30 {
            let other = clock.ask(of(7, 0, 0), CHEAP);
            let mut next = clock.next().unwrap();
            if next.0 != other {
                next = clock.next().unwrap();
            }
            assert_eq!(next.0, other, "{round}");
            longest = longest.max(next.1);
            clock.now += Duration::from_secs(1);
        }
        assert!(longest <= DEAR + 9 * CHEAP, "{longest:?}");
    }
}

#[test]
fn all_together_take_their_share_whoever_they_are() {
    for (pause, share) in [(9, 0.1), (1, 0.5)] {
        for customers in [1_u8, 3, 200] {
            let mut clock = Clock::new(pause);
            let begun = clock.now;
            let mut worked = Duration::ZERO;
            let mut next = 0_u8;
            while worked < Duration::from_secs(60) {
                while clock.waiting.len() < 32 {
                    next = next.wrapping_add(1);
                    clock.ask(of(next % customers, next, next), DEAR);
                }
                clock.next().unwrap();
                worked += DEAR;
            }
            let most = share * (clock.now - begun + CREDIT).as_secs_f64() + DEAR.as_secs_f64();
            assert!(
                worked.as_secs_f64() <= most,
                "{customers}: {worked:?}, {most}"
            );
        }
    }
}

#[test]
fn who_was_admitted_before_is_before_strangers_and_users_of_the_host_are_first() {
    let mut clock = Clock::new(1);
    let stranger = clock.ask(of(1, 0, 0), DEAR);
    let known = clock.turns.wait(of(2, 0, 0), Standing::Known);
    clock.waiting.push((known, of(2, 0, 0), DEAR, clock.now));
    let local = clock.ask(Peer::User(3), DEAR);
    let order = [clock.next(), clock.next(), clock.next()].map(|next| next.unwrap().0);
    assert_eq!(order, [local, known, stranger]);
}

proptest! {
    /// No order of events exceeds what there is, at any standing, and none gives way without need.
    #[test]
    fn no_pool_is_ever_exceeded(
        steps in prop::collection::vec((0u8..5, 0u8..4, 0u8..4, 1usize..9, any::<bool>()), 0..200),
    ) {
        let mut pool = Pool::new(40, Waits::WithConnection);
        let mut held: VecDeque<(u64, Rc<Connection>, usize)> = VecDeque::new();
        for (customer, site, network, amount, is_waiting) in steps {
            if customer == 0 && network == 0 {
                if let Some((number, ..)) = held.pop_front() {
                    pool.release(number);
                }
                continue;
            }
            let peer = if customer == 0 { Peer::User(u32::from(site)) } else { of(customer, site, network) };
            let holder = if is_waiting { waiting(peer, amount as u64) } else { connection(peer) };
            let before: usize = held.iter().map(|(.., amount)| amount).sum();
            let Some((number, ended)) = pool.take(&holder, amount, None, now()) else {
                prop_assert!(before + amount > 40 - 6, "there was room");
                continue;
            };
            if before + amount <= 40 - 6 {
                prop_assert!(ended.is_empty());
            }
            held.retain(|(_, other, _)| !ended.iter().any(|ended| Rc::ptr_eq(ended, other)));
            held.push_back((number, holder, amount));
            let sum = |most| {
                let counted = held.iter().filter(move |(_, connection, _)| connection.standing.get() <= most);
                counted.map(|(.., amount)| amount).sum::<usize>()
            };
            prop_assert!(sum(Standing::Local) <= 40);
            prop_assert!(sum(Standing::Stranger) <= 40 - 6);
            prop_assert_eq!(pool.holdings.len(), held.len());
        }
    }

    /// Whatever others do, each turn comes: nobody waits for ever, and never two work at once.
    #[test]
    fn each_turn_comes(asked in prop::collection::vec((0u8..3, 0u8..3, 0u64..400), 1..60)) {
        let mut clock = Clock::new(9);
        for (customer, network, ms) in &asked {
            clock.ask(of(*customer, *network, *network), Duration::from_millis(*ms));
        }
        let mut done = std::collections::HashSet::new();
        while let Some((number, _)) = clock.next() {
            prop_assert!(done.insert(number));
        }
        prop_assert_eq!(done.len(), asked.len());
    }
}
