//! A reader against a writer interrupted anywhere: every interleaving of the loads of one reading
//! with the stores of some transitions.
//!
//! The stores are in the order that `tests/bytecode` finds in the compiled programs.

use super::*;

/// A softirq's kind and a task's.
const SOFTIRQ: u64 = 4;
const SEND: u64 = 11;

/// A store of the writer, or passing time.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Store(usize, u64),
    Now(u64),
}

/// The order of a transition's stores.
#[derive(Debug, Clone, Copy)]
enum Order {
    SinceKindTotal,
    KindSinceTotal,
}

/// Time of each transition, and the kind that begins.
const TRANSITIONS: [(u64, u64); 4] = [(110, SEND), (130, SOFTIRQ), (170, SEND), (250, 0)];
const START: u64 = 100;

fn steps(order: Order) -> Vec<Step> {
    let mut steps = vec![Step::Now(START)];
    let mut totals = [0; CLOCK_KINDS];
    let (mut since, mut kind) = (START, 0);
    for (now, next) in TRANSITIONS {
        totals[kind as usize] += now - since;
        let total = Step::Store(abi::CPU_TOTAL_NS + kind as usize, totals[kind as usize]);
        let (since_now, kind_now) = (
            Step::Store(abi::CPU_SINCE_NS, now),
            Step::Store(abi::CPU_KIND, next),
        );
        steps.push(Step::Now(now));
        steps.extend(match order {
            Order::SinceKindTotal => [since_now, kind_now, total],
            Order::KindSinceTotal => [kind_now, since_now, total],
        });
        steps.push(Step::Now(now + 7));
        (since, kind) = (now, next);
    }
    steps
}

/// True time by kind at this moment.
fn truth(at: u64) -> [u64; CLOCK_KINDS] {
    let mut totals = [0; CLOCK_KINDS];
    let (mut since, mut kind) = (START, 0);
    for (now, next) in TRANSITIONS {
        totals[kind as usize] += now.min(at) - since.min(at);
        (since, kind) = (now, next);
    }
    totals[kind as usize] += at.saturating_sub(since);
    totals
}

/// The memory, and the writer's progress.
struct Writer<'a> {
    steps: &'a [Step],
    done: usize,
    words: Vec<u64>,
    now: u64,
}

impl Writer<'_> {
    fn go_to(&mut self, step: usize) {
        while self.done < step {
            match self.steps[self.done] {
                Step::Store(word, value) => self.words[word] = value,
                Step::Now(now) => self.now = now,
            }
            self.done += 1;
        }
    }
}

/// One reading; the writer has reached `at[n]` before the n-th load that it can affect. Returns the
/// result, if it was consistent, and its time.
fn read(steps: &[Step], at: &[usize]) -> Option<(Reading, u64)> {
    let mut words = vec![0; abi::CPU_BYTES / 8];
    words[abi::CPU_START_NS] = START;
    words[abi::CPU_SINCE_NS] = START;
    let writer = std::cell::RefCell::new(Writer {
        steps,
        done: 0,
        words,
        now: 0,
    });
    let next = std::cell::Cell::new(0);
    let proceed = || {
        if let Some(&step) = at.get(next.get()) {
            writer.borrow_mut().go_to(step);
        }
        next.set(next.get() + 1);
    };
    let written: Vec<usize> = [0, SOFTIRQ, SEND]
        .iter()
        .map(|kind| abi::CPU_TOTAL_NS + *kind as usize)
        .chain([abi::CPU_SINCE_NS, abi::CPU_KIND])
        .collect();
    let mut read_at = 0;
    let (reading, consistent) = read_once(
        |word| {
            if written.contains(&word) {
                proceed();
            }
            writer.borrow().words[word]
        },
        || {
            proceed();
            read_at = writer.borrow().now;
            read_at
        },
    );
    // The last load is skipped if the one before has already shown a change.
    assert!(
        (LOADS - 1..=LOADS).contains(&next.get()),
        "the loads of a reading are other ones"
    );
    consistent.then_some((reading, read_at))
}

/// Number of loads of written words, including the reading of the clock.
const LOADS: usize = 8;

/// Calls `each` with every non-decreasing sequence of `LOADS` steps.
fn interleavings(last: usize, each: &mut impl FnMut(&[usize])) {
    fn rest(at: &mut Vec<usize>, last: usize, each: &mut impl FnMut(&[usize])) {
        if at.len() == LOADS {
            return each(at);
        }
        for step in at.last().copied().unwrap_or(1)..=last {
            at.push(step);
            rest(at, last, each);
            at.pop();
        }
    }
    rest(&mut Vec::new(), last, each);
}

/// The number of readings accepted as consistent, and of wrong ones among them.
fn judged(order: Order) -> (usize, usize) {
    let steps = steps(order);
    let (mut taken, mut wrong) = (0, 0);
    // Later transitions meet a reader in the same way as the first ones.
    interleavings(15, &mut |at| {
        if let Some((reading, now)) = read(&steps, at) {
            taken += 1;
            wrong += usize::from(reading.total_ns != truth(now));
        }
    });
    (taken, wrong)
}

#[test]
fn no_interleaving_gives_a_reading_that_is_taken_for_consistent_and_is_not() {
    let (taken, wrong) = judged(Order::SinceKindTotal);
    assert!(taken > 100, "only {taken} readings were consistent");
    assert_eq!(wrong, 0, "of {taken}");
}

#[test]
fn a_kind_that_is_stored_before_its_time_would_be_seen_with_the_old_one() {
    let (taken, wrong) = judged(Order::KindSinceTotal);
    assert!(wrong > 0, "of {taken}");
}
