//! The work of a made-up host's CPUs: slow waves, short bursts, a phase of container traffic over a
//! bridge, one overloaded core. Pure; the same seed and time give the same work.

use metrics_common::component::{children_of, index_of_source};
use metrics_common::{COMPONENTS, Component, CpuModes, Kind, Source};
use netto_feature::demo::Work;

/// A tick of `/proc/stat`.
const TICK_NS: f64 = 10_000_000.0;
/// Periods of the slow wave, the bridge's phase, and the bursts, seconds.
const WAVE_SECONDS: f64 = 420.0;
const BRIDGE_SECONDS: (f64, f64) = (600.0, 210.0);
const BURST_SECONDS: (f64, f64) = (97.0, 9.0);
/// Number of CPUs for each receive queue.
const CPUS_PER_QUEUE: u32 = 4;

/// The made-up CPUs.
pub struct Load {
    cpus: u32,
    nodes: u32,
    seed: u64,
    /// Remaining fractions of ticks, by CPU and mode.
    ticks_left: Vec<[f64; 8]>,
}

impl Load {
    /// CPUs without any work yet.
    pub fn new(cpus: u32, nodes: u32, seed: u64) -> Self {
        Load {
            cpus,
            nodes,
            seed,
            ticks_left: vec![[0.0; 8]; cpus as usize],
        }
    }

    /// The interval that ends at `seconds`, with `stacks` samples on each CPU.
    pub fn interval(&mut self, seconds: f64, interval_ns: u64, stacks: u64) -> Work {
        let empty = vec![0; self.cpus as usize];
        let mut work = Work {
            components: vec![Some(empty.clone()); COMPONENTS.len()],
            samples: vec![None; COMPONENTS.len()],
            entries: COMPONENTS
                .iter()
                .map(|c| matches!(c.kind, Kind::Timed(..)).then(|| empty.clone()))
                .collect(),
            modes: Vec::with_capacity(self.cpus as usize),
        };
        for cpu in 0..self.cpus {
            self.cpu(&mut work, cpu, seconds, interval_ns, stacks);
        }
        work
    }

    fn cpu(&mut self, work: &mut Work, cpu: u32, seconds: f64, interval_ns: u64, stacks: u64) {
        let mut values = self.events(cpu, seconds, interval_ns, stacks);
        carve(&mut values);
        let column = cpu as usize;
        for (index, component) in COMPONENTS.iter().enumerate() {
            let Kind::Timed(source, _) = component.kind else {
                continue;
            };
            if let Some(row) = &mut work.entries[index] {
                row[column] = values[index] / entry_ns(source);
            }
            if children_of(component.slug).next().is_some() {
                let taken = values[index] as f64 / interval_ns as f64 * stacks as f64;
                let taken = taken.ceil() as u32;
                share_out(
                    &mut values,
                    index,
                    taken,
                    self.split(component.slug, cpu, seconds, taken),
                );
                let samples =
                    work.samples[index].get_or_insert_with(|| vec![0; self.cpus as usize]);
                samples[column] = taken;
            }
        }
        let (kernel, softirq) = in_modes(&values);
        sum_up(&mut values);
        for (row, ns) in work.components.iter_mut().zip(values) {
            if let Some(row) = row {
                row[column] = ns;
            }
        }
        let modes = self.modes(
            cpu,
            seconds,
            interval_ns as f64,
            kernel as f64,
            softirq as f64,
        );
        work.modes.push(modes);
    }

    /// CPU time by component, for those without a parent.
    fn events(&self, cpu: u32, seconds: f64, interval_ns: u64, stacks: u64) -> Vec<u64> {
        let time_ns = |(index, component): (usize, &Component)| match component.kind {
            Kind::Timed(source, _) => {
                (self.timed_share(source, cpu, seconds) * interval_ns as f64) as u64
            }
            // Each of its samples stands for a sampling period.
            Kind::Estimated(_) => {
                let expected = self.estimated_share(component.slug, cpu, seconds) * stacks as f64;
                let luck = self.hash((seconds * 1e3) as u64, u64::from(cpu), index as u64);
                (expected + luck) as u64 * interval_ns / stacks.max(1)
            }
            _ => 0,
        };
        COMPONENTS.iter().enumerate().map(time_ns).collect()
    }

    /// Share of its time that a CPU spends on work without a probe.
    fn estimated_share(&self, slug: &str, cpu: u32, seconds: f64) -> f64 {
        let near = if cpu % CPUS_PER_QUEUE < 2 { 1.0 } else { 0.4 };
        let scale = match slug {
            "connections" => 0.011,
            "socket_poll" => 0.007,
            "net_worker" => 0.002,
            // This host has no threaded NAPI, busy polling or cpumaps.
            _ => return 0.0,
        };
        if cpu == self.hot_cpu() {
            return 0.0;
        }
        scale * near * self.smooth(seconds, 13.0, cpu, 55)
    }

    /// Share of a CPU's time for one source of work.
    fn timed_share(&self, source: Source, cpu: u32, seconds: f64) -> f64 {
        let wave = 0.62 + 0.38 * (std::f64::consts::TAU * seconds / WAVE_SECONDS).sin();
        let jitter = 0.7 + 0.6 * self.smooth(seconds, 2.3, cpu, source.clock_kind());
        let load = wave * jitter;
        let burst = if is_in(seconds, BURST_SECONDS) {
            1.7
        } else {
            1.0
        };
        let is_hot = cpu == self.hot_cpu();
        let has_queue = cpu.is_multiple_of(CPUS_PER_QUEUE);
        // Programs run near their queues: there is more to send and receive on these CPUs.
        let near = if cpu % CPUS_PER_QUEUE < 2 { 1.0 } else { 0.45 };
        let slow = 0.35 + 0.65 * self.smooth(seconds, 41.0, cpu, 77);
        // Flows are not spread evenly over the queues.
        let queue_weight = 0.3 + 1.1 * self.hash(9, u64::from(cpu), 3);
        match source {
            Source::NET_RX if is_hot => (0.66 + 0.17 * wave * jitter).min(0.93),
            Source::NET_RX if has_queue => (0.25 * load * burst * queue_weight * slow).min(0.55),
            Source::NET_RX => 0.012 * load * burst,
            Source::NET_TX if has_queue => 0.008 * load,
            Source::NET_TX => 0.002 * load,
            _ if is_hot && !matches!(source, Source::Softirq(_)) => 0.004 * load,
            Source::SocketSend => 0.075 * load * near * slow,
            Source::SocketReceive => 0.052 * load * near * slow,
            Source::IoWorker => 0.012 * load * slow,
            Source::LocalIpc => 0.005 * jitter,
            Source::NicInterrupt if has_queue => 0.006 * load,
            Source::NicInterrupt => 0.0,
            // HI, BLOCK and IRQ_POLL have little work on such a host.
            Source::Softirq(0 | 4 | 5) => 0.0002 * jitter,
            Source::TIMER => 0.0035 * jitter,
            Source::TASKLET => 0.003 * load,
            Source::SCHED => 0.005 * jitter,
            Source::HRTIMER => 0.004 * load,
            Source::Softirq(_) => 0.004 * jitter,
        }
    }

    /// The core overloaded by a single large flow.
    fn hot_cpu(&self) -> u32 {
        // In the middle, so that it is not obvious.
        let wanted = self.cpus * 37 / 128 + (self.seed % 3) as u32;
        wanted.min(self.cpus - 1)
    }

    /// Number of samples of each part of a component.
    fn split(&self, whole: &str, cpu: u32, seconds: f64, taken: u32) -> Vec<(usize, u32)> {
        let node = cpu * self.nodes / self.cpus;
        // The containers run on the last node.
        let bridge = is_in(seconds, BRIDGE_SECONDS) && node == self.nodes - 1;
        let weights: Vec<(usize, f64)> = children_of(whole)
            .map(|part| (part, weight(COMPONENTS[part].slug, bridge)))
            .collect();
        let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
        let mut left = taken;
        weights
            .into_iter()
            .map(|(part, weight)| {
                let expected = f64::from(taken) * weight / sum.max(f64::MIN_POSITIVE);
                let moment = (seconds * 1e3) as u64;
                let noise = self.hash(moment, u64::from(cpu), part as u64)
                    + 0.5 * self.hash(moment, part as u64, u64::from(cpu) + 5)
                    - 0.75;
                // Approximately the variance of counting.
                let count = (expected + noise * 2.0 * expected.sqrt()).round().max(0.0) as u32;
                let count = count.min(left);
                left -= count;
                (part, count)
            })
            .collect()
    }

    fn modes(
        &mut self,
        cpu: u32,
        seconds: f64,
        interval: f64,
        kernel: f64,
        softirq: f64,
    ) -> CpuModes {
        let user = 0.30 * (0.3 + 0.7 * self.smooth(seconds, 11.0, cpu, 101));
        let system = 0.05 * (0.4 + 0.6 * self.smooth(seconds, 7.0, cpu, 102));
        let iowait = 0.01 * self.smooth(seconds, 5.0, cpu, 103);
        let mut shares = [0.0; 8];
        shares[0] = user;
        shares[1] = 0.004;
        shares[2] = system + kernel / interval;
        shares[4] = iowait;
        shares[5] = 0.006;
        shares[6] = softirq / interval;
        let sum: f64 = shares.iter().sum();
        // A CPU with more work than time takes it from the programs.
        shares[0] = (user - (sum - 1.0).max(0.0)).max(0.0);
        shares[3] = (1.0 - shares.iter().sum::<f64>()).max(0.0);
        let left = &mut self.ticks_left[cpu as usize];
        let mut values = [0; 8];
        for ((value, left), share) in values.iter_mut().zip(left).zip(shares) {
            *left += share * interval / TICK_NS;
            *value = (left.floor() * TICK_NS) as u64;
            *left -= left.floor();
        }
        CpuModes::from_values(values)
    }

    /// Noise from 0 to 1 that changes within about `scale` seconds.
    fn smooth(&self, seconds: f64, scale: f64, cpu: u32, what: u8) -> f64 {
        let at = seconds / scale;
        let (step, part) = (at.floor(), at.fract());
        let value = |step: f64| self.hash(step as u64, u64::from(cpu), u64::from(what) + 1000);
        let eased = part * part * (3.0 - 2.0 * part);
        value(step) * (1.0 - eased) + value(step + 1.0) * eased
    }

    /// Noise from 0 to 1 (Sebastiano Vigna's splitmix64 as a hash).
    fn hash(&self, a: u64, b: u64, c: u64) -> f64 {
        let mut x = self.seed ^ 0x5851_f42d_4c95_7f2d;
        for part in [a, b, c] {
            x = x.wrapping_add(part).wrapping_add(0x9e37_79b9_7f4a_7c15);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^= x >> 31;
        }
        (x >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Subtracts the networking part from each softirq.
fn carve(values: &mut [u64]) {
    for (index, component) in COMPONENTS.iter().enumerate() {
        if let Kind::Carved(source, _) = component.kind
            && let Some(whole) = index_of_source(source)
        {
            let part_ns = values[whole] * carved_percent(source) / 100;
            values[index] = part_ns;
            values[whole] -= part_ns;
        }
    }
}

/// Gives each part of a whole the time of its samples, and the remainder the rest.
fn share_out(values: &mut [u64], whole: usize, taken: u32, counts: Vec<(usize, u32)>) {
    let ns = values[whole];
    let mut left = ns;
    let mut remainder = None;
    for (part, count) in counts {
        if COMPONENTS[part].kind == Kind::Remainder {
            remainder = Some(part);
            continue;
        }
        values[part] = ns * u64::from(count) / u64::from(taken.max(1));
        left -= values[part];
    }
    if let Some(part) = remainder {
        values[part] = left;
    }
}

/// Nanoseconds that belong to the modes system and softirq.
fn in_modes(values: &[u64]) -> (u64, u64) {
    let (mut kernel, mut softirq) = (0, 0);
    for (component, ns) in COMPONENTS.iter().zip(values) {
        match component.kind {
            Kind::Timed(Source::Softirq(_), _) | Kind::Carved(Source::Softirq(_), _) => {
                softirq += ns;
            }
            Kind::Timed(..) | Kind::Estimated(_) | Kind::Carved(..) => kernel += ns,
            _ => {}
        }
    }
    (kernel, softirq)
}

/// Sets every sum to that of its parts.
fn sum_up(values: &mut [u64]) {
    for (index, component) in COMPONENTS.iter().enumerate() {
        if component.kind == Kind::Sum {
            values[index] = children_of(component.slug).map(|part| values[part]).sum();
        }
    }
}

/// Whether a time lies in the second of two phases of a cycle, given as the length of the cycle and
/// of that phase.
fn is_in(seconds: f64, (cycle, length): (f64, f64)) -> bool {
    seconds % cycle >= cycle - length
}

/// Percentage of a softirq that is networking; for io_uring's threads, of each part.
fn carved_percent(source: Source) -> u64 {
    match source {
        // Pacing is nearly the only user of high-resolution timers.
        Source::HRTIMER => 70,
        Source::TASKLET | Source::IoWorker => 45,
        _ => 12,
    }
}

/// Time of one softirq or call, nanoseconds.
fn entry_ns(source: Source) -> u64 {
    match source {
        Source::NET_RX => 21_000,
        Source::Softirq(_) => 3_500,
        Source::SocketSend => 6_200,
        Source::SocketReceive => 3_900,
        Source::LocalIpc => 2_100,
        Source::IoWorker => 48_000,
        Source::NicInterrupt => 1_400,
    }
}

/// Relative weight of a part among its siblings.
fn weight(slug: &str, bridge: bool) -> f64 {
    match slug {
        "bridging" => {
            if bridge {
                46.0
            } else {
                1.5
            }
        }
        "nf_prerouting_v4" | "nf_input" => {
            if bridge {
                9.0
            } else {
                3.0
            }
        }
        "local_delivery_v4" => 30.0,
        "driver_poll" => 16.0,
        "gro" => 14.0,
        "conntrack" => 9.0,
        "local_delivery_v6" => 7.0,
        "ip_receive_v4" | "forwarding_v4" | "rx_core" => 5.0,
        "tc_classify" | "tx_completion" | "napi_loop" => 3.0,
        "rx_unattributed" => 3.5,
        "backlog" | "ip_receive_v6" | "rx_handler" => 1.5,
        "forwarding_v6" | "nf_prerouting_v6" => 0.7,
        // Programs' sends and receives are mostly copying.
        "receive_copy" => 40.0,
        "send_copy" => 22.0,
        "send_tcp" => 16.0,
        "receive_free" => 12.0,
        "receive_protocol" => 10.0,
        "receive_wait" => 9.0,
        "send_buffers" | "send_driver" | "receive_ack" | "receive_socket" => 8.0,
        "send_ip" | "send_qdisc" => 6.5,
        "send_netfilter" | "send_device" => 5.0,
        "send_routing" | "send_socket" | "send_datagram" | "receive_backlog" => 4.0,
        // No programs are attached to this host's devices or sockets.
        "xdp_native" | "xdp_generic" | "taps" | "nf_ingress" | "send_tls" | "receive_tls" => 0.0,
        _ => 2.0,
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;

    use super::*;

    const INTERVAL_NS: u64 = 500_000_000;

    fn intervals(cpus: u32, nodes: u32, count: u32) -> impl Iterator<Item = Work> {
        let mut load = Load::new(cpus, nodes, 1);
        let seconds = (1..=count).map(|number| f64::from(number) / 2.0);
        seconds.map(move |seconds| load.interval(seconds, INTERVAL_NS, 500))
    }

    #[test]
    fn everything_adds_up_on_every_cpu() {
        for work in intervals(16, 2, 40) {
            for component in COMPONENTS {
                let row = |index: usize| work.components[index].as_ref().unwrap();
                let whole = row(index_of(component.slug).unwrap());
                let parts: Vec<_> = children_of(component.slug).map(row).collect();
                for (cpu, &ns) in whole.iter().enumerate() {
                    assert!(ns <= INTERVAL_NS, "{} on {cpu}", component.slug);
                    let sum: u64 = parts.iter().map(|part| part[cpu]).sum();
                    assert!(parts.is_empty() || sum == ns, "{} on {cpu}", component.slug);
                }
            }
        }
    }

    #[test]
    fn modes_fill_the_time_in_ticks_and_hold_networking() {
        let (mut kernel_ns, mut network_ns) = (0, 0);
        for work in intervals(8, 2, 60) {
            for modes in &work.modes {
                assert!(modes.total_ns().abs_diff(INTERVAL_NS) <= 80_000_000);
                assert!(modes.values().iter().all(|ns| ns % 10_000_000 == 0));
                kernel_ns += modes.system_ns + modes.irq_ns + modes.softirq_ns;
            }
            network_ns += work.components[0].iter().flatten().sum::<u64>();
        }
        assert!(kernel_ns > network_ns);
    }

    #[test]
    fn one_core_is_hot() {
        let rx = index_of("rx_softirq").unwrap();
        for work in intervals(128, 4, 20) {
            let mut sorted = work.components[rx].clone().unwrap();
            sorted.sort_unstable();
            assert!(sorted[127] > INTERVAL_NS / 2, "hot");
            assert!(sorted[126] < sorted[127], "and alone");
        }
    }
}
