//! What one client may take: places, bytes held and CPU time, each in its own unit and by the same
//! rules.
//!
//! A client is a *peer* (a user of this host, an IPv4 address, an IPv6 /64) in its *blocks* (/24;
//! /48 and /56): one customer of a provider has a block, not an address. Nobody has to share what
//! nobody else wants. What is scarce is shared among the widest blocks first, then within them. Who
//! waits gives way first, the longest waiting first. Some is kept for users of this host and for
//! those who were admitted before. `visitor` applies what is decided here; this file knows no
//! socket and no clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::peer::{LEVELS, Peer, Standing};

/// Places for new connections, and those whose requests were refused.
pub const UNAUTHENTICATED: usize = 64;

/// Places for active connections, which got a successful response and are not dashboards: scrapers,
/// scripts, browsers loading the page.
pub const ACTIVE: usize = 32;

/// Connections that may be closing, beyond those that hold a place.
pub const CLOSING: usize = 64;

/// Most bytes of answers held at a time on a small host: six dumps, or what dashboards have not read.
const MOST_BYTES: usize = 24 << 20;
/// The same for each CPU of a large host: three pages of metrics.
const BYTES_OF_CPU: usize = 32 << 10;
/// An answer that was read for longer than this counts as waiting.
const LONGEST: Duration = Duration::from_secs(60);

/// Of each resource of at least four, this part is kept for users of the host, and as much for them
/// and those who were admitted before.
const KEPT: usize = 16;

/// Peers that are remembered as admitted, and of them those of one block.
const MOST_KNOWN: usize = 256;
const MOST_KNOWN_OF_BLOCK: usize = 8;

/// Rests after one second of the work of each kind (passwords' checks, questions), in seconds: wrong
/// passwords take half of a CPU, all questions a tenth.
pub(super) const PAUSES: [u32; 2] = [1, 9];
/// How far those who owe nothing may exceed the CPU time of all, as a time of rest.
const CREDIT: Duration = Duration::from_secs(30);
/// How long the order of turns depends on earlier work, after its rest.
const REMEMBERED: Duration = Duration::from_secs(60);

/// Most bytes of answers held at a time on a host of so many CPUs.
pub fn most_bytes(cpus: usize) -> usize {
    MOST_BYTES.max(cpus * BYTES_OF_CPU)
}

/// Peers that were admitted before, the newest last.
#[derive(Debug, Default)]
pub(super) struct Known(Vec<Peer>);

impl Known {
    pub(super) fn standing(&self, peer: Peer) -> Standing {
        if peer.is_local() {
            Standing::Local
        } else if self.0.contains(&peer) {
            Standing::Known
        } else {
            Standing::Stranger
        }
    }

    pub(super) fn remember(&mut self, peer: Peer) {
        self.0.retain(|known| *known != peer);
        let block = |peer: &Peer| peer.blocks()[0];
        let beside = |known: &&Peer| block(known) == block(&peer);
        let oldest = if self.0.iter().filter(beside).count() >= MOST_KNOWN_OF_BLOCK {
            self.0.iter().position(|known| beside(&known))
        } else {
            (self.0.len() >= MOST_KNOWN).then_some(0)
        };
        if let Some(oldest) = oldest {
            self.0.remove(oldest);
        }
        self.0.push(peer);
    }
}

/// What peers hold of one resource.
#[derive(Debug)]
pub(super) struct Pool {
    capacity: usize,
    waits: Waits,
    holdings: BTreeMap<u64, Holding>,
    next: u64,
}

/// When a holding counts as waiting.
#[derive(Debug, Clone, Copy)]
pub(super) enum Waits {
    /// While its connection does.
    WithConnection,
    /// When it has been held for long.
    WhenOld,
    Never,
}

/// A shared body, by its place in memory: it is held once, however many read it.
pub(super) type Body = (usize, usize);

#[derive(Debug)]
struct Holding {
    connection: Rc<Connection>,
    amount: usize,
    body: Option<Body>,
    since: Instant,
}

/// A holding in the eyes of a newcomer.
struct Claim<'a> {
    number: u64,
    holding: &'a Holding,
    /// Its part, if others hold the same body.
    amount: usize,
    waits_since: Option<Instant>,
}

impl Claim<'_> {
    fn block(&self, level: usize) -> Peer {
        self.holding.connection.peer.blocks()[level]
    }

    fn standing(&self) -> Standing {
        self.holding.connection.standing.get()
    }
}

impl Pool {
    pub(super) fn new(capacity: usize, waits: Waits) -> Self {
        Pool {
            capacity,
            waits,
            holdings: BTreeMap::new(),
            next: 0,
        }
    }

    /// Holds so much for a connection; the result is its number, and whose connections give way.
    /// `None` if nobody has to.
    pub(super) fn take(
        &mut self,
        connection: &Rc<Connection>,
        amount: usize,
        body: Option<Body>,
        now: Instant,
    ) -> Option<(u64, Vec<Rc<Connection>>)> {
        let ended = self.make_room(connection, amount, body, now)?;
        let ended = ended.iter().filter_map(|number| self.release(*number));
        let ended = ended.collect();
        let number = self.next;
        self.next += 1;
        let holding = Holding {
            connection: connection.clone(),
            amount,
            body,
            since: now,
        };
        self.holdings.insert(number, holding);
        Some((number, ended))
    }

    /// Ends a holding, if it has not ended.
    pub(super) fn release(&mut self, number: u64) -> Option<Rc<Connection>> {
        Some(self.holdings.remove(&number)?.connection)
    }

    /// The holdings that end for a newcomer; `None` if it has to wait, so that none ends in vain.
    fn make_room(
        &self,
        newcomer: &Connection,
        amount: usize,
        body: Option<Body>,
        now: Instant,
    ) -> Option<Vec<u64>> {
        let holdings = self.holdings.iter();
        let claims = holdings.map(|(number, holding)| self.claim(*number, holding, now));
        let mut claims: Vec<Claim<'_>> = claims.collect();
        let mut ended = Vec::new();
        loop {
            let readers = divide(&mut claims, body);
            let more = if readers > 0 { 0 } else { amount };
            let Some(pressed) = self.pressed(&claims, newcomer.standing.get(), more) else {
                return Some(ended);
            };
            let within = (0..claims.len()).filter(|at| claims[*at].standing() <= pressed);
            let at = choose(&claims, within.collect(), Some(newcomer.peer), more, 0)?;
            // All that its connection holds ends with it.
            let loser = claims[at].holding.connection.clone();
            let is_other = |claim: &Claim<'_>| !Rc::ptr_eq(&claim.holding.connection, &loser);
            let of_loser = claims.iter().filter(|claim| !is_other(claim));
            ended.extend(of_loser.map(|claim| claim.number));
            claims.retain(is_other);
        }
    }

    fn claim<'a>(&self, number: u64, holding: &'a Holding, now: Instant) -> Claim<'a> {
        let since = holding.since;
        let waits_since = match self.waits {
            Waits::WithConnection => holding.connection.waits_since(),
            Waits::WhenOld => (now.saturating_duration_since(since) > LONGEST).then_some(since),
            Waits::Never => None,
        };
        Claim {
            number,
            holding,
            amount: holding.amount,
            waits_since,
        }
    }

    /// The standing up to which holders are too many for a newcomer of so much more.
    fn pressed(&self, claims: &[Claim<'_>], newcomer: Standing, more: usize) -> Option<Standing> {
        let kept = match self.capacity {
            0..4 => 0,
            capacity => capacity.div_ceil(KEPT),
        };
        let standings = [Standing::Stranger, Standing::Known, Standing::Local];
        standings.into_iter().find(|standing| {
            let above = Standing::Local as usize - *standing as usize;
            let held = claims.iter().filter(|claim| claim.standing() <= *standing);
            let held: usize = held.map(|claim| claim.amount).sum();
            *standing >= newcomer && held + more > self.capacity - above * kept
        })
    }
}

/// Divides each body among its holders; how many have this one.
fn divide(claims: &mut [Claim<'_>], body: Option<Body>) -> usize {
    let bodies = claims.iter().filter_map(|claim| claim.holding.body);
    let mut holders: HashMap<Body, usize> = HashMap::new();
    bodies.for_each(|body| *holders.entry(body).or_default() += 1);
    let count = |body: Option<Body>| body.and_then(|body| holders.get(&body).copied());
    for claim in claims {
        claim.amount = claim.holding.amount / count(claim.holding.body).unwrap_or(1);
    }
    count(body).unwrap_or(0)
}

/// Which of the claims `within` gives way: of the block that holds most, at this level and the
/// next. To a newcomer, a block gives what it holds more than the newcomer's would; what waits, also
/// if it holds as much. `newcomer` is `None` within a block that gives.
fn choose(
    claims: &[Claim<'_>],
    mut within: Vec<usize>,
    newcomer: Option<Peer>,
    more: usize,
    level: usize,
) -> Option<usize> {
    let waits_since = |at: usize| claims[at].waits_since;
    if level == LEVELS {
        // One peer's: its longest waiting; of what is at work the newest, and not for itself.
        let waiting = within
            .iter()
            .copied()
            .filter(|at| waits_since(*at).is_some());
        let longest = waiting.min_by_key(|at| waits_since(*at));
        let newest = within.iter().copied().max_by_key(|at| claims[*at].number);
        return longest.or(newest.filter(|_| newcomer.is_none()));
    }
    let block = |at: usize| claims[at].block(level);
    let mut by_block: HashMap<Peer, usize> = HashMap::new();
    for at in &within {
        *by_block.entry(block(*at)).or_default() += claims[*at].amount;
    }
    let held = |block: Peer| by_block.get(&block).copied().unwrap_or(0);
    let newcomers_block = newcomer.map(|peer| peer.blocks()[level]);
    if let Some(newcomers_block) = newcomers_block {
        within.retain(|at| {
            let least = held(newcomers_block) + more + usize::from(waits_since(*at).is_none());
            block(*at) == newcomers_block || held(block(*at)) >= least
        });
    }
    let most = within
        .iter()
        .copied()
        .max_by_key(|at| (held(block(*at)), waits_since(*at).map(Reverse)))?;
    within.retain(|at| block(*at) == block(most));
    let newcomer = newcomer.filter(|_| Some(block(most)) == newcomers_block);
    choose(claims, within, newcomer, more, level + 1)
}

/// Who works next on what takes CPU time, one at a time.
///
/// After its work, a peer and its blocks rest for a multiple of the CPU time that it took; so do all
/// together, but those who owe nothing need not wait for that while the others' rests are
/// within [`CREDIT`].
#[derive(Debug, Default)]
pub(super) struct Turns {
    pause: u32,
    rests: HashMap<(usize, Peer), Instant>,
    rest_of_all: Option<Instant>,
    waiting: BTreeMap<u64, (Peer, Standing)>,
    next: u64,
    is_working: bool,
}

impl Turns {
    /// With rests of so many times the work.
    pub(super) fn new(pause: u32) -> Self {
        Turns {
            pause,
            ..Turns::default()
        }
    }

    /// Waits from now on; the result is the number of the turn.
    pub(super) fn wait(&mut self, peer: Peer, standing: Standing) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, (peer, standing));
        number
    }

    /// Waits no longer.
    pub(super) fn leave(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// Begins the work of this turn, if it is the next one.
    ///
    /// # Errors
    /// When its rest ends, before which it is not. Else it is after another one.
    pub(super) fn begin(&mut self, number: u64, now: Instant) -> Result<(), Option<Instant>> {
        let rested = |(peer, standing)| self.rested(peer, standing);
        let until = self.waiting.get(&number).copied().and_then(rested);
        if until.is_some_and(|until| until > now) {
            return Err(until);
        }
        let is_rested = |turn| rested(turn).is_none_or(|until| until <= now);
        let ready = self.waiting.iter().filter(|(_, turn)| is_rested(**turn));
        let next = ready.min_by_key(|(number, (peer, standing))| {
            let rests = self.rests_of(*peer);
            (Reverse(*standing), rests, **number)
        });
        if self.is_working || next.is_none_or(|(next, _)| *next != number) {
            return Err(None);
        }
        self.waiting.remove(&number);
        self.is_working = true;
        Ok(())
    }

    /// Ends the work, which took so much CPU time of this peer.
    pub(super) fn end(&mut self, peer: Peer, cpu: Duration, now: Instant) {
        self.is_working = false;
        // Others may work in its rest, so that the time of the work counts, too.
        let begun = now.checked_sub(cpu).unwrap_or(now);
        let time = cpu.saturating_mul(self.pause + 1);
        let after = |rest: Option<Instant>| rest.unwrap_or(begun).max(begun) + time;
        self.rests.retain(|_, until| *until + REMEMBERED > now);
        for key in peer.blocks().into_iter().enumerate() {
            let until = after(self.rests.get(&key).copied());
            self.rests.insert(key, until);
        }
        self.rest_of_all = Some(after(self.rest_of_all));
    }

    fn rests_of(&self, peer: Peer) -> [Option<Instant>; LEVELS] {
        let blocks = peer.blocks();
        std::array::from_fn(|level| self.rests.get(&(level, blocks[level])).copied())
    }

    /// When a peer has rested, if it must.
    fn rested(&self, peer: Peer, standing: Standing) -> Option<Instant> {
        let credit = match standing {
            Standing::Stranger => CREDIT,
            Standing::Known | Standing::Local => 2 * CREDIT,
        };
        let all = self.rest_of_all.and_then(|until| until.checked_sub(credit));
        self.rests_of(peer).into_iter().max().flatten().max(all)
    }
}

#[cfg(test)]
mod tests;
