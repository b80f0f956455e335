//! Finds the part of an event that a stack belongs to by the names of its functions, for
//! readers without addresses, such as those of a flame graph. The daemon's classifier does the same
//! with addresses. Both share the matching of patterns and the precedence of rules, and the
//! classifier's tests compare the results of both. Pure.

use std::collections::BTreeMap;

use crate::component::{BOUNDARIES, COMPONENTS, Kind, NETWORK, Rule, children, index_of};

/// The component of all stacks of a flame graph.
/// Any function.
pub const ANY: &str = "*";
/// The prefix of a BPF program's name on a stack.
const PROGRAM: &str = "[bpf]";

/// Precedence of a pattern: a full name before any BPF program, that before part of a name,
/// that before any function.
pub fn specificity(pattern: &str) -> i8 {
    match pattern {
        ANY => 0,
        PROGRAM => 2,
        _ if pattern.starts_with(PROGRAM) => 3,
        _ if pattern.contains('*') => 1,
        _ => 3,
    }
}

/// Whether a function matches a pattern other than `*`; `name` of a BPF program is without
/// prefix.
pub fn matches(pattern: &str, name: &str, is_bpf: bool) -> bool {
    match pattern.strip_prefix(PROGRAM) {
        Some("") => is_bpf,
        Some(program) => is_bpf && fits(program.trim_start(), name),
        None => !is_bpf && fits(pattern, name),
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    let inner = pattern.trim_matches('*');
    match (pattern.starts_with('*'), pattern.ends_with('*')) {
        (true, true) => name.contains(inner),
        (true, false) => name.ends_with(inner),
        (false, true) => name.starts_with(inner),
        (false, false) => name == pattern,
    }
}

/// Whether a function as a flame graph names it (`tcp_v4_rcv`, `[bpf] count`) matches a pattern.
fn is_met(pattern: &str, function: &str) -> bool {
    match function.strip_prefix(PROGRAM) {
        Some(program) => matches(pattern, program.trim_start(), true),
        None => matches(pattern, function, false),
    }
}

/// The parts of one event, prepared for searching stacks.
#[derive(Debug, Clone)]
pub struct Parts<'a> {
    rules: Vec<(usize, &'static Rule)>,
    /// The remainder, for stacks that match no part.
    remainder: Option<usize>,
    /// The part by function and caller, cached: few pairs occur, in many stacks.
    known: BTreeMap<(&'a str, &'a str), Option<usize>>,
}

impl<'a> Parts<'a> {
    /// Of the event with this slug; `None` if its time is not split by stacks.
    pub fn of(event: &str) -> Option<Parts<'a>> {
        let rows = children(index_of(event)?);
        let kind = |row: usize| COMPONENTS[row].kind;
        let sampled = rows.iter().filter_map(|&row| match kind(row) {
            Kind::Sampled(rules) => Some(rules.iter().map(move |rule| (row, rule))),
            _ => None,
        });
        let rules: Vec<_> = sampled.flatten().collect();
        let mut rows = rows.iter().copied();
        let remainder = rows.find(|&row| kind(row) == Kind::Remainder);
        (!rules.is_empty()).then_some(Parts {
            rules,
            remainder,
            known: BTreeMap::new(),
        })
    }

    /// Index in [`COMPONENTS`] of the part that a stack belongs to; function names come
    /// innermost first. `None` only if the event has no remainder.
    pub fn owner(&mut self, functions: impl IntoIterator<Item = &'a str>) -> Option<usize> {
        let mut functions = functions.into_iter().peekable();
        while let Some(function) = functions.next() {
            let caller = functions.peek().copied();
            let pair = (function, caller.unwrap_or_default());
            let claimed = match self.known.get(&pair) {
                Some(known) => *known,
                None => self.claimed(function, caller),
            };
            self.known.insert(pair, claimed);
            if claimed.is_some() {
                return claimed;
            }
            if BOUNDARIES.contains(&function) {
                break;
            }
        }
        self.remainder
    }

    /// The part with the most specific rule for this function below this caller.
    fn claimed(&self, function: &str, caller: Option<&str>) -> Option<usize> {
        let holds = |pattern: &str, name: Option<&str>| {
            pattern == ANY || name.is_some_and(|name| is_met(pattern, name))
        };
        let rank = |rule: &Rule| {
            if !holds(rule.frame, Some(function)) {
                return None;
            }
            let callers = rule.under.iter().filter(|pattern| holds(pattern, caller));
            let of_caller = if rule.under.is_empty() {
                -1
            } else {
                callers.map(|pattern| specificity(pattern)).max()?
            };
            Some((specificity(rule.frame), of_caller))
        };
        let ranked = self.rules.iter();
        let ranked = ranked.filter_map(|(row, rule)| Some((rank(rule)?, *row)));
        ranked.max_by_key(|(rank, _)| *rank).map(|(_, row)| row)
    }
}

/// Selects the stacks of one component in a flame graph.
#[derive(Debug, Clone)]
pub struct Owned<'a> {
    /// Slug of the event at their root; `None` for all of networking.
    event: Option<&'static str>,
    /// The part of the event, if the component is one.
    part: Option<(Parts<'a>, usize)>,
}

impl<'a> Owned<'a> {
    /// Selects the component with this slug; `None` if it is not part of networking, the only
    /// component with stacks.
    pub fn by(slug: &str) -> Option<Owned<'a>> {
        let row = index_of(slug)?;
        let component = &COMPONENTS[row];
        if component.slug == NETWORK {
            return Some(Owned {
                event: None,
                part: None,
            });
        }
        let parent = component.parent?;
        if parent == NETWORK {
            return Some(Owned {
                event: Some(component.slug),
                part: None,
            });
        }
        let of_network = COMPONENTS[index_of(parent)?].parent == Some(NETWORK);
        let parts = Parts::of(parent).filter(|_| of_network)?;
        Some(Owned {
            event: Some(parent),
            part: Some((parts, row)),
        })
    }

    /// Whether a stack is selected: the event's slug, then its functions, outermost first,
    /// separated by semicolons.
    pub fn takes(&mut self, stack: &'a str) -> bool {
        let (event, functions) = stack.split_once(';').unwrap_or((stack, ""));
        if self.event.is_some_and(|wanted| wanted != event) {
            return false;
        }
        let Some((parts, row)) = &mut self.part else {
            return true;
        };
        parts.owner(functions.rsplit(';')) == Some(*row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The part of a stack that is written innermost function first.
    fn part(event: &str, stack: &str) -> &'static str {
        let mut parts = Parts::of(event).unwrap();
        let owner = parts.owner(stack.split(" < "));
        COMPONENTS[owner.unwrap()].slug
    }

    #[test]
    fn the_innermost_marker_decides_and_a_caller_may() {
        for (stack, expected) in [
            (
                "tcp_gro_receive < dev_gro_receive < mlx5e_poll < __napi_poll",
                "gro",
            ),
            (
                "nf_hook_slow < ip_rcv < __netif_receive_skb_one_core",
                "nf_prerouting_v4",
            ),
            ("nf_hook_slow < __netif_receive_skb_core", "nf_ingress"),
            (
                "memcpy < mlx5e_poll < __napi_poll < net_rx_action",
                "driver_poll",
            ),
            (
                "[bpf] count < tc_run < __netif_receive_skb_core",
                "tc_classify",
            ),
            ("[bpf] netto_exit", "tracing"),
            ("net_rx_action", "napi_loop"),
        ] {
            assert_eq!(part("rx_softirq", stack), expected, "{stack}");
        }
    }

    #[test]
    fn what_lies_beyond_a_boundary_is_somebody_elses() {
        let stack = "memcpy < do_syscall_64 < tcp_sendmsg";
        assert_eq!(part("tx_syscall", stack), "send_unattributed");
        assert_eq!(part("rx_softirq", ""), "rx_unattributed");
    }

    #[test]
    fn what_is_not_split_has_no_parts() {
        for event in ["network", "gro", "tx_softirq", "no such row"] {
            assert!(Parts::of(event).is_none(), "{event}");
        }
    }

    #[test]
    fn each_stack_is_its_events_and_one_of_its_parts() {
        let stacks = [
            "rx_softirq;net_rx_action;__napi_poll;mlx5e_poll;dev_gro_receive;tcp_gro_receive",
            "rx_softirq;net_rx_action;__napi_poll;mlx5e_poll",
            "rx_softirq",
            "tx_syscall;do_syscall_64;tcp_sendmsg",
        ];
        for (slug, taken) in [
            ("network", [true; 4]),
            ("rx_softirq", [true, true, true, false]),
            ("gro", [true, false, false, false]),
            ("driver_poll", [false, true, false, false]),
            ("rx_unattributed", [false, false, true, false]),
            ("send_tcp", [false, false, false, true]),
        ] {
            let mut owned = Owned::by(slug).unwrap();
            assert_eq!(stacks.map(|stack| owned.takes(stack)), taken, "{slug}");
        }
        for slug in ["local_ipc", "softirq_rcu", "other_softirq", "no such row"] {
            assert!(Owned::by(slug).is_none(), "{slug}");
        }
    }
}
