//! Attaches and detaches groups of probes while netto runs, and measures what they cost.
//!
//! On a thread of its own: the kernel takes up to some hundred milliseconds to change
//! trampolines, and no interval may wait for it.

use std::io;
use std::iter::zip;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::probe_set::ProbeSet;
use super::probes::{Member, Probe, Role};
use crate::bpf_stats::{ENOUGH_RUNS, Runs, Statistics, runs_of};
use crate::control::Control;
use crate::cpu_time::CpuClocks;
use crate::held_link::HeldLink;
use crate::perf::WindowSamplers;
use crate::system;
use netto_analysis::groups::{GROUPS, Group, GroupSet};

/// How long the kernel's statistics are on, at the most: a window that is open ends when it is due.
const CALIBRATION: Duration = Duration::from_millis(50);
/// Attaching the programs of a group rarely takes longer: the kernel waits for all CPUs.
const ATTACHING: Duration = Duration::from_millis(100);
/// A window that could not begin for so long is no part of its interval any more.
const TOO_LATE: Duration = Duration::from_secs(1);
/// Interval and number of checks for states that no probe would end.
const LEFTOVER_PAUSE: Duration = Duration::from_millis(2);
const LEFTOVER_LOOKS: usize = 50;

/// What events and samples cost, as far as it was measured, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MeasuredCosts {
    /// By group: all its programs, for one event that begins there.
    pub event_ns: [Option<f64>; GROUPS],
    /// Programs at interrupts, for each softirq.
    pub interrupts_ns: Option<f64>,
    /// One run of the sampler's program, whether it took a stack or not.
    pub sample_ns: Option<f64>,
}

/// A time for which a group was attached that is not attached otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachedWindow {
    /// The group.
    pub group: Group,
    /// When all its probes were attached, CLOCK_MONOTONIC, nanoseconds.
    pub from_ns: u64,
    /// When the first of them was detached again.
    pub until_ns: u64,
    /// CPU time of the thread that attached and detached them, nanoseconds.
    pub switch_ns: u64,
    /// Number of times that one was attached or detached.
    pub changes: u32,
    /// The samples that were taken in addition.
    pub sampling: WindowSampling,
}

/// The samples that are taken in a window in addition to the regular ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WindowSampling {
    /// The sampled CPUs.
    pub cpus: Vec<u32>,
    /// Rate on each, samples per second.
    pub hz: u64,
}

/// The thread's progress.
#[derive(Debug, Default)]
struct State {
    attached: GroupSet,
    /// For how long each group has been attached.
    clocks: [AttachedClock; GROUPS],
    /// Orders that are not carried out yet.
    pending: usize,
    costs: Option<MeasuredCosts>,
    windows: Vec<AttachedWindow>,
    failures: Vec<(Group, io::Error)>,
    /// By group, links of its attached programs that others can take away, and have not.
    links: [Vec<Weak<HeldLink>>; GROUPS],
    /// Groups that had lost a program at the end of a window.
    displaced: GroupSet,
}

impl State {
    /// Whether a program of this group is not where it was attached; each time is told of once.
    fn finds_displaced(&mut self, group: Group) -> bool {
        let links = &mut self.links[group.index()];
        // One that is gone was detached by netto.
        let is_in_place =
            |link: &Weak<HeldLink>| link.upgrade().is_none_or(|link| link.is_in_place());
        let is_displaced = !links.iter().all(is_in_place);
        if is_displaced {
            links.clear();
        }
        is_displaced
    }
}

/// For how long a group has been attached, nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct AttachedClock {
    /// Until it was last detached.
    before_ns: u64,
    since_ns: Option<u64>,
}

impl AttachedClock {
    fn turn(&mut self, is_attached: bool, at_ns: u64) {
        match (is_attached, self.since_ns) {
            (true, None) => self.since_ns = Some(at_ns),
            (false, Some(since_ns)) => {
                self.before_ns += at_ns.saturating_sub(since_ns);
                self.since_ns = None;
            }
            _ => {}
        }
    }

    fn read(&self, now_ns: u64) -> u64 {
        let open_ns = self.since_ns.map(|since| now_ns.saturating_sub(since));
        self.before_ns + open_ns.unwrap_or(0)
    }
}

enum Order {
    Add(Group, Vec<Probe>),
    Remove(Group),
    Attach(GroupSet),
    Window(Window),
    Calibrate,
    End,
}

/// Gives orders to the thread of the probes; never waits for them to be carried out.
#[derive(Debug, Clone)]
pub struct ProbeController {
    orders: Sender<Order>,
    state: Arc<Mutex<State>>,
}

impl ProbeController {
    /// Takes over the probes of a group, which are attached.
    pub fn add(&self, group: Group, probes: Vec<Probe>) {
        self.order(Order::Add(group, probes));
    }

    /// Detaches the probes of a group for good.
    pub fn remove(&self, group: Group) {
        self.order(Order::Remove(group));
    }

    /// Makes these the groups that are attached.
    pub fn attach(&self, groups: GroupSet) {
        self.order(Order::Attach(groups));
    }

    /// Attaches a group for this length, beginning `after` now, unless it is attached anyway, and
    /// takes these samples meanwhile. Other orders do not wait for it.
    pub fn attach_for_a_window(
        &self,
        group: Group,
        after: Duration,
        length: Duration,
        sampling: WindowSampling,
    ) {
        let begins = Instant::now() + after;
        self.order(Order::Window(Window {
            group,
            begins,
            ends: begins + length,
            from_ns: None,
            switch_ns: 0,
            sampling,
        }));
    }

    /// Windows that have ended since the last call.
    pub fn take_windows(&self) -> Vec<AttachedWindow> {
        std::mem::take(&mut self.state().windows)
    }

    /// Measures what programs cost.
    pub fn calibrate(&self) {
        self.order(Order::Calibrate);
    }

    /// The groups that are wholly attached now.
    pub fn attached(&self) -> GroupSet {
        self.state().attached
    }

    /// For how long a group has been attached until now, CLOCK_MONOTONIC, nanoseconds.
    pub fn attached_ns(&self, group: Group, now_ns: u64) -> u64 {
        self.state().clocks[group.index()].read(now_ns)
    }

    /// Whether an order is still being carried out.
    pub fn is_busy(&self) -> bool {
        self.state().pending > 0
    }

    /// What was measured since the last call.
    pub fn take_costs(&self) -> Option<MeasuredCosts> {
        self.state().costs.take()
    }

    /// Attached groups of which somebody has detached or replaced a program since the last call. They
    /// count as attached until netto detaches them.
    pub fn take_displaced(&self) -> GroupSet {
        let mut state = self.state();
        let found = std::mem::take(&mut state.displaced);
        let attached = state.attached.iter();
        let lost: GroupSet = attached
            .filter(|group| state.finds_displaced(*group))
            .collect();
        found.union(lost)
    }

    /// Groups that could not be attached since the last call, and why.
    pub fn take_failures(&self) -> Vec<(Group, io::Error)> {
        std::mem::take(&mut self.state().failures)
    }

    fn order(&self, order: Order) {
        self.state().pending += 1;
        // The receiver is gone when the session ends.
        if self.orders.send(order).is_err() {
            self.is_done();
        }
    }

    /// An order was carried out.
    fn is_done(&self) {
        self.state().pending -= 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread; dropping it detaches everything.
#[derive(Debug)]
pub(super) struct ProbeThread {
    controller: ProbeController,
    thread: Option<JoinHandle<()>>,
}

impl ProbeThread {
    /// Takes over probes that are attached.
    ///
    /// # Errors
    /// The operating system has no thread to give.
    pub(super) fn start(
        attached: GroupSet,
        set: ProbeSet,
        sampler: Option<OwnedFd>,
        window_samplers: Option<WindowSamplers>,
        clocks: Arc<CpuClocks>,
        control: Arc<Control>,
        parks_softirqs: bool,
    ) -> anyhow::Result<ProbeThread> {
        let (orders, received) = channel();
        let state = State {
            attached,
            ..State::default()
        };
        let controller = ProbeController {
            orders,
            state: Arc::new(Mutex::new(state)),
        };
        let worker = Worker {
            wanted: attached,
            windows: Vec::new(),
            set,
            sampler,
            window_samplers,
            clocks,
            control,
            parks_softirqs,
            controller: controller.clone(),
        };
        let thread = thread::Builder::new()
            .name("probes".to_owned())
            .spawn(move || worker.work(&received))
            .context("cannot start the thread that attaches probes")?;
        Ok(ProbeThread {
            controller,
            thread: Some(thread),
        })
    }

    pub(super) fn controller(&self) -> ProbeController {
        self.controller.clone()
    }
}

impl Drop for ProbeThread {
    fn drop(&mut self) {
        self.controller.order(Order::End);
        if let Some(thread) = self.thread.take() {
            // It has nothing to tell but a panic, which was printed already.
            let _ = thread.join();
        }
    }
}

/// A window that is to come, or has begun.
#[derive(Debug)]
struct Window {
    group: Group,
    begins: Instant,
    ends: Instant,
    /// When it began.
    from_ns: Option<u64>,
    /// CPU time that its beginning took, nanoseconds.
    switch_ns: u64,
    /// Samples to be taken, then those that are.
    sampling: WindowSampling,
}

impl Window {
    fn is_open(&self) -> bool {
        self.from_ns.is_some()
    }
}

/// When a window may be opened: not shortly before another one of these is to be closed, since that would be late then.
fn opens(windows: &[Window], window: &Window, now: Instant) -> Instant {
    let open = windows.iter().filter(|other| other.is_open());
    let mut closes: Vec<Instant> = open.map(|other| other.ends).collect();
    closes.sort_unstable();
    let begins = window.begins.max(now);
    closes.into_iter().fold(begins, |opens, closes| {
        let is_soon = (opens..opens + ATTACHING).contains(&closes);
        if is_soon { closes } else { opens }
    })
}

struct Worker {
    /// What is to be attached without a window.
    wanted: GroupSet,
    windows: Vec<Window>,
    set: ProbeSet,
    sampler: Option<OwnedFd>,
    window_samplers: Option<WindowSamplers>,
    clocks: Arc<CpuClocks>,
    control: Arc<Control>,
    /// Whether softirqs are preempted.
    parks_softirqs: bool,
    controller: ProbeController,
}

impl Worker {
    fn work(mut self, orders: &Receiver<Order>) {
        while let Some(order) = self.next(orders) {
            let attached = self.controller.attached();
            match order {
                Order::Add(group, probes) => {
                    self.set.add(group, probes);
                    self.watch(group);
                    self.turn_clocks(GroupSet::NONE.with(group), true, system::monotonic_ns());
                    self.wanted = self.wanted.with(group);
                    self.note(attached.with(group));
                }
                Order::Remove(group) => {
                    self.wanted = self.wanted.without(group);
                    self.drop_windows(group);
                    self.note(attached.minus(GroupSet::NONE.with(group)));
                    self.set.remove(group);
                    self.turn_clocks(GroupSet::NONE.with(group), false, system::monotonic_ns());
                }
                Order::Attach(wanted) => {
                    self.wanted = wanted;
                    let open = self.windows.iter().filter(|window| window.is_open());
                    let open: GroupSet = open.map(|window| window.group).collect();
                    self.detach(attached.minus(wanted).minus(open));
                    // What is attached for a window lacks a part.
                    let whole = attached.minus(open);
                    self.attach(wanted.minus(whole), false);
                }
                Order::Window(window) => self.windows.push(window),
                Order::Calibrate => match self.calibrate() {
                    Ok(costs) => self.controller.state().costs = Some(costs),
                    Err(error) => tracing::debug!("BPF statistics cannot be had: {error}"),
                },
                Order::End => break,
            }
            self.controller.is_done();
        }
        // Ends stay until nothing begins any more.
        self.set.detach(GroupSet::ALL, Role::Begin);
        self.set.detach(GroupSet::ALL, Role::End);
    }

    /// The next order; opens and closes windows until it comes. `None` if none can come.
    fn next(&mut self, orders: &Receiver<Order>) -> Option<Order> {
        loop {
            let Some(due) = self.due() else {
                return orders.recv().ok();
            };
            let left = due.saturating_duration_since(Instant::now());
            match orders.recv_timeout(left) {
                Ok(order) => return Some(order),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.turn_windows(),
            }
        }
    }

    /// When the next window is to be opened or closed.
    fn due(&self) -> Option<Instant> {
        let now = Instant::now();
        let due = self.windows.iter().map(|window| {
            if window.is_open() {
                window.ends
            } else {
                opens(&self.windows, window, now)
            }
        });
        due.min()
    }

    /// Closes the windows that are due, then opens those.
    fn turn_windows(&mut self) {
        self.close_windows();
        let now = Instant::now();
        let is_due =
            |window: &Window| !window.is_open() && opens(&self.windows, window, now) <= now;
        let due = self.windows.iter().position(is_due);
        if let Some(place) = due {
            let window = self.windows.swap_remove(place);
            let late = now.saturating_duration_since(window.begins);
            if late < TOO_LATE {
                self.open_window(Window {
                    ends: window.ends + late,
                    ..window
                });
            }
        }
    }

    fn open_window(&mut self, mut window: Window) {
        let is_attached = |worker: &Self| worker.controller.attached().has(window.group);
        // It is attached anyway.
        if is_attached(self) {
            return;
        }
        let before_ns = system::thread_cpu_ns();
        self.attach(GroupSet::NONE.with(window.group), true);
        if is_attached(self) {
            window.from_ns = Some(system::monotonic_ns());
            let WindowSampling { cpus, hz } = &mut window.sampling;
            let samplers = self.window_samplers.as_mut();
            *cpus = samplers.map_or_else(Vec::new, |samplers| samplers.start(cpus, *hz));
            window.switch_ns = system::thread_cpu_ns().saturating_sub(before_ns);
            self.windows.push(window);
        }
    }

    /// Closes the windows that are due.
    fn close_windows(&mut self) {
        let now = Instant::now();
        let is_due = |window: &mut Window| window.is_open() && window.ends <= now;
        let due: Vec<Window> = self.windows.extract_if(.., is_due).collect();
        for window in due {
            self.close_window(window);
        }
    }

    fn close_window(&mut self, window: Window) {
        let Some(from_ns) = window.from_ns else {
            return;
        };
        let until_ns = system::monotonic_ns();
        let before_ns = system::thread_cpu_ns();
        if let Some(samplers) = &mut self.window_samplers {
            samplers.stop(&window.sampling.cpus);
        }
        let is_whole = self.is_whole(window.group);
        if !self.wanted.has(window.group) {
            self.detach(GroupSet::NONE.with(window.group));
        }
        if !is_whole {
            return;
        }
        let took_ns = system::thread_cpu_ns().saturating_sub(before_ns);
        let members = self.set.probes.iter();
        let members =
            members.filter(|member| member.group == window.group && !member.is_of_interrupts);
        let changes = 2 * members.count() as u32;
        self.controller.state().windows.push(AttachedWindow {
            group: window.group,
            from_ns,
            until_ns,
            switch_ns: window.switch_ns + took_ns,
            changes,
            sampling: window.sampling,
        });
    }

    /// Whether all programs of an attached group are where they were attached; tells if they are not.
    fn is_whole(&self, group: Group) -> bool {
        let mut links = self.set.held_links(group).into_iter();
        let is_whole = links.all(|link| link.upgrade().is_none_or(|link| link.is_in_place()));
        let mut state = self.controller.state();
        if !is_whole && state.finds_displaced(group) {
            state.displaced = state.displaced.with(group);
        }
        is_whole
    }

    /// Ends the windows of a group that is removed.
    fn drop_windows(&mut self, group: Group) {
        let (ended, left): (Vec<Window>, _) = std::mem::take(&mut self.windows)
            .into_iter()
            .partition(|window| window.group == group);
        self.windows = left;
        if let Some(samplers) = &mut self.window_samplers {
            ended
                .iter()
                .filter(|window| window.is_open())
                .for_each(|window| samplers.stop(&window.sampling.cpus));
        }
    }

    fn attach(&mut self, groups: GroupSet, for_a_window: bool) {
        for group in groups.iter() {
            let alone = GroupSet::NONE.with(group);
            let begun_ns = system::monotonic_ns();
            match self.set.attach(alone, for_a_window) {
                Ok(()) => {
                    self.turn_clocks(alone, true, begun_ns);
                    self.watch(group);
                    self.note(self.controller.attached().with(group));
                }
                Err(error) => {
                    self.take_off(alone);
                    self.controller.state().failures.push((group, error));
                }
            }
            // A group that is attached to stay may have taken longer than an open window lasts.
            if !for_a_window {
                self.close_windows();
            }
        }
    }

    /// From now on somebody may take programs of this group away.
    fn watch(&self, group: Group) {
        let links = self.set.held_links(group);
        self.controller.state().links[group.index()] = links;
    }

    /// Detaches groups that lost a probe because of another group: alone it means nothing.
    fn detach(&mut self, groups: GroupSet) {
        if groups.is_empty() {
            return;
        }
        // From now on samples must tell what the clock no longer does.
        self.note(self.controller.attached().minus(groups));
        let begun_ns = system::monotonic_ns();
        self.take_off(groups);
        self.turn_clocks(groups, false, begun_ns);
    }

    /// Notes that groups were attached or detached from `begun_ns` until now: their probes one after
    /// the other, so that the middle of that time is right for all of them together.
    fn turn_clocks(&self, groups: GroupSet, are_attached: bool, begun_ns: u64) {
        let middle_ns = begun_ns + system::monotonic_ns().saturating_sub(begun_ns) / 2;
        let mut state = self.controller.state();
        for group in groups.iter() {
            state.clocks[group.index()].turn(are_attached, middle_ns);
        }
    }

    /// What is under way when its beginnings go is seen to its end, if that comes soon. What
    /// then is left would never end: it is given up, with the tasks that sleep in it.
    fn take_off(&mut self, groups: GroupSet) {
        self.set.detach(groups, Role::Begin);
        if groups.iter().all(Group::is_registered) {
            return;
        }
        // Only what is parked with tasks could come back.
        if self.parks_softirqs || groups != GroupSet::NONE.with(Group::Softirqs) {
            self.control.begin_epoch();
        }
        for _ in 0..LEFTOVER_LOOKS {
            if self.clocks.are_outside_of(groups) {
                break;
            }
            thread::sleep(LEFTOVER_PAUSE);
        }
        self.set.detach(groups, Role::End);
        for _ in 0..LEFTOVER_LOOKS {
            if self.clocks.leave(groups) {
                break;
            }
            thread::sleep(LEFTOVER_PAUSE);
        }
    }

    fn note(&self, attached: GroupSet) {
        let softirqs = attached.has(Group::Softirqs);
        self.control.set_softirqs_timed(softirqs);
        self.controller.state().attached = attached;
    }

    /// Until a window is to be closed.
    fn left_of_window(&self) -> Duration {
        let open = self.windows.iter().filter(|window| window.is_open());
        let left = open.map(|window| window.ends.saturating_duration_since(Instant::now()));
        left.min().unwrap_or(Duration::MAX)
    }

    fn calibrate(&self) -> io::Result<MeasuredCosts> {
        let statistics = Statistics::on()?;
        let read = || {
            let sampler = self.sampler.as_ref().map(runs_of).unwrap_or_default();
            (self.set.runs(), sampler)
        };
        let (runs_before, sampler_before) = read();
        thread::sleep(self.left_of_window().min(CALIBRATION));
        let (runs, sampler) = read();
        drop(statistics);
        let runs = grown(&runs, &runs_before);
        let sum = |wanted: &dyn Fn(&Member) -> bool| {
            let probes = self.set.probes.iter().zip(&runs);
            probes
                .filter(|(probe, _)| wanted(probe))
                .fold(Runs::default(), |sum, (_, runs)| sum.plus(*runs))
        };
        let events = |group: Group| {
            let is_one = |probe: &Member| {
                probe.group == group && probe.role == Role::Begin && !probe.is_of_interrupts
            };
            Some(sum(&is_one).count).filter(|&events| events >= ENOUGH_RUNS)
        };
        let event_ns = |group: Group| {
            let of_group = |probe: &Member| probe.group == group && !probe.is_of_interrupts;
            Some(sum(&of_group).ns as f64 / events(group)? as f64)
        };
        // In a window the programs at interrupts are not attached.
        let softirqs = events(Group::Softirqs);
        let softirqs = softirqs.filter(|_| self.wanted.has(Group::Softirqs));
        let interrupts_ns = softirqs
            .map(|softirqs| sum(&|probe| probe.is_of_interrupts).ns as f64 / softirqs as f64);
        let sampler = Some(sampler.since(sampler_before)).filter(|runs| runs.count > 0);
        let mut costs = [None; GROUPS];
        for group in self.controller.attached().iter() {
            costs[group.index()] = event_ns(group);
        }
        Ok(MeasuredCosts {
            event_ns: costs,
            interrupts_ns,
            sample_ns: sampler.map(|runs| runs.ns as f64 / runs.count as f64),
        })
    }
}

fn grown(after: &[Runs], before: &[Runs]) -> Vec<Runs> {
    zip(after, before).map(|(a, b)| a.since(*b)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_groups_clock_goes_while_it_is_attached() {
        let mut clock = AttachedClock::default();
        for (is_attached, at_ns) in [(false, 5), (true, 10), (true, 12), (false, 30), (false, 40)] {
            clock.turn(is_attached, at_ns);
        }
        assert_eq!(clock.read(50), 20);
        clock.turn(true, 60);
        assert_eq!(clock.read(65), 25);
    }

    #[test]
    fn a_window_is_not_opened_shortly_before_another_is_to_be_closed() {
        let now = Instant::now();
        let window = |from: u64, until: u64, is_open: bool| Window {
            group: Group::Softirqs,
            begins: now + Duration::from_millis(from),
            ends: now + Duration::from_millis(until),
            from_ns: is_open.then_some(1),
            switch_ns: 0,
            sampling: WindowSampling::default(),
        };
        let opens_at = |windows: &[Window], from: u64| {
            let opens = opens(windows, &window(from, from + 5, false), now);
            opens.duration_since(now).as_millis()
        };
        assert_eq!(opens_at(&[], 3), 3);
        assert_eq!(opens_at(&[window(0, 8, false)], 3), 3, "it is not open");
        assert_eq!(opens_at(&[window(0, 8, true)], 3), 8);
        assert_eq!(opens_at(&[window(0, 90, true), window(0, 8, true)], 3), 90);
        assert_eq!(opens_at(&[window(0, 800, true)], 3), 3, "a long one");
        assert_eq!(opens_at(&[window(0, 2, true)], 3), 3);
    }

    #[test]
    fn it_is_busy_until_the_last_of_its_orders_is_carried_out() {
        let (orders, received) = channel();
        let controller = ProbeController {
            orders,
            state: Arc::default(),
        };
        controller.attach(GroupSet::NONE);
        controller.calibrate();
        assert!(matches!(received.recv(), Ok(Order::Attach(_))));
        controller.is_done();
        assert!(controller.is_busy(), "an order waits");
        assert!(matches!(received.recv(), Ok(Order::Calibrate)));
        controller.is_done();
        assert!(!controller.is_busy());
        drop(received);
        controller.calibrate();
        assert!(!controller.is_busy(), "nobody listens any more");
    }
}
