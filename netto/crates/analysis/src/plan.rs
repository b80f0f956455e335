//! Makes the plan from facts about the host: which components are measured by which method, which
//! are not, and why. Pure; `kernel::preflight` gathers the facts.

use metrics_common::component::children_of;
use metrics_common::{Availability, COMPONENTS, Kind, Method, Source};

use super::groups::{Group, GroupSet};

/// A kernel function whose time is that of a socket call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketFunction {
    /// Its name.
    pub name: &'static str,
    /// The source of its time.
    pub source: Source,
}

const fn calls(source: Source, name: &'static str) -> SocketFunction {
    SocketFunction { name, source }
}

/// The functions one layer below the socket layer's entry points, which compilers inline. All
/// system calls, splice and io_uring reach them, and each serves a known address family. Each
/// kernel has some of them.
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

/// Methods that the user can request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestedMethod {
    /// The best method that the host allows.
    #[default]
    Auto,
    /// Probes; socket calls by fentry and fexit.
    Fentry,
    /// Probes; socket calls by kprobes and kretprobes.
    Kprobe,
    /// Only the stack sampler: the cost depends on the frequency, not on the traffic.
    Sampling,
}

/// Facts found by trying on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Whether the kernel has what each program needs, such as BTF, or the reason and the remedy.
    pub programs: Result<(), String>,
    /// Whether fentry and fexit programs load, or the kernel's refusal.
    pub fentry: Result<(), String>,
    /// Whether kprobes exist, or why not.
    pub kprobe: Result<(), String>,
    /// The functions of [`SOCKET_FUNCTIONS`] on this kernel.
    pub socket_functions: Vec<SocketFunction>,
    /// Whether stacks can be sampled, or why not.
    pub stacks: Result<(), String>,
    /// Whether kernel symbols can be read, or why not.
    pub symbols: Result<(), String>,
    /// By component: whether this kernel has a function named by its rules.
    pub has_symbols: Vec<bool>,
    /// Whether the kernel can preempt softirqs (PREEMPT_RT).
    pub is_realtime: bool,
    /// Whether programs at tracepoints of softirqs run to their end before another task, or why that
    /// cannot be relied on.
    pub tracepoints: Result<(), String>,
}

impl Facts {
    /// The facts for a kernel into which no program can be loaded: nothing else was tried.
    pub fn without_programs(reason: String) -> Self {
        let untried = || Err(format!("not tried: {reason}"));
        Facts {
            fentry: untried(),
            kprobe: untried(),
            socket_functions: Vec::new(),
            stacks: untried(),
            symbols: untried(),
            has_symbols: vec![false; COMPONENTS.len()],
            is_realtime: false,
            tracepoints: untried(),
            programs: Err(reason),
        }
    }
}

/// How a socket function is hooked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// By a trampoline: some nanoseconds per call.
    Fentry,
    /// By a breakpoint or ftrace, and a replaced return address: a few hundred nanoseconds per
    /// call.
    Kprobe,
}

impl Hook {
    /// Its name.
    pub fn method(self) -> Method {
        match self {
            Hook::Fentry => Method::Fentry,
            Hook::Kprobe => Method::Kprobe,
        }
    }
}

/// How socket calls are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sockets {
    /// Timed from entry to return of these functions.
    Timed(Hook, Vec<SocketFunction>),
    /// Found in sampled stacks, for this reason.
    Sampled {
        /// Why they are not timed.
        reason: String,
    },
    /// Not measured, for this reason.
    Unavailable {
        /// Why not.
        reason: String,
    },
}

/// Nothing can be measured here, or the requested method is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// netto's BPF programs cannot be loaded into this kernel.
    #[error("nothing can be measured here: {0}")]
    NoPrograms(String),
    /// `--method fentry` where the kernel refuses it.
    #[error("--method fentry is not possible here: {0}; use --method auto")]
    NoFentry(String),
    /// `--method kprobe` where the kernel has none.
    #[error("--method kprobe is not possible here: {0}; use --method auto")]
    NoKprobe(String),
    /// `--method sampling` where stacks cannot be sampled.
    #[error("--method sampling is not possible here: {0}")]
    NoSampling(String),
}

/// What to attach, what to skip, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Whether softirqs are timed by probes.
    pub has_clock: bool,
    /// Whether the kernel can preempt softirqs (PREEMPT_RT).
    pub is_realtime: bool,
    /// As in [`Facts`].
    pub tracepoints: Result<(), String>,
    /// How socket calls are measured.
    pub sockets: Sockets,
    /// Whether stacks are sampled, or why not.
    pub stacks: Result<(), String>,
    /// The attached groups of probes.
    pub timed: GroupSet,
    /// By component: how it is measured, or why not.
    pub components: Vec<Availability>,
}

/// Measurable components; see [`Plan::capabilities`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// By component: whether it is measured at all.
    pub available: Vec<bool>,
    /// By component: whether its entries are counted.
    pub counted: Vec<bool>,
    /// By component: whether the clock times it now.
    pub timed: Vec<bool>,
}

impl Plan {
    /// Decides from the facts and the requested method; all probes of the plan are attached.
    ///
    /// # Errors
    /// The kernel lacks a requirement of all methods, or of the requested method.
    pub fn new(facts: &Facts, method: RequestedMethod) -> Result<Plan, PlanError> {
        Plan::while_timed(facts, method, GroupSet::ALL)
    }

    /// The plan with only these groups of probes attached.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn while_timed(
        facts: &Facts,
        method: RequestedMethod,
        timed: GroupSet,
    ) -> Result<Plan, PlanError> {
        if let Err(reason) = &facts.programs {
            return Err(PlanError::NoPrograms(reason.clone()));
        }
        let stacks = facts.stacks.clone().and_then(|()| facts.symbols.clone());
        let has_clock = method != RequestedMethod::Sampling && facts.tracepoints.is_ok();
        let sockets = match (
            method,
            facts.tracepoints.as_ref().and(facts.fentry.as_ref()),
            &stacks,
        ) {
            (RequestedMethod::Sampling, _, Err(reason)) => {
                return Err(PlanError::NoSampling(reason.clone()));
            }
            (RequestedMethod::Sampling, _, Ok(())) => Sockets::Sampled {
                reason: "--method sampling uses no probes".into(),
            },
            (RequestedMethod::Fentry, Err(refusal), _) => {
                return Err(PlanError::NoFentry(refusal.clone()));
            }
            (RequestedMethod::Kprobe, _, _) => {
                match facts.tracepoints.as_ref().and(facts.kprobe.as_ref()) {
                    Ok(()) => Sockets::Timed(Hook::Kprobe, facts.socket_functions.clone()),
                    Err(refusal) => return Err(PlanError::NoKprobe(refusal.clone())),
                }
            }
            _ => plan_sockets(facts, &stacks),
        };
        let mut plan = Plan {
            has_clock,
            is_realtime: facts.is_realtime,
            tracepoints: facts.tracepoints.clone(),
            sockets,
            stacks,
            timed,
            components: Vec::new(),
        };
        plan.components = (0..COMPONENTS.len())
            .map(|row| plan.availability(row, facts))
            .collect();
        // A sum without parts is unavailable, not zero.
        for (row, component) in COMPONENTS.iter().enumerate() {
            let is_empty =
                !children_of(component.slug).any(|child| plan.components[child].is_available());
            if component.kind == Kind::Sum && is_empty {
                plan.components[row] = Availability::missing("none of its parts can be measured");
            }
        }
        Ok(plan)
    }

    fn availability(&self, row: usize, facts: &Facts) -> Availability {
        let rules = COMPONENTS[row].kind.rules();
        let by_position = rules.iter().any(|rule| rule.frame == "*");
        let sampling = |method: Method| match &self.stacks {
            Err(reason) => Availability::missing(reason.clone()),
            Ok(()) if by_position || facts.has_symbols[row] => Availability::by(method),
            Ok(()) => Availability::missing(
                "none of its functions is in this kernel: not built in, or its module is not loaded",
            ),
        };
        match COMPONENTS[row].kind {
            Kind::Sum => Availability::by(Method::Sum),
            // The clock times the threads, but only stacks tell their work.
            Kind::Timed(Source::IoWorker, _) if self.times(Group::Switches) => {
                sampling(Method::TpBtf)
            }
            Kind::Timed(Source::IoWorker, _) => sampling(Method::Sampling),
            Kind::Timed(Source::NicInterrupt, _) if !self.has_clock => {
                Availability::missing(match &facts.tracepoints {
                    Ok(()) => "a sampling clock cannot see interrupts, and --method sampling uses \
                               no probes"
                        .to_owned(),
                    Err(reason) => format!("a sampling clock cannot see interrupts, and {reason}"),
                })
            }
            Kind::Timed(Source::NicInterrupt, _) if !self.times(Group::Softirqs) => {
                Availability::missing(
                    "a sampling clock cannot see interrupts, and timing them would cost more than \
                     --max-overhead now",
                )
            }
            Kind::Timed(Source::NicInterrupt, _) => Availability::by(Method::TpBtf),
            Kind::Timed(Source::Softirq(_), _) if self.times(Group::Softirqs) => {
                Availability::by(Method::TpBtf)
            }
            Kind::Timed(Source::Softirq(_), _) => sampling(Method::Sampling),
            Kind::Timed(source, _) => self.of_sockets(source),
            Kind::Sampled(_) | Kind::Estimated(_) | Kind::Carved(..) => sampling(Method::Sampling),
            Kind::Remainder => match &self.stacks {
                Ok(()) => Availability::by(Method::Remainder),
                Err(reason) => Availability::missing(reason.clone()),
            },
        }
    }

    /// The measurable components.
    pub fn capabilities(&self) -> Capabilities {
        let counted = |row: usize| match COMPONENTS[row].kind {
            // The kernel counts softirqs, with or without probes.
            Kind::Timed(Source::Softirq(_), _) => self.has_clock,
            Kind::Timed(Source::NicInterrupt, _) => self.times(Group::Softirqs),
            // An io_uring thread is found running; it has no entries.
            Kind::Timed(Source::IoWorker, _) => false,
            Kind::Timed(source, _) => {
                self.times_calls(source) && self.components[row].is_available()
            }
            _ => false,
        };
        let timed = |row: usize| match COMPONENTS[row].kind {
            Kind::Timed(
                source @ (Source::Softirq(_) | Source::NicInterrupt | Source::IoWorker),
                _,
            ) => self.times(Group::of(source)),
            Kind::Timed(source, _) => self.times_calls(source),
            _ => false,
        };
        Capabilities {
            available: self
                .components
                .iter()
                .map(Availability::is_available)
                .collect(),
            counted: (0..COMPONENTS.len()).map(counted).collect(),
            timed: (0..COMPONENTS.len()).map(timed).collect(),
        }
    }

    /// Whether a group's probes are in the plan and attached.
    fn times(&self, group: Group) -> bool {
        self.groups().has(group) && self.timed.has(group)
    }

    /// Whether tasks can be switched away in a state that must be restored: in a timed socket call,
    /// or in a softirq. Elsewhere context switches would only show io_uring's threads, which samples
    /// show too, and there are many more of them than of anything else.
    pub fn parks_states(&self) -> bool {
        self.is_realtime || matches!(self.sockets, Sockets::Timed(..))
    }

    fn times_calls(&self, source: Source) -> bool {
        matches!(self.sockets, Sockets::Timed(..)) && self.times(Group::of(source))
    }

    fn of_sockets(&self, source: Source) -> Availability {
        match &self.sockets {
            Sockets::Timed(hook, functions) if functions.iter().any(|f| f.source == source) => {
                let is_timed = self.times_calls(source);
                Availability::by(if is_timed {
                    hook.method()
                } else {
                    Method::Sampling
                })
            }
            Sockets::Timed(..) => {
                Availability::missing("this kernel has none of its known functions")
            }
            Sockets::Sampled { .. } => Availability::by(Method::Sampling),
            Sockets::Unavailable { reason } => Availability::missing(reason.clone()),
        }
    }

    /// Groups of probes in the plan.
    pub fn groups(&self) -> GroupSet {
        let is_timed = |group: &Group| match (&self.sockets, group.is_of_sockets()) {
            _ if *group == Group::Switches => self.parks_states(),
            (_, false) => true,
            (Sockets::Timed(_, functions), true) => {
                functions.iter().any(|f| Group::of(f.source) == *group)
            }
            (_, true) => false,
        };
        let groups = Group::CLOCK.into_iter().filter(is_timed);
        if self.has_clock {
            groups.collect()
        } else {
            GroupSet::NONE
        }
    }

    /// The clock kinds in which stacks are sampled, as a bit set: tasks, for their work without
    /// probes, and softirqs that are split.
    pub fn sampled_kinds(&self) -> u64 {
        if self.stacks.is_err() {
            return 0;
        }
        let mut kinds = 1;
        for (row, component) in COMPONENTS.iter().enumerate() {
            if let Kind::Timed(source, _) = component.kind {
                let is_split = children_of(component.slug)
                    .any(|child| matches!(COMPONENTS[child].kind, Kind::Sampled(_)));
                let is_carved = COMPONENTS
                    .iter()
                    .any(|c| matches!(c.kind, Kind::Carved(from, _) if from == source));
                let is_task = !matches!(source, Source::Softirq(_) | Source::NicInterrupt);
                if self.components[row].is_available() && (is_split || is_carved || is_task) {
                    kinds |= 1 << source.clock_kind();
                }
            }
        }
        kinds
    }

    /// Remarks on this plan for the user, one sentence each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        match &self.sockets {
            Sockets::Timed(..) => {}
            Sockets::Sampled { .. } if !self.has_clock => {
                notes.push(match &self.tracepoints {
                    Ok(()) => "Everything is estimated from sampled stacks, as requested by \
                               --method sampling."
                        .to_owned(),
                    Err(reason) => {
                        format!("Everything is estimated from sampled stacks: {reason}.")
                    }
                });
            }
            Sockets::Sampled { reason } => {
                notes.push(format!(
                    "Socket sends and receives are estimated by sampling, not timed: {reason}."
                ));
            }
            Sockets::Unavailable { reason } => notes.push(format!(
                "Socket sends and receives are not measured: {reason}."
            )),
        }
        if let Err(reason) = &self.stacks {
            notes.push(format!("The RX softirq is not broken down: {reason}."));
        }
        notes
    }
}

fn plan_sockets(facts: &Facts, stacks: &Result<(), String>) -> Sockets {
    let has = |source| {
        facts
            .socket_functions
            .iter()
            .any(|function| function.source == source)
    };
    let reason = match (&facts.fentry, &facts.kprobe) {
        _ if let Err(reason) = &facts.tracepoints => reason.clone(),
        _ if !has(Source::SocketSend) || !has(Source::SocketReceive) => {
            "this kernel has none of the known functions of socket calls".to_owned()
        }
        (Ok(()), _) => return Sockets::Timed(Hook::Fentry, facts.socket_functions.clone()),
        (Err(_), Ok(())) => return Sockets::Timed(Hook::Kprobe, facts.socket_functions.clone()),
        (Err(fentry), Err(kprobe)) => {
            format!("the kernel refuses fentry programs ({fentry}) and {kprobe}")
        }
    };
    match stacks {
        Ok(()) => Sockets::Sampled { reason },
        Err(why) => Sockets::Unavailable {
            reason: format!("{reason}, and stacks cannot be sampled either: {why}"),
        },
    }
}

#[cfg(test)]
mod tests;
