//! Names of hosts by reverse DNS. A thread looks them up, one after the other; who shows them reads
//! what is known, and waits for nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use netto_sys::privileges::{self, Duty};

/// Most addresses that have a name or are known to have none.
pub(crate) const MOST_NAMES: usize = 4_096;
/// Addresses that wait for the thread: those of the conversations of an interval.
const QUEUE: usize = 128;
/// When a name is asked for again, and how long an old one is shown.
const FRESH: Duration = Duration::from_secs(5 * 60);
const SHOWN: Duration = Duration::from_secs(10 * 60);
/// Longest name in DNS, bytes.
const LONGEST_NAME: usize = 253;

/// What is known, and the thread that is asked.
#[derive(Debug)]
pub(crate) struct Names {
    cache: Cache,
    /// Given to the thread and not answered.
    asked: HashSet<IpAddr>,
    questions: SyncSender<IpAddr>,
    /// As many at most as were asked.
    answers: Receiver<(IpAddr, Option<String>)>,
}

impl Names {
    /// Starts the thread. It ends when its last look-up is over; nobody waits for that.
    ///
    /// # Errors
    /// There is no room for a thread.
    pub(crate) fn start(
        look_up: impl Fn(IpAddr) -> Option<String> + Send + 'static,
    ) -> anyhow::Result<Names> {
        let (questions, asked) = mpsc::sync_channel(QUEUE);
        let (answer, answers) = mpsc::channel();
        let run = move || {
            privileges::confine_to(Duty::Send);
            for address in asked {
                let name = look_up(address).filter(|name| is_host_name(name));
                if answer.send((address, name)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("flow-names".to_owned())
            .spawn(run)
            .context("cannot start the thread that looks up names of hosts")?;
        Ok(Names {
            cache: Cache::default(),
            asked: HashSet::new(),
            questions,
            answers,
        })
    }

    /// Those of these addresses whose names are known now. The others are asked for, as far as there is
    /// room.
    pub(crate) fn known(
        &mut self,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> BTreeMap<IpAddr, String> {
        while let Ok((address, name)) = self.answers.try_recv() {
            self.learn(address, name);
        }
        let now = Instant::now();
        let mut known = BTreeMap::new();
        for address in addresses {
            self.ask(address, now);
            if let Some(name) = self.cache.name(address, now) {
                known.insert(address, name.to_owned());
            }
        }
        known
    }

    /// Waits at most so long until all of these are known, or known to have no name.
    pub(crate) fn wait_for(
        &mut self,
        addresses: impl IntoIterator<Item = IpAddr>,
        patience: Duration,
    ) {
        let until = Instant::now() + patience;
        let mut addresses = addresses.into_iter().peekable();
        loop {
            let now = Instant::now();
            while addresses
                .next_if(|address| self.ask(*address, now))
                .is_some()
            {}
            if addresses.peek().is_none() && self.asked.is_empty() {
                return;
            }
            let left = until.saturating_duration_since(now);
            let Ok((address, name)) = self.answers.recv_timeout(left) else {
                return;
            };
            self.learn(address, name);
        }
    }

    /// Asks for the name, if need be; false if there is no room for the question.
    fn ask(&mut self, address: IpAddr, now: Instant) -> bool {
        if self.cache.is_fresh(address, now) || self.asked.contains(&address) {
            return true;
        }
        match self.questions.try_send(address) {
            Ok(()) => self.asked.insert(address),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    fn learn(&mut self, address: IpAddr, name: Option<String>) {
        self.asked.remove(&address);
        self.cache.insert(address, name, Instant::now());
    }
}

/// What was answered; when it is full, the oldest goes.
#[derive(Debug, Default)]
struct Cache {
    known: HashMap<IpAddr, Known>,
    /// Addresses by the number of their answer.
    order: BTreeMap<u64, IpAddr>,
    /// Answers so far.
    answers: u64,
}

#[derive(Debug)]
struct Known {
    /// None: there is none, or it could not be looked up.
    name: Option<String>,
    at: Instant,
    answer: u64,
}

impl Cache {
    fn insert(&mut self, address: IpAddr, name: Option<String>, at: Instant) {
        self.answers += 1;
        let answer = self.answers;
        if let Some(old) = self.known.insert(address, Known { name, at, answer }) {
            self.order.remove(&old.answer);
        }
        self.order.insert(answer, address);
        if self.order.len() > MOST_NAMES
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.known.remove(&oldest);
        }
    }

    fn is_fresh(&self, address: IpAddr, now: Instant) -> bool {
        let known = self.known.get(&address);
        known.is_some_and(|known| now.saturating_duration_since(known.at) < FRESH)
    }

    fn name(&self, address: IpAddr, now: Instant) -> Option<&str> {
        let known = self.known.get(&address)?;
        let is_shown = now.saturating_duration_since(known.at) < SHOWN;
        known.name.as_deref().filter(|_| is_shown)
    }
}

/// Whether it is a name of a host. Who answers for an address chooses it: it must not look like another
/// address, and nothing in it may have a meaning to a terminal or a page.
fn is_host_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(is_usual)
        && name.parse::<IpAddr>().is_err()
}

/// The name of a host as the system knows it: of `/etc/hosts`, DNS, and what else it is set to.
pub(crate) fn of_system(address: IpAddr) -> Option<String> {
    let flags = libc::NI_NAMEREQD | libc::NI_NUMERICSERV;
    let found = dns_lookup::getnameinfo(&(address, 0).into(), flags);
    found.ok().map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn address(number: usize) -> IpAddr {
        let [.., a, b, c] = number.to_be_bytes();
        IpAddr::from([10, a, b, c])
    }

    fn named(address: IpAddr) -> Option<String> {
        Some(format!("host-{}", address.to_string().replace('.', "-")))
    }

    #[test]
    fn an_address_has_no_name_until_its_look_up_is_over_and_nobody_waits_for_it() {
        let (release, released) = mpsc::channel::<()>();
        let mut names = Names::start(move |address| {
            let _ = released.recv();
            named(address)
        })
        .unwrap();
        let all: Vec<IpAddr> = (0..1_000).map(address).collect();
        // The thread does not answer; what is beyond the queue is not kept.
        for _ in 0..3 {
            assert!(names.known(all.clone()).is_empty());
        }
        assert!((QUEUE..=QUEUE + 1).contains(&names.asked.len()));
        names.wait_for(all.clone(), Duration::from_millis(1));
        assert!(names.known([address(0)]).is_empty());
        drop(release);
        names.wait_for(all.clone(), LONG);
        let known = names.known(all);
        assert_eq!(known.len(), 1_000);
        assert_eq!(known[&address(7)], "host-10-0-0-7");
    }

    #[test]
    fn an_address_without_a_name_is_asked_for_once() {
        let (tell, asked) = mpsc::channel();
        let mut names = Names::start(move |address| {
            let _ = tell.send(address);
            None
        })
        .unwrap();
        for _ in 0..3 {
            names.wait_for([address(1), address(2)], LONG);
            assert!(names.known([address(1), address(2)]).is_empty());
        }
        drop(names);
        assert_eq!(asked.iter().collect::<Vec<_>>(), [address(1), address(2)]);
    }

    #[test]
    fn names_that_are_none_are_as_if_there_were_none() {
        let long = |length: usize| "a".repeat(length);
        for name in ["a", "host-1.example", "_x.y_z", &long(LONGEST_NAME)] {
            assert!(is_host_name(name), "{name}");
        }
        for name in [
            "",
            &long(LONGEST_NAME + 1),
            "a b",
            "\x1b[2J",
            "<b>x</b>",
            "a\nb",
            "exämple",
            "192.0.2.1",
            "2001:db8::1",
            "a,b",
            "\"",
        ] {
            assert!(!is_host_name(name), "{name}");
            let name = name.to_owned();
            let mut names = Names::start(move |_| Some(name.clone())).unwrap();
            names.wait_for([address(1)], LONG);
            assert!(names.known([address(1)]).is_empty());
        }
    }

    #[test]
    fn a_name_is_asked_for_anew_before_it_is_gone() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        cache.insert(address(1), named(address(1)), now);
        cache.insert(address(2), None, now);
        let second = Duration::from_secs(1);
        for address in [address(1), address(2)] {
            assert!(cache.is_fresh(address, now + FRESH - second));
            assert!(!cache.is_fresh(address, now + FRESH));
        }
        assert!(cache.name(address(1), now + SHOWN - second).is_some());
        assert!(cache.name(address(1), now + SHOWN).is_none());
        cache.insert(address(1), None, now + FRESH);
        assert!(cache.name(address(1), now + FRESH).is_none());
    }

    #[test]
    fn the_oldest_answers_go_first_and_there_are_never_more() {
        let (mut cache, now) = (Cache::default(), Instant::now());
        for number in 0..MOST_NAMES {
            cache.insert(address(number), None, now);
        }
        // Answered again: the newest.
        cache.insert(address(0), named(address(0)), now);
        for number in 0..9 {
            cache.insert(address(MOST_NAMES + number), None, now);
        }
        assert_eq!([cache.known.len(), cache.order.len()], [MOST_NAMES; 2]);
        assert!(cache.is_fresh(address(0), now));
        assert!(!cache.is_fresh(address(9), now));
        assert!(cache.is_fresh(address(10), now));
    }
}
