//! Facts about the host → the plan: what is measured by which means, what is
//! not, and why. Pure; `kernel::preflight` gathers the facts.

use metrics_common::component::index_of;
use metrics_common::{Availability, COMPONENTS, Kind, Source};

use super::attribute::Means;

/// A kernel function that stands for a socket call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketFunction {
    /// Its name.
    pub name: &'static str,
    /// What its time is charged to.
    pub source: Source,
}

const fn calls(source: Source, name: &'static str) -> SocketFunction {
    SocketFunction { name, source }
}

/// The functions one layer below the socket layer's entry points, which
/// compilers inline: every path comes through them, from system calls, splice
/// and io_uring, and the address family is known by construction. Each kernel
/// has some of them.
pub const SOCKET_FUNCTIONS: &[SocketFunction] = &[
    calls(Source::SocketSend, "inet_sendmsg"),
    calls(Source::SocketSend, "inet6_sendmsg"),
    calls(Source::SocketSend, "inet_sendpage"),
    calls(Source::SocketSend, "packet_sendmsg"),
    calls(Source::SocketSend, "packet_sendmsg_spkt"),
    calls(Source::SocketSend, "xsk_sendmsg"),
    calls(Source::SocketReceive, "inet_recvmsg"),
    calls(Source::SocketReceive, "inet6_recvmsg"),
    calls(Source::SocketReceive, "tcp_splice_read"),
    calls(Source::SocketReceive, "packet_recvmsg"),
    calls(Source::SocketReceive, "xsk_recvmsg"),
    calls(Source::LocalIpc, "unix_stream_sendmsg"),
    calls(Source::LocalIpc, "unix_stream_recvmsg"),
    calls(Source::LocalIpc, "unix_dgram_sendmsg"),
    calls(Source::LocalIpc, "unix_dgram_recvmsg"),
    calls(Source::LocalIpc, "netlink_sendmsg"),
    calls(Source::LocalIpc, "netlink_recvmsg"),
];

/// What was found out about the host by trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Whether fentry and fexit programs load, or the kernel's refusal.
    pub fentry: Result<(), String>,
    /// Those of [`SOCKET_FUNCTIONS`] that this kernel has.
    pub socket_functions: Vec<SocketFunction>,
    /// Whether tracepoints `sock:sock_send_length` and `sock:sock_recv_length` exist (Linux 6.3).
    pub socket_tracepoints: bool,
    /// Whether stacks can be sampled, or why not.
    pub stacks: Result<(), String>,
    /// Whether kernel symbols can be read, or why not.
    pub symbols: Result<(), String>,
    /// By component: whether this kernel has a function that its rules name.
    pub has_symbols: Vec<bool>,
}

/// How socket calls are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sockets {
    /// Timed by fentry and fexit on these functions.
    Timed(Vec<SocketFunction>),
    /// Found in sampled stacks, for this reason.
    Sampled {
        /// Why they cannot be timed.
        reason: String,
    },
    /// Not at all, for this reason.
    Unavailable {
        /// Why not.
        reason: String,
    },
}

/// What to attach, what to skip, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How socket calls are measured.
    pub sockets: Sockets,
    /// Whether socket tracepoints are attached to find the io_uring threads that do networking.
    pub mark_workers: bool,
    /// Whether stacks are sampled, or why not.
    pub stacks: Result<(), String>,
    /// By component: how it is measured, or why not.
    pub components: Vec<Availability>,
}

impl Plan {
    /// Decides from the facts.
    pub fn new(facts: &Facts) -> Plan {
        let stacks = facts.stacks.clone().and_then(|()| facts.symbols.clone());
        let sockets = plan_sockets(facts, &stacks);
        let timed = matches!(sockets, Sockets::Timed(_));
        let mark_workers = !timed && facts.socket_tracepoints;
        let mut components: Vec<Availability> = COMPONENTS
            .iter()
            .enumerate()
            .map(|(index, row)| match row.kind {
                Kind::Sum => Availability::by("sum"),
                Kind::Timed(Source::Softirq(_), _) => Availability::by("tp_btf"),
                Kind::Timed(Source::IoWorker, _) if timed || mark_workers => Availability::by("tp_btf"),
                Kind::Timed(Source::IoWorker, _) => Availability::missing(
                    "without socket probes this kernel cannot tell which io_uring threads use sockets",
                ),
                Kind::Timed(source, _) => of_sockets(&sockets, source),
                Kind::Sampled(rules) => {
                    let by_position = rules.iter().any(|rule| rule.frame == "*");
                    match &stacks {
                        Err(reason) => Availability::missing(reason.clone()),
                        Ok(()) if by_position || facts.has_symbols[index] => Availability::by("sampling"),
                        Ok(()) => Availability::missing(
                            "none of its functions is in this kernel: not built in, or its module is not loaded",
                        ),
                    }
                }
                Kind::Remainder => match &stacks {
                    Ok(()) => Availability::by("remainder"),
                    Err(reason) => Availability::missing(reason.clone()),
                },
            })
            .collect();
        // A sum of nothing is not zero.
        for (index, row) in COMPONENTS.iter().enumerate() {
            let children = || metrics_common::component::children_of(row.slug);
            if row.kind == Kind::Sum && !children().any(|child| components[child].is_available()) {
                components[index] = Availability::missing("none of its parts can be measured");
            }
        }
        Plan {
            sockets,
            mark_workers,
            stacks,
            components,
        }
    }

    /// The plan as the arithmetic needs it.
    pub fn means(&self, sample_period_ns: u64) -> Means {
        Means {
            available: self
                .components
                .iter()
                .map(Availability::is_available)
                .collect(),
            sockets_are_sampled: matches!(self.sockets, Sockets::Sampled { .. }),
            sample_period_ns,
        }
    }

    /// Clock kinds during which stacks are wanted: those of components with
    /// sampled parts, and tasks in general where socket calls are sampled.
    pub fn sampled_kinds(&self) -> u64 {
        if self.stacks.is_err() {
            return 0;
        }
        let mut kinds = 0;
        if matches!(self.sockets, Sockets::Sampled { .. }) {
            kinds |= 1 | 1 << Source::IoWorker.clock_kind();
        }
        for row in COMPONENTS {
            if let (Kind::Sampled(_), Some(parent)) = (row.kind, row.parent.and_then(index_of))
                && let Kind::Timed(source, _) = COMPONENTS[parent].kind
            {
                kinds |= 1 << source.clock_kind();
            }
        }
        kinds
    }

    /// What a user should be told of this plan, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        match &self.sockets {
            Sockets::Timed(_) => {}
            Sockets::Sampled { reason } => notes.push(format!(
                "TX and RX syscalls are estimated by sampling, not timed: {reason}."
            )),
            Sockets::Unavailable { reason } => {
                notes.push(format!("TX and RX syscalls are not measured: {reason}."))
            }
        }
        if let Err(reason) = &self.stacks {
            notes.push(format!("The RX softirq is not broken down: {reason}."));
        }
        notes
    }
}

fn plan_sockets(facts: &Facts, stacks: &Result<(), String>) -> Sockets {
    let reason = match &facts.fentry {
        Ok(()) => {
            let missing = [Source::SocketSend, Source::SocketReceive]
                .iter()
                .any(|source| !facts.socket_functions.iter().any(|f| f.source == *source));
            if !missing {
                return Sockets::Timed(facts.socket_functions.clone());
            }
            "this kernel has none of the functions that stand for socket calls".to_owned()
        }
        Err(refusal) => format!("the kernel refuses fentry programs ({refusal})"),
    };
    match stacks {
        Ok(()) => Sockets::Sampled { reason },
        Err(why) => Sockets::Unavailable {
            reason: format!("{reason}, and stacks cannot be sampled either: {why}"),
        },
    }
}

fn of_sockets(sockets: &Sockets, source: Source) -> Availability {
    match sockets {
        Sockets::Timed(functions) if functions.iter().any(|f| f.source == source) => {
            Availability::by("fentry")
        }
        Sockets::Timed(_) => {
            Availability::missing("this kernel has none of the functions that stand for it")
        }
        Sockets::Sampled { .. } => Availability::by("sampling"),
        Sockets::Unavailable { reason } => Availability::missing(reason.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host where everything works.
    fn perfect() -> Facts {
        Facts {
            fentry: Ok(()),
            socket_functions: SOCKET_FUNCTIONS.to_vec(),
            socket_tracepoints: true,
            stacks: Ok(()),
            symbols: Ok(()),
            has_symbols: vec![true; COMPONENTS.len()],
        }
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
        let plan = Plan::new(&perfect());
        assert!(matches!(&plan.sockets, Sockets::Timed(f) if f.len() == SOCKET_FUNCTIONS.len()));
        assert!(plan.components.iter().all(Availability::is_available));
        assert_eq!(plan.notes(), Vec::<String>::new());
        assert!(!plan.mark_workers, "socket probes mark them already");
        assert_eq!(
            plan.sampled_kinds() & 1,
            0,
            "tasks are not sampled where they are timed"
        );
    }

    #[test]
    fn without_fentry_socket_calls_are_sampled_and_the_user_is_told_why() {
        let plan = Plan::new(&Facts {
            fentry: Err("EPERM".into()),
            ..perfect()
        });
        assert_eq!(
            *availability(&plan, "tx_syscall"),
            Availability::by("sampling")
        );
        assert_eq!(
            *availability(&plan, "local_ipc"),
            Availability::by("sampling")
        );
        assert!(plan.notes()[0].contains("EPERM"), "{:?}", plan.notes());
        assert!(plan.mark_workers);
        assert_eq!(plan.sampled_kinds() & 1, 1);
        assert!(plan.means(1).sockets_are_sampled);
    }

    #[test]
    fn without_fentry_and_socket_tracepoints_io_workers_are_unavailable() {
        let plan = Plan::new(&Facts {
            fentry: Err("EPERM".into()),
            socket_tracepoints: false,
            ..perfect()
        });
        assert!(reason(&plan, "io_worker").contains("io_uring"));
    }

    #[test]
    fn hidden_symbols_take_the_sampled_parts_away_and_nothing_else() {
        let plan = Plan::new(&Facts {
            symbols: Err("hidden".into()),
            ..perfect()
        });
        assert!(reason(&plan, "local_delivery_v4").contains("hidden"));
        assert!(reason(&plan, "rx_unattributed").contains("hidden"));
        assert_eq!(
            *availability(&plan, "rx_softirq"),
            Availability::by("tp_btf")
        );
        assert_eq!(
            *availability(&plan, "tx_syscall"),
            Availability::by("fentry")
        );
        assert_eq!(plan.sampled_kinds(), 0);
        assert!(plan.notes()[0].contains("hidden"));
    }

    #[test]
    fn with_neither_fentry_nor_stacks_socket_calls_are_unavailable_with_both_reasons() {
        let plan = Plan::new(&Facts {
            fentry: Err("EPERM".into()),
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
        let plan = Plan::new(&facts);
        assert!(reason(&plan, "bridging").contains("module"));
        assert!(
            availability(&plan, "driver_poll").is_available(),
            "drivers are found by position"
        );
    }
}
