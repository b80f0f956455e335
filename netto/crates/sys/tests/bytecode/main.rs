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
    let mut clock = program::of(NETTO);
    let mut socket = program::of(SOCKET);
    for programs in [&mut clock, &mut socket] {
        programs.set("netto_possible_cpus", &2_u64.to_le_bytes());
    }
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

/// The home of a task in the table of `bpf/parked.bpf.h`.
fn home(pid: u64) -> usize {
    (pid as u32).wrapping_mul(0x9e37_79b1) as usize >> (32 - 13)
}

/// Tasks with the same home.
fn neighbours() -> impl Iterator<Item = u64> {
    (1..1 << 22).filter(|pid| home(*pid) == home(1))
}

/// Tasks in a send, each switched away while it is there; the task that runs then is in none.
fn with_parked(both: &Both, tasks: impl IntoIterator<Item = u64>) -> World {
    let mut world = World::new();
    for task in tasks {
        world.current = task;
        both.enter(0, OUTER).finish(&mut world);
        both.switch(&mut world, OUTSIDER);
        assert_eq!(state(&world), 0);
    }
    world
}

/// A task without a call.
const OUTSIDER: u64 = 5_000_000;

/// The state of all tasks of `with_parked`.
fn in_a_send() -> u64 {
    OUTER << 32 | 0x100 | kind(Source::SocketSend) as u64
}

/// Each slot's count of tasks behind it is right.
fn counts_are_right(world: &World) {
    let mut away = std::collections::BTreeMap::new();
    let parked = world.parked();
    for (place, [owner, _]) in parked.iter().filter(|(_, [owner, _])| *owner != 0) {
        if home(*owner) != *place {
            *away.entry(home(*owner)).or_insert(0) += 1;
        }
    }
    let counted = parked.iter().filter(|(_, [_, away])| *away != 0);
    let counted: std::collections::BTreeMap<_, _> =
        counted.map(|(place, [_, away])| (*place, *away)).collect();
    assert_eq!(counted, away);
}

#[test]
fn tasks_with_one_home_are_all_given_back_what_they_were_at() {
    let both = both();
    let tasks: Vec<u64> = neighbours().take(16).collect();
    let mut world = with_parked(&both, tasks.iter().copied());
    counts_are_right(&world);
    for task in [3, 15, 0, 3, 8].map(|place: usize| tasks[place]) {
        both.switch(&mut world, task);
        assert_eq!(state(&world), in_a_send());
        both.switch(&mut world, OUTSIDER);
        assert_eq!(state(&world), 0);
        counts_are_right(&world);
    }
    for task in tasks {
        both.switch(&mut world, task);
        both.leave(0, OUTER).finish(&mut world);
        both.switch(&mut world, OUTSIDER);
        counts_are_right(&world);
        both.switch(&mut world, task);
        assert_eq!(state(&world), 0);
    }
    assert!(world.parked().is_empty());
    assert_eq!(world.record[abi::CPU_STATES_LOST], 0);
}

#[test]
fn thousands_of_parked_tasks_find_a_slot_whatever_their_numbers() {
    let both = both();
    let numbers: [&dyn Fn(u64) -> u64; 4] = [
        &|n| 1000 + n,
        &|n| 512 * n + 7,
        &|n| (1 << 21) | (6 * n),
        // Numbers at random.
        &|n| (n + 1).wrapping_mul(0x2545_f491_4f6c_dd1d) >> 43,
    ];
    for number in numbers {
        let tasks = || (0..4000).map(number).filter(|task| *task != 0);
        let mut world = with_parked(&both, tasks());
        counts_are_right(&world);
        for task in tasks() {
            both.switch(&mut world, task);
            assert_eq!(state(&world), in_a_send(), "task {task}");
            both.leave(0, OUTER).finish(&mut world);
        }
        assert!(world.parked().is_empty());
        assert_eq!(world.record[abi::CPU_STATES_LOST], 0);
        parts_make_the_whole(&world);
    }
}

#[test]
fn what_the_table_has_no_room_for_is_counted_and_not_given_back() {
    let both = both();
    let tasks: Vec<u64> = neighbours().take(17).collect();
    let mut world = with_parked(&both, tasks.iter().copied());
    assert_eq!(world.record[abi::CPU_STATES_LOST], 1);
    both.switch(&mut world, tasks[16]);
    assert_eq!(state(&world), 0);
    both.leave(0, OUTER).finish(&mut world);
    // Once one of them has left, there is room.
    both.switch(&mut world, tasks[5]);
    both.leave(0, OUTER).finish(&mut world);
    both.switch(&mut world, tasks[16]);
    both.enter(0, OUTER).finish(&mut world);
    both.switch(&mut world, OUTSIDER);
    both.switch(&mut world, tasks[16]);
    assert_eq!(state(&world), in_a_send());
    assert_eq!(world.record[abi::CPU_STATES_LOST], 1);
    counts_are_right(&world);
    parts_make_the_whole(&world);
}

#[test]
fn tasks_that_ended_unseen_leave_room_in_the_next_epoch() {
    let both = both();
    let tasks: Vec<u64> = neighbours().take(40).collect();
    let mut world = with_parked(&both, tasks[..16].iter().copied());
    world.control[abi::CONTROL_EPOCH] += 1;
    for task in &tasks[16..32] {
        both.switch(&mut world, *task);
        both.enter(0, OUTER).finish(&mut world);
        both.switch(&mut world, OUTSIDER);
        counts_are_right(&world);
    }
    for task in &tasks[..16] {
        both.switch(&mut world, *task);
        assert_eq!(state(&world), 0, "user space has given it up");
    }
    for task in &tasks[16..32] {
        both.switch(&mut world, *task);
        assert_eq!(state(&world), in_a_send(), "it was parked in this epoch");
        both.leave(0, OUTER).finish(&mut world);
    }
    assert!(world.parked().is_empty());
    assert_eq!(world.record[abi::CPU_STATES_LOST], 0);
}

#[test]
fn a_state_whose_task_has_run_unseen_is_counted_and_not_given_back() {
    let both = both();
    for before in 0..3 {
        let tasks: Vec<u64> = neighbours().take(before + 1).collect();
        let mut world = with_parked(&both, tasks.iter().copied());
        let task = tasks[before];
        // It comes and goes, and no program runs.
        let at = world.task(task);
        world.switch_away(at);
        both.switch(&mut world, task);
        assert_eq!(state(&world), 0, "its call may have ended");
        assert_eq!(world.record[abi::CPU_STATES_LOST], 1);
        both.switch(&mut world, OUTSIDER);
        both.switch(&mut world, task);
        assert_eq!(world.record[abi::CPU_STATES_LOST], 1, "it is gone");
        counts_are_right(&world);
    }
}

/// The switch of one CPU, before each of its instructions a whole switch of another. Some tasks are
/// parked before, in an earlier epoch, and some in this one, in slots of those.
#[test]
fn cpus_that_switch_at_the_same_time_leave_each_task_its_own_state() {
    let both = both();
    let tasks: Vec<u64> = neighbours().take(8).collect();
    let early = &tasks[..4];
    let running = [tasks[6], tasks[7]];
    for late in [&tasks[4..4], &tasks[4..6]] {
        // Who comes on each of the CPUs: a task of either epoch, or one that is not parked.
        let arrivals: Vec<u64> = [early[0], early[3], OUTSIDER + 1]
            .into_iter()
            .chain(late.iter().copied())
            .collect();
        for first in &arrivals {
            for second in arrivals.iter().filter(|second| *second != first) {
                switches_at_the_same_time(&both, [early, late], running, [*first, *second]);
            }
        }
    }
}

fn switches_at_the_same_time(
    both: &Both,
    [early, late]: [&[u64]; 2],
    running: [u64; 2],
    arriving: [u64; 2],
) {
    let depth = |task: u64| OUTER - 0x10 * (1 + task % 8);
    let in_a_send = |task: u64| (depth(task) << 32) | (in_a_send() & 0xffff_ffff);
    for place in 0.. {
        let mut world = World::new();
        let park = |world: &mut World, task: u64| {
            world.current = task;
            both.enter(0, depth(task)).finish(world);
            both.switch(world, OUTSIDER);
        };
        early.iter().for_each(|task| park(&mut world, *task));
        world.control[abi::CONTROL_EPOCH] += 1;
        late.iter().for_each(|task| park(&mut world, *task));
        for (cpu, task) in (0..).zip(running) {
            (world.cpu, world.current) = (cpu, task);
            both.enter(0, depth(task)).finish(&mut world);
        }
        let switch = |world: &mut World, cpu: usize| {
            let [prev, next] = [world.task(running[cpu]), world.task(arriving[cpu])];
            world.cpu = cpu as u64;
            world.switch_away(prev);
            Run::new(&both.clock, "netto_switch", 0, &[0, prev, next])
        };
        let mut run = switch(&mut world, 0);
        let more = (0..place).all(|_| run.step(&mut world));
        switch(&mut world, 1).finish(&mut world);
        world.cpu = 0;
        run.finish(&mut world);
        for (cpu, task) in (0..).zip(arriving) {
            let expected = if late.contains(&task) {
                in_a_send(task)
            } else {
                0
            };
            assert_eq!(world.of_cpu(cpu, abi::CPU_STATE), expected, "at {place}");
            // It leaves its send, if it is in one.
            world.cpu = cpu as u64;
            both.leave(0, 0).finish(&mut world);
        }
        counts_are_right(&world);
        (world.cpu, world.current) = (0, arriving[0]);
        let parked = late.iter().chain(&running);
        for task in parked.filter(|task| !arriving.contains(task)) {
            both.switch(&mut world, *task);
            assert_eq!(state(&world), in_a_send(*task), "task {task} at {place}");
            both.leave(0, 0).finish(&mut world);
        }
        for cpu in [0, 1] {
            assert_eq!(world.of_cpu(cpu, abi::CPU_STATES_LOST), 0);
        }
        counts_are_right(&world);
        if !more {
            return;
        }
    }
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

/// The most frequent event of all, on many hosts.
#[test]
fn a_switch_between_tasks_that_remember_nothing_takes_few_instructions() {
    const IDLE: u64 = 0;
    let both = both();
    let mut world = with_parked(&both, 1..100);
    let mut instructions = |to: u64| {
        let [prev, next] = [world.task(OUTSIDER), world.task(to)];
        world.switch_away(prev);
        let mut run = Run::new(&both.clock, "netto_switch", 0, &[0, prev, next]);
        let more = (1..).take_while(|_| run.step(&mut world)).last();
        more.unwrap_or(0) + 1
    };
    let [to_task, to_idle] = [OUTSIDER + 1, IDLE].map(&mut instructions);
    assert!(to_task <= 45 && to_idle <= 35, "{to_task}, {to_idle}");
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
        .filter(|instruction| instruction.code == ATOMIC_WORD)
        .collect();
    assert!(atomics.len() >= 4, "{atomics:?}");
    for instruction in atomics {
        assert!(
            instruction.value & RETURNS_THE_OLD_VALUE != 0,
            "{instruction:?}"
        );
    }
}
