//! The programs of the made-up host: a filter at its interface, a container network's, and one at
//! control groups.

use metrics_common::Owners;
use metrics_common::component::index_of;
use metrics_common::sections::{About, Attachment, Causes, Packets, Program, Programs};
use netto_feature::demo::Generator;

/// Name, type, hook, target, component whose time it has a part of, and that part, per mille.
const PROGRAMS: [(&str, &str, [&str; 2], &str, u64); 3] = [
    ("xdp_filter", "xdp", ["xdp", "eth0"], "xdp_generic", 900),
    (
        "to_container",
        "sched_cls",
        ["tcx_ingress", "eth0"],
        "tc_classify",
        850,
    ),
    (
        "sock_policy",
        "cgroup_skb",
        ["cgroup_inet_ingress", "/"],
        "local_delivery_v4",
        40,
    ),
];
const FIRST_ID: u32 = 41;
/// Time between two samples.
const PERIOD_NS: u64 = 1_000_000;

/// Time between two samples whose owner is known, milliseconds.
const KNOWN_MS: u64 = 4;

/// Whose packets a component was for.
fn causes_of(owners: &Owners, component: usize) -> Causes {
    let mut causes = Causes::default();
    for caused in &owners.caused {
        if caused.component as usize == component
            && let Some(owner) = owners.owners.get(caused.owner as usize)
        {
            let ns = caused.cpu_ns.iter().sum();
            causes.add(owner, ns, Some(KNOWN_MS * ns));
        }
    }
    causes.keep_largest();
    causes
}

/// Fills the section.
pub(crate) fn generator() -> Generator {
    Box::new(|interval, sections| {
        let interfaces = sections
            .traffic
            .as_ref()
            .and_then(|traffic| traffic.interfaces.as_ref());
        let work = interval.work;
        let program = |(place, row): (usize, &(&str, &str, [&str; 2], &str, u64))| {
            let (name, kind, [hook, target], component, per_mille) = *row;
            let component = index_of(component)?;
            let time_ns = work.components.get(component)?.as_ref()?;
            let cpu_ns: Vec<u64> = time_ns.iter().map(|ns| ns / 1_000 * per_mille).collect();
            let interface = interfaces
                .and_then(|all| all.named.iter().find(|interface| interface.name == target));
            let packets = interface.map(|interface| Packets {
                count: interface.counts.rx_packets,
                cpu_ns: cpu_ns.iter().sum(),
                are_runs: false,
            });
            let uncounted = match packets {
                Some(_) => "",
                None => "the kernel does not count what passes there",
            };
            let id = FIRST_ID + place as u32;
            let attached = Attachment {
                hook: hook.to_owned(),
                target: target.to_owned(),
            };
            let about = About {
                id,
                name: name.to_owned(),
                kind: kind.to_owned(),
                tag: format!("{:016x}", u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                attached: vec![attached],
                samples: cpu_ns.iter().sum::<u64>() / PERIOD_NS,
                packets,
                uncounted: uncounted.to_owned(),
                ..About::default()
            };
            let owners = sections.owners.as_ref();
            Some(Program {
                causes: owners.map(|owners| causes_of(owners, component)),
                about,
                // As if samples were taken 250 times a second.
                variance_ns_ms: Some(4 * cpu_ns.iter().sum::<u64>()),
                cpu_ns,
            })
        };
        let mut programs: Vec<Program> = PROGRAMS.iter().enumerate().filter_map(program).collect();
        programs.sort_by_key(|program| std::cmp::Reverse(program.total_ns()));
        sections.programs = Some(Programs {
            programs,
            other_cpu_ns: vec![0; work.modes.len()],
            other_samples: 0,
        });
    })
}
