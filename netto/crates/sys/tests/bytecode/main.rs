//! Tests of the compiled BPF programs when they are interrupted at each of their instructions: by a
//! softirq, by a softirq that uses a socket itself, by another task.
//!
//! On a real kernel this happens once in a million runs.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod machine;
mod program;

use machine::{Run, World, abi};
use metrics_common::Source;
use metrics_common::component::CLOCK_KINDS;
use program::Programs;

const NETTO: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/netto.bpf.o"));
const SOCKET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/socket.bpf.o"));

/// The vector of the RX softirq.
const NET_RX: u64 = 3;
/// Stack positions of a task's call, and of a call within that one.
const OUTER: u64 = 0x3f00;
const INNER: u64 = 0x3e00;
/// Duration of work outside of these programs, nanoseconds.
const A_WHILE: u64 = 10_000;

struct Both {
    clock: Programs,
    socket: Programs,
}

fn both() -> Both {
    let clock = program::of(NETTO);
    let mut socket = program::of(SOCKET);
    // The first four functions are sends.
    let send = kind(Source::SocketSend) as u64;
    socket.set("netto_pair_kind", &[send.to_le_bytes(); 4].concat());
    Both { clock, socket }
}

fn kind(source: Source) -> usize {
    usize::from(source.clock_kind())
}

impl Both {
    fn softirq_begins(&self, world: &mut World) {
        Run::new(&self.clock, "netto_sirq_in", 0, &[NET_RX]).finish(world);
    }

    fn softirq_ends(&self, world: &mut World) {
        Run::new(&self.clock, "netto_sirq_out", 0, &[NET_RX]).finish(world);
    }

    fn enter(&self, pair: usize, depth: u64) -> Run<'_> {
        let names = ["netto_fentry_0", "netto_fentry_1", "netto_fentry_2"];
        Run::new(&self.socket, names[pair], depth, &[])
    }

    fn leave(&self, pair: usize, depth: u64) -> Run<'_> {
        let names = ["netto_fexit_0", "netto_fexit_1", "netto_fexit_2"];
        Run::new(&self.socket, names[pair], depth, &[])
    }

    fn switch(&self, world: &mut World, to: u64) {
        let (prev, next) = (world.task(world.current), world.task(to));
        world.switch_away(prev);
        Run::new(&self.clock, "netto_switch", 0, &[0, prev, next]).finish(world);
        world.current = to;
    }
}

/// The invariant of the clock: no time is counted twice or lost.
fn parts_make_the_whole(world: &World) {
    let totals = &world.record[abi::CPU_TOTAL_NS..][..CLOCK_KINDS];
    assert_eq!(
        totals.iter().sum::<u64>(),
        world.record[abi::CPU_SINCE_NS] - world.record[abi::CPU_START_NS]
    );
}

fn entries(world: &World, source: Source) -> u64 {
    world.record[abi::CPU_ENTRIES + kind(source)]
}

fn total_ns(world: &World, source: Source) -> u64 {
    world.record[abi::CPU_TOTAL_NS + kind(source)]
}

fn state(world: &World) -> u64 {
    world.record[abi::CPU_STATE]
}

/// A send of one task; for every n, `interrupt` occurs before the n-th instruction of its probes.
fn at_every_instruction(interrupt: impl Fn(&Both, &mut World), judge: impl Fn(&World)) {
    let both = both();
    for place in 0.. {
        let mut world = World::new();
        let mut left: Option<usize> = Some(place);
        let mut go = |run: Run<'_>, world: &mut World| {
            let mut run = run;
            loop {
                if left == Some(0) {
                    interrupt(&both, world);
                }
                left = left.and_then(|left| left.checked_sub(1));
                if !run.step(world) {
                    break;
                }
            }
        };
        go(both.enter(0, OUTER), &mut world);
        world.now += A_WHILE;
        assert_eq!(
            state(&world) & 0xff_ffff,
            kind(Source::SocketSend) as u64 | 0x100,
            "in the call, interrupted before instruction {place}"
        );
        go(both.leave(0, OUTER), &mut world);
        parts_make_the_whole(&world);
        assert_eq!(state(&world), 0, "interrupted before instruction {place}");
        if left.is_some() {
            assert!(place > 60, "the probes have more instructions");
            return;
        }
        judge(&world);
    }
}

#[test]
fn a_softirq_anywhere_in_the_probes_of_a_send_costs_the_send_nothing() {
    at_every_instruction(
        |both, world| {
            both.softirq_begins(world);
            world.now += A_WHILE;
            both.softirq_ends(world);
        },
        |world| {
            let rx_ns = total_ns(world, Source::Softirq(NET_RX as u8));
            assert!((A_WHILE..A_WHILE + 200).contains(&rx_ns), "{rx_ns}");
            let send_ns = total_ns(world, Source::SocketSend);
            assert!((A_WHILE..A_WHILE + 300).contains(&send_ns), "{send_ns}");
            assert_eq!(entries(world, Source::SocketSend), 1);
        },
    );
}

#[test]
fn a_softirq_that_uses_a_socket_itself_leaves_the_interrupted_send_as_it_was() {
    // The softirq has another stack, so its calls may be at any position.
    for depth in [0x0100, INNER, OUTER, 0xff00] {
        at_every_instruction(
            |both, world| {
                both.softirq_begins(world);
                both.enter(1, depth).finish(world);
                world.now += A_WHILE;
                both.enter(2, depth - 0x80).finish(world);
                both.leave(2, depth - 0x80).finish(world);
                both.leave(1, depth).finish(world);
                both.softirq_ends(world);
            },
            |world| {
                assert_eq!(entries(world, Source::SocketSend), 1);
                let send_ns = total_ns(world, Source::SocketSend);
                assert!((A_WHILE..A_WHILE + 300).contains(&send_ns), "{send_ns}");
            },
        );
    }
}

#[test]
fn a_softirq_that_uses_a_socket_leaves_ksoftirqd_what_it_is() {
    let both = both();
    let mut world = World::new();
    world.record[abi::CPU_KSOFTIRQD_PID] = 2;
    both.switch(&mut world, 2);
    both.softirq_begins(&mut world);
    both.enter(1, OUTER).finish(&mut world);
    both.leave(1, OUTER).finish(&mut world);
    world.now += A_WHILE;
    both.softirq_ends(&mut world);
    let in_ksoftirqd_ns = world.record[abi::CPU_KSOFTIRQD_RX_NS];
    assert!(in_ksoftirqd_ns >= A_WHILE, "{in_ksoftirqd_ns}");
}

/// As on a preemptible kernel. A program never interrupts itself there, but others may.
#[test]
fn a_send_of_another_task_anywhere_in_the_probes_of_one_is_counted_as_one_more() {
    at_every_instruction(
        |both, world| {
            both.switch(world, 2);
            both.enter(1, INNER).finish(world);
            world.now += A_WHILE;
            both.leave(1, INNER).finish(world);
            both.switch(world, 1);
        },
        |world| {
            assert_eq!(entries(world, Source::SocketSend), 2);
            assert_eq!(world.record[abi::CPU_STATES_LOST], 0);
        },
    );
}

#[test]
fn a_call_within_a_call_belongs_to_the_outer_one_wherever_another_task_comes_between() {
    let both = both();
    for place in 0.. {
        let mut world = World::new();
        both.enter(0, OUTER).finish(&mut world);
        let mut inner = both.enter(1, INNER);
        let more = (0..place).all(|_| inner.step(&mut world));
        both.switch(&mut world, 2);
        both.enter(2, 0xff00).finish(&mut world);
        both.leave(2, 0xff00).finish(&mut world);
        both.switch(&mut world, 1);
        inner.finish(&mut world);
        both.leave(1, INNER).finish(&mut world);
        assert_eq!(
            state(&world) & 0xffff,
            0x100 | kind(Source::SocketSend) as u64
        );
        both.leave(0, OUTER).finish(&mut world);
        assert_eq!(state(&world), 0);
        assert_eq!(entries(&world, Source::SocketSend), 2);
        parts_make_the_whole(&world);
        if !more {
            return;
        }
    }
}

/// Two tasks saved in the same slot of the table: the first finds it free, the second needs a
/// storage of its own. The second runs and is in a call.
fn with_two_of_one_slot(both: &Both) -> World {
    const SLOTS: u64 = 512;
    let mut world = World::new();
    world.current = 1 + SLOTS;
    both.enter(0, OUTER).finish(&mut world);
    both.switch(&mut world, 1);
    both.enter(1, OUTER).finish(&mut world);
    world
}

#[test]
fn two_tasks_of_one_slot_are_both_given_back_what_they_were_at() {
    let both = both();
    let mut world = with_two_of_one_slot(&both);
    let in_call = state(&world);
    for task in [2, 1, 513, 1, 2, 513, 2, 1] {
        both.switch(&mut world, task);
        assert_eq!(state(&world), if task == 2 { 0 } else { in_call });
    }
    both.leave(1, OUTER).finish(&mut world);
    both.switch(&mut world, 513);
    both.leave(0, OUTER).finish(&mut world);
    for task in [1, 2, 513] {
        both.switch(&mut world, task);
        assert_eq!(state(&world), 0);
    }
    assert_eq!(world.record[abi::CPU_STATES_LOST], 0);
}

#[test]
fn a_slot_of_another_epoch_is_free() {
    let both = both();
    let mut world = with_two_of_one_slot(&both);
    world.control[abi::CONTROL_EPOCH] += 1;
    world.storage_is_refused = true;
    let in_call = state(&world);
    both.switch(&mut world, 2);
    both.switch(&mut world, 513);
    assert_eq!(state(&world), 0, "user space has given it up");
    both.switch(&mut world, 1);
    assert_eq!(state(&world), in_call, "it was parked in this epoch");
    assert_eq!(world.record[abi::CPU_STATES_LOST], 0);
}

#[test]
fn a_state_that_could_not_be_given_back_is_not_given_back_later() {
    let both = both();
    let mut world = with_two_of_one_slot(&both);
    both.switch(&mut world, 2);
    world.storage_is_refused = true;
    both.switch(&mut world, 1);
    world.storage_is_refused = false;
    both.leave(1, OUTER).finish(&mut world);
    both.switch(&mut world, 2);
    both.switch(&mut world, 1);
    assert_eq!(state(&world), 0, "its call has ended long ago");
    assert_eq!(world.record[abi::CPU_STATES_LOST], 1);
}

#[test]
fn a_state_that_could_not_be_parked_is_counted() {
    let both = both();
    let mut world = with_two_of_one_slot(&both);
    world.storage_is_refused = true;
    both.switch(&mut world, 2);
    world.storage_is_refused = false;
    both.switch(&mut world, 1);
    both.leave(1, OUTER).finish(&mut world);
    assert_eq!(state(&world), 0);
    assert_eq!(world.record[abi::CPU_STATES_LOST], 1);
    parts_make_the_whole(&world);
}

#[test]
fn a_state_that_was_parked_is_given_back_on_return() {
    let both = both();
    let mut world = World::new();
    both.enter(0, OUTER).finish(&mut world);
    let in_call = state(&world);
    for _ in 0..3 {
        both.switch(&mut world, 2);
        assert_eq!(state(&world), 0);
        both.switch(&mut world, 1);
        assert_eq!(state(&world), in_call);
    }
    assert_eq!(world.record[abi::CPU_STATES_LOST], 0);
}

#[test]
fn a_state_that_was_parked_in_another_epoch_is_not_given_back_and_not_lost() {
    let both = both();
    let mut world = World::new();
    both.enter(0, OUTER).finish(&mut world);
    both.switch(&mut world, 2);
    world.control[abi::CONTROL_EPOCH] += 1;
    both.switch(&mut world, 1);
    assert_eq!(state(&world), 0, "user space has given it up");
    both.leave(0, OUTER).finish(&mut world);
    both.enter(0, OUTER).finish(&mut world);
    let in_call = state(&world);
    both.switch(&mut world, 2);
    both.switch(&mut world, 1);
    assert_eq!(state(&world), in_call, "it is of this epoch");
    assert_eq!(world.record[abi::CPU_STATES_LOST], 0);
    assert_eq!(world.record[abi::CPU_SWITCHES], 4);
    parts_make_the_whole(&world);
}

/// User space relies on this order: see `kernel/cpu_time.rs`.
#[test]
fn every_transition_stores_the_time_before_the_kind_and_the_kind_before_the_total() {
    let both = both();
    let mut world = World::new();
    let in_order = |world: &mut World, what: &str| {
        let totals = abi::CPU_TOTAL_NS..abi::CPU_TOTAL_NS + CLOCK_KINDS;
        let stored: Vec<usize> = std::mem::take(&mut world.stored)
            .into_iter()
            .filter(|word| {
                [abi::CPU_SINCE_NS, abi::CPU_KIND].contains(word) || totals.contains(word)
            })
            .collect();
        assert_eq!(stored[..2], [abi::CPU_SINCE_NS, abi::CPU_KIND], "{what}");
        assert!(
            stored.len() == 3 && totals.contains(&stored[2]),
            "{what}: {stored:?}"
        );
    };
    both.softirq_begins(&mut world);
    in_order(&mut world, "softirq_entry");
    both.softirq_ends(&mut world);
    in_order(&mut world, "softirq_exit");
    both.enter(0, OUTER).finish(&mut world);
    in_order(&mut world, "fentry");
    both.switch(&mut world, 2);
    in_order(&mut world, "sched_switch away");
    both.switch(&mut world, 1);
    in_order(&mut world, "sched_switch back");
    both.leave(0, OUTER).finish(&mut world);
    in_order(&mut world, "fexit");
}

/// On architectures other than x86, only an atomic operation that returns the old value is a
/// barrier.
#[test]
fn what_announces_a_writer_of_stacks_is_a_barrier_on_every_architecture() {
    const ATOMIC_WORD: u8 = 0xdb;
    const RETURNS_THE_OLD_VALUE: i32 = 1;
    let programs = program::of(NETTO);
    let atomics: Vec<_> = programs.by_name["netto_sample"]
        .iter()
        .filter(|it| it.code == ATOMIC_WORD)
        .collect();
    assert!(atomics.len() >= 4, "{atomics:?}");
    for it in atomics {
        assert!(it.value & RETURNS_THE_OLD_VALUE != 0, "{it:?}");
    }
}
