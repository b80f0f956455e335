//! Commands that advice gives, to be typed as they are. Pure.

use super::figures::Figures;
use metrics_common::sections::{InterfaceSetup, Owner, OwnerKind};
use metrics_common::sort::sort_by_key;
use metrics_common::text::{cpu_list, cpu_mask};

/// Interrupts that have a command each.
const MOST_COMMANDS: usize = 8;
/// A CPU with less idle time gets no packets of another.
const LEAST_IDLE: f64 = 0.2;
/// With so many CPUs that idle, the full one needs none of what is spread.
const ENOUGH_OTHERS: usize = 3;

/// How receive work could be spread.
#[derive(Debug, Default)]
pub(super) struct Spread {
    /// How it is now.
    pub(super) now: String,
    pub(super) commands: Vec<String>,
}

/// How packets of the CPU of this column could be spread over those that idle.
pub(super) fn spread(of: &Figures, column: usize) -> Spread {
    let Some(interface) = of.busiest(|_| true) else {
        return Spread {
            now: "which interface it receives from is not known".to_owned(),
            commands: Vec::new(),
        };
    };
    let cpu = of.cpus().get(column).copied().unwrap_or_default();
    let idle = of.idle().unwrap_or_default();
    let with_idle = of.cpus().iter().zip(&idle);
    let mut targets: Vec<u32> = with_idle
        .filter(|(target, idle)| **target != cpu && **idle >= LEAST_IDLE)
        .map(|(target, _)| *target)
        .collect();
    if targets.len() < ENOUGH_OTHERS {
        targets.push(cpu);
        sort_by_key(&mut targets, |target| *target);
    }
    let name = &interface.name;
    let device = quoted(name);
    let queues = |count: u32| match count {
        1 => "one receive queue".to_owned(),
        more => format!("{more} receive queues"),
    };
    let Some(setup) = of.setup_of(name) else {
        return Spread {
            now: format!("{name} receives most; its queues and RPS are not known"),
            commands: vec![steer(&device, &cpu_mask(&targets))],
        };
    };
    let is_here = |(_, cpus): &&(u32, Vec<u32>)| cpus.as_slice() == [cpu];
    let here: Vec<u32> = setup
        .interrupts
        .iter()
        .filter(is_here)
        .map(|interrupt| interrupt.0)
        .collect();
    let now = format!(
        "{name} has {}, {} and {}",
        queues(setup.rx_queues),
        interrupts(setup),
        match setup.rps_cpus.as_slice() {
            [] => "no RPS".to_owned(),
            cpus => format!("RPS to CPUs {}", cpu_list(cpus)),
        }
    );
    if setup.rx_queues > 1 && here.len() > 1 {
        let each = here.iter().zip(targets.iter().cycle());
        let commands = each.take(MOST_COMMANDS).map(|(interrupt, cpu)| {
            format!("echo {cpu} > /proc/irq/{interrupt}/smp_affinity_list")
        });
        return Spread {
            now,
            commands: commands.collect(),
        };
    }
    if setup.rps_cpus.len() > 1 {
        return Spread {
            now: format!("{now}: packets of one flow go to one CPU"),
            commands: vec![
                "netto flows   # which flow it is; several connections would spread".to_owned(),
            ],
        };
    }
    Spread {
        now,
        commands: vec![steer(&device, &cpu_mask(&targets))],
    }
}

fn interrupts(setup: &InterfaceSetup) -> String {
    let mut cpus: Vec<u32> = setup
        .interrupts
        .iter()
        .flat_map(|(_, cpus)| cpus)
        .copied()
        .collect();
    sort_by_key(&mut cpus, |cpu| *cpu);
    cpus.dedup();
    match (setup.interrupts.len(), cpus.as_slice()) {
        (0, _) => "no interrupts of its own".to_owned(),
        (1, cpus) => format!("an interrupt on CPU {}", cpu_list(cpus)),
        (count, cpus) => format!("{count} interrupts on CPUs {}", cpu_list(cpus)),
    }
}

/// Sets receive packet steering of all queues of a device, whose name is quoted.
pub(super) fn steer(device: &str, mask: &str) -> String {
    format!(
        "for queue in /sys/class/net/{device}/queues/rx-*; do echo {mask} > $queue/rps_cpus; done"
    )
}

/// Keeps a group to these CPUs; `None` if it is none or the root group, or there are none.
pub(super) fn keep_to(owner: &Owner, cpus: &[u32]) -> Option<String> {
    let cpus = match cpus {
        [] => return None,
        cpus => cpu_list(cpus),
    };
    let is_group = matches!(owner.kind, OwnerKind::Cgroup | OwnerKind::Process);
    if is_group && !owner.unit.is_empty() {
        let unit = quoted(&owner.unit);
        return Some(format!(
            "systemctl set-property --runtime {unit} AllowedCPUs={cpus}"
        ));
    }
    let group = format!("/sys/fs/cgroup{}/cpuset.cpus", owner.cgroup);
    // The root group has all CPUs, and no such file.
    let is_kept = is_group && !["", "/"].contains(&owner.cgroup.as_str());
    is_kept.then(|| format!("echo {cpus} > {}", quoted(&group)))
}

/// A name as a shell takes it: names of devices and groups may have any character.
pub(super) fn quoted(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.:@/-".contains(letter);
    if name.chars().all(is_plain) && !name.is_empty() {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', "'\\''"))
    }
}
