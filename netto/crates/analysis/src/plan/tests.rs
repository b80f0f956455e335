//! Plans for a perfect host, and for the same host minus one thing at a time.

use super::*;
use metrics_common::component::index_of;

mod hosts;

/// A host where everything works.
fn perfect() -> Facts {
    Facts {
        programs: Ok(()),
        fentry: Ok(()),
        kprobe: Ok(()),
        socket_functions: SOCKET_FUNCTIONS.to_vec(),
        stacks: Ok(()),
        symbols: Ok(()),
        has_symbols: vec![true; COMPONENTS.len()],
        is_realtime: false,
        tracepoints: Ok(()),
    }
}

fn auto(facts: Facts) -> Plan {
    Plan::new(&facts, RequestedMethod::Auto).unwrap()
}

fn availability<'a>(plan: &'a Plan, slug: &str) -> &'a Availability {
    &plan.components[index_of(slug).unwrap()]
}

fn reason<'a>(plan: &'a Plan, slug: &str) -> &'a str {
    match availability(plan, slug) {
        Availability::Unavailable { reason } => reason,
        Availability::Available { method } => panic!("{slug} is measured by {method}"),
    }
}

#[test]
fn a_perfect_host_times_everything_and_has_nothing_to_explain() {
    let plan = auto(perfect());
    assert!(
        matches!(&plan.sockets, Sockets::Timed(Hook::Fentry, f) if f.len() == SOCKET_FUNCTIONS.len())
    );
    assert!(plan.components.iter().all(Availability::is_available));
    assert_eq!(plan.notes(), Vec::<String>::new());
    let capabilities = plan.capabilities();
    assert!(
        capabilities.counted[index_of("tx_syscall").unwrap()]
            && capabilities.counted[index_of("rx_softirq").unwrap()]
    );
}

#[test]
fn softirqs_that_are_neither_split_nor_carved_are_not_sampled() {
    let kinds = auto(perfect()).sampled_kinds();
    let is_sampled = |source: Source| kinds >> source.clock_kind() & 1 == 1;
    assert!(is_sampled(Source::NET_RX) && is_sampled(Source::HRTIMER));
    assert!(!is_sampled(Source::RCU) && !is_sampled(Source::BLOCK));
    assert!(
        is_sampled(Source::SocketReceive),
        "busy polling hides in it"
    );
    assert_eq!(kinds & 1, 1, "threads of networking have no probe");
}

#[test]
fn without_fentry_socket_calls_are_sampled_and_the_user_is_told_why() {
    let plan = auto(Facts {
        fentry: Err("EPERM".into()),
        kprobe: Err("has no kprobes".into()),
        ..perfect()
    });
    assert_eq!(
        *availability(&plan, "tx_syscall"),
        Availability::by(Method::Sampling)
    );
    assert_eq!(
        *availability(&plan, "local_ipc"),
        Availability::by(Method::Sampling)
    );
    assert!(plan.notes()[0].contains("EPERM"), "{:?}", plan.notes());
    let capabilities = plan.capabilities();
    assert!(
        !capabilities.counted[index_of("tx_syscall").unwrap()]
            && capabilities.counted[index_of("rx_softirq").unwrap()]
    );
    assert!(
        !capabilities.timed[index_of("tx_syscall").unwrap()]
            && capabilities.timed[index_of("rx_softirq").unwrap()]
    );
}

/// The clock can time them, but not tell a send from the reading of a file.
#[test]
fn io_uring_threads_need_stacks_and_no_probe_on_sockets() {
    let refused = Facts {
        fentry: Err("EPERM".into()),
        kprobe: Err("has no kprobes".into()),
        ..perfect()
    };
    let hidden = Facts {
        symbols: Err("hidden".into()),
        ..perfect()
    };
    let without_io_uring = {
        let mut facts = perfect();
        for slug in IO_THREADS {
            facts.has_symbols[index_of(slug).unwrap()] = false;
        }
        facts
    };
    for slug in IO_THREADS {
        assert!(availability(&auto(refused.clone()), slug).is_available());
        assert!(
            availability(
                &Plan::new(&perfect(), RequestedMethod::Sampling).unwrap(),
                slug
            )
            .is_available()
        );
        assert!(reason(&auto(hidden.clone()), slug).contains("hidden"));
        assert!(reason(&auto(without_io_uring.clone()), slug).contains("not built in"));
    }
}

const IO_THREADS: [&str; 3] = ["io_worker", "io_other", "io_spin"];

#[test]
fn hidden_symbols_take_the_sampled_parts_away_and_nothing_else() {
    let plan = auto(Facts {
        symbols: Err("hidden".into()),
        ..perfect()
    });
    for slug in [
        "local_delivery_v4",
        "rx_unattributed",
        "napi_thread",
        "net_hrtimer",
        "io_worker",
    ] {
        assert!(reason(&plan, slug).contains("hidden"), "{slug}");
    }
    assert_eq!(
        *availability(&plan, "rx_softirq"),
        Availability::by(Method::TpBtf)
    );
    assert_eq!(
        *availability(&plan, "tx_syscall"),
        Availability::by(Method::Fentry)
    );
    assert_eq!(plan.sampled_kinds(), 0);
    assert!(plan.notes()[0].contains("hidden"));
}

#[test]
fn with_neither_fentry_nor_stacks_socket_calls_are_unavailable_with_both_reasons() {
    let plan = auto(Facts {
        fentry: Err("EPERM".into()),
        kprobe: Err("has no kprobes".into()),
        stacks: Err("paranoid".into()),
        ..perfect()
    });
    let reason = reason(&plan, "rx_syscall");
    assert!(
        reason.contains("EPERM") && reason.contains("paranoid"),
        "{reason}"
    );
}

#[test]
fn a_kernel_without_bridges_has_no_bridging_rather_than_none_of_it() {
    let mut facts = perfect();
    facts.has_symbols[index_of("bridging").unwrap()] = false;
    facts.has_symbols[index_of("driver_poll").unwrap()] = false;
    let plan = auto(facts);
    assert!(reason(&plan, "bridging").contains("module"));
    assert!(
        availability(&plan, "driver_poll").is_available(),
        "drivers are found by position"
    );
}

/// Linux 6.1 has functions of its own.
#[test]
fn kernels_differ_in_functions() {
    let plan = auto(perfect());
    assert!(
        matches!(&plan.sockets, Sockets::Timed(Hook::Fentry, f) if f.iter().any(|f| f.name == "inet_sendpage"))
    );
    let functions = SOCKET_FUNCTIONS
        .iter()
        .copied()
        .filter(|f| f.name != "inet_sendpage")
        .collect();
    let of_6_12 = Facts {
        socket_functions: functions,
        ..perfect()
    };
    assert!(
        matches!(&auto(of_6_12).sockets, Sockets::Timed(Hook::Fentry, f) if f.len() == SOCKET_FUNCTIONS.len() - 1)
    );

    let none = Facts {
        socket_functions: Vec::new(),
        ..perfect()
    };
    assert!(matches!(auto(none).sockets, Sockets::Sampled { .. }));
}

#[test]
fn pure_sampling_attaches_nothing_and_estimates_everything() {
    let plan = Plan::new(&perfect(), RequestedMethod::Sampling).unwrap();
    assert!(!plan.has_clock);
    for slug in ["rx_softirq", "tx_syscall", "gro", "softirq_timer"] {
        assert_eq!(
            *availability(&plan, slug),
            Availability::by(Method::Sampling),
            "{slug}"
        );
    }
    assert!(plan.capabilities().counted.iter().all(|counted| !counted));
    assert!(plan.notes()[0].contains("sampled stacks"));
}

#[test]
fn a_method_that_this_host_does_not_have_is_refused_with_the_reason() {
    let facts = Facts {
        fentry: Err("EPERM".into()),
        kprobe: Err("has no kprobes".into()),
        stacks: Err("paranoid".into()),
        ..perfect()
    };
    let error = Plan::new(&facts, RequestedMethod::Fentry)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("EPERM") && error.contains("--method auto"),
        "{error}"
    );
    let error = Plan::new(&facts, RequestedMethod::Sampling)
        .unwrap_err()
        .to_string();
    assert!(error.contains("paranoid"), "{error}");
}

#[test]
fn kprobes_stand_in_where_fentry_is_refused() {
    let plan = auto(Facts {
        fentry: Err("EPERM".into()),
        ..perfect()
    });
    assert!(
        matches!(&plan.sockets, Sockets::Timed(Hook::Kprobe, f) if f.len() == SOCKET_FUNCTIONS.len())
    );
    assert_eq!(
        *availability(&plan, "tx_syscall"),
        Availability::by(Method::Kprobe)
    );
    assert_eq!(plan.notes(), Vec::<String>::new());
    let asked = Plan::new(&perfect(), RequestedMethod::Kprobe).unwrap();
    assert!(matches!(asked.sockets, Sockets::Timed(Hook::Kprobe, _)));
    let none = Facts {
        kprobe: Err("has no kprobes".into()),
        ..perfect()
    };
    assert!(
        Plan::new(&none, RequestedMethod::Kprobe)
            .unwrap_err()
            .to_string()
            .contains("no kprobes")
    );
}

#[test]
fn without_btf_there_is_no_plan_by_any_method_but_the_reason() {
    let facts = Facts::without_programs("run a kernel built with BTF".to_owned());
    for method in [
        RequestedMethod::Auto,
        RequestedMethod::Fentry,
        RequestedMethod::Kprobe,
        RequestedMethod::Sampling,
    ] {
        let error = Plan::new(&facts, method).unwrap_err();
        assert!(matches!(error, PlanError::NoPrograms(_)), "{error}");
        assert!(error.to_string().contains("built with BTF"), "{error}");
    }
}

#[test]
fn context_switches_are_probed_only_where_states_are_parked() {
    let no_calls = || Facts {
        fentry: Err("EPERM".into()),
        kprobe: Err("has no kprobes".into()),
        ..perfect()
    };
    let realtime = Facts {
        is_realtime: true,
        ..no_calls()
    };
    for (facts, is_probed) in [(perfect(), true), (no_calls(), false), (realtime, true)] {
        let plan = auto(facts);
        assert_eq!(plan.groups().has(Group::Switches), is_probed);
        assert!(plan.groups().has(Group::Softirqs));
        let row = index_of("io_spin").unwrap();
        assert_eq!(plan.capabilities().timed[row], is_probed);
        assert!(plan.components[row].is_available(), "samples show it");
    }
}

#[test]
fn where_programs_in_softirqs_can_be_preempted_nothing_is_timed_and_the_reason_is_told() {
    let facts = Facts {
        is_realtime: true,
        tracepoints: Err("this kernel preempts them".into()),
        ..perfect()
    };
    let plan = auto(facts.clone());
    let capabilities = plan.capabilities();
    assert!(!plan.has_clock && !capabilities.timed.contains(&true));
    for slug in ["rx_softirq", "tx_softirq", "tx_syscall", "rx_syscall"] {
        let by_samples = Availability::by(Method::Sampling);
        assert_eq!(*availability(&plan, slug), by_samples, "{slug}");
    }
    assert!(reason(&plan, "nic_interrupt").contains("this kernel preempts them"));
    assert!(plan.notes()[0].contains("this kernel preempts them"));
    for method in [RequestedMethod::Fentry, RequestedMethod::Kprobe] {
        let refused = Plan::new(&facts, method).unwrap_err().to_string();
        assert!(refused.contains("this kernel preempts them"), "{refused}");
    }
    let facts = Facts {
        tracepoints: Ok(()),
        ..facts
    };
    assert!(auto(facts).has_clock);
}
