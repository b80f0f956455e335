//! A table of hosts, each without one thing, and their expected plans.

use super::*;

/// The expected plan of a host.
struct Expected {
    /// How sends and receives are measured; `None`: not measured.
    sockets: Option<&'static str>,
    /// Part of the reason why parts of the RX softirq are not sampled; `None`: they are.
    no_parts: Option<&'static str>,
    /// Words that must be in the notes.
    notes: &'static [&'static str],
}

const ALL_WELL: Expected = Expected {
    sockets: Some("fentry"),
    no_parts: None,
    notes: &[],
};

/// The perfect host minus one thing at a time, and real kernels. Without BTF there is no plan; that
/// has a test of its own.
#[test]
fn each_thing_that_a_host_lacks_takes_away_what_needs_it_and_no_more() {
    let refused = || Err("Operation not permitted".to_owned());
    let no_kprobes = || Err("has no kprobes (CONFIG_KPROBE_EVENTS)".to_owned());
    let hidden = || Err("kernel.kptr_restrict hides them".to_owned());
    let no_sampling = || Err("run as root or with CAP_PERFMON".to_owned());
    let without = |names: &[&str]| -> Vec<SocketFunction> {
        let all = SOCKET_FUNCTIONS.iter().copied();
        all.filter(|f| !names.contains(&f.name)).collect()
    };
    let hosts: Vec<(&str, Facts, Expected)> = vec![
        ("perfect", perfect(), ALL_WELL),
        (
            "no fentry",
            Facts {
                fentry: refused(),
                ..perfect()
            },
            Expected {
                sockets: Some("kprobe"),
                ..ALL_WELL
            },
        ),
        (
            "no kprobe",
            Facts {
                kprobe: no_kprobes(),
                ..perfect()
            },
            ALL_WELL,
        ),
        (
            "no CAP_SYSLOG: every address reads as zero",
            Facts {
                symbols: Err("needs CAP_SYSLOG".to_owned()),
                ..perfect()
            },
            Expected {
                no_parts: Some("CAP_SYSLOG"),
                notes: &["CAP_SYSLOG"],
                ..ALL_WELL
            },
        ),
        (
            "kptr_restrict=2",
            Facts {
                symbols: hidden(),
                ..perfect()
            },
            Expected {
                no_parts: Some("kptr_restrict"),
                notes: &["kptr_restrict"],
                ..ALL_WELL
            },
        ),
        (
            "perf_event_paranoid=3 and no CAP_PERFMON for events",
            Facts {
                stacks: no_sampling(),
                ..perfect()
            },
            Expected {
                no_parts: Some("CAP_PERFMON"),
                notes: &["CAP_PERFMON"],
                ..ALL_WELL
            },
        ),
        (
            "no fentry, kprobe or kptr: nothing is left for socket calls",
            Facts {
                fentry: refused(),
                kprobe: no_kprobes(),
                symbols: hidden(),
                ..perfect()
            },
            Expected {
                sockets: None,
                no_parts: Some("kptr_restrict"),
                notes: &["not measured", "no kprobes", "kptr_restrict"],
            },
        ),
        (
            "lockdown=integrity: kprobes are still allowed",
            Facts {
                fentry: refused(),
                ..perfect()
            },
            Expected {
                sockets: Some("kprobe"),
                ..ALL_WELL
            },
        ),
        (
            "lockdown=confidentiality: neither probes on functions nor sampling",
            Facts {
                fentry: refused(),
                kprobe: Err("refuses kprobes (Operation not permitted)".to_owned()),
                stacks: no_sampling(),
                ..perfect()
            },
            Expected {
                sockets: None,
                no_parts: Some("CAP_PERFMON"),
                notes: &["not measured", "refuses kprobes"],
            },
        ),
        // netto measures nothing by cgroups, so their hierarchy is not a fact.
        ("cgroup v1 only", perfect(), ALL_WELL),
        ("6.1 of Debian", perfect(), ALL_WELL),
        (
            "6.12 of Debian",
            Facts {
                socket_functions: without(&["inet_sendpage"]),
                ..perfect()
            },
            ALL_WELL,
        ),
        (
            "6.18 without kprobes, with lockdown",
            Facts {
                fentry: refused(),
                kprobe: no_kprobes(),
                socket_functions: without(&["inet_sendpage"]),
                ..perfect()
            },
            Expected {
                sockets: Some("sampling"),
                notes: &["estimated by sampling", "Operation not permitted"],
                ..ALL_WELL
            },
        ),
    ];
    for (host, facts, expected) in hosts {
        let plan = auto(facts);
        for slug in ["tx_syscall", "rx_syscall"] {
            match expected.sockets {
                Some(way) => {
                    assert_eq!(*availability(&plan, slug), Availability::by(way), "{host}")
                }
                None => assert!(!availability(&plan, slug).is_available(), "{host}"),
            }
        }
        for slug in ["gro", "local_delivery_v4", "rx_unattributed", "io_worker"] {
            match expected.no_parts {
                None => assert!(availability(&plan, slug).is_available(), "{host}: {slug}"),
                Some(why) => assert!(reason(&plan, slug).contains(why), "{host}: {slug}"),
            }
        }
        // Softirqs only need tracepoints.
        assert_eq!(
            *availability(&plan, "rx_softirq"),
            Availability::by(Method::TpBtf),
            "{host}"
        );
        let notes = plan.notes().join(" ");
        assert_eq!(
            notes.is_empty(),
            expected.notes.is_empty(),
            "{host}: {notes}"
        );
        for words in expected.notes {
            assert!(notes.contains(words), "{host}: {notes}");
        }
    }
}
