//! Stacks → components, by the rules of the component table.
//!
//! A stack is walked from the innermost function outwards. The first function
//! that marks a stage decides; the first context boundary ends the walk, for
//! what lies beyond belongs to whoever was interrupted. A rule may look at a
//! function and its direct caller, nothing else, so that all rules together
//! become one table from (marker, caller's marker) to component: a marker is
//! a set of name patterns, and very few such sets occur.

use std::collections::HashMap;
use std::io::BufRead;

use metrics_common::component::{BOUNDARIES, CLOCK_KINDS, children_of, index_of_source};
use metrics_common::{COMPONENTS, Kind, Rule, Source};
use rustc_hash::FxHashMap;

use super::symbols::{self, Ranges, Symbol, SymbolError};

/// A set of patterns that some kernel function matches. 0 is the empty set.
type Marker = u16;
const ORDINARY: Marker = 0;

/// Addresses are remembered up to this many; then the memory starts anew, so
/// that it stays bounded whatever the kernel loads and unloads.
const REMEMBERED_ADDRESSES: usize = 1 << 15;

/// What a walk finds: nothing, or the index of a component.
type Found = Option<u8>;

/// The rules that hold while the per-CPU clock is in one kind.
#[derive(Debug, Clone)]
struct Walk {
    rules: Vec<(usize, Rule)>,
    /// Row: marker of a function; column: marker of its caller.
    table: Vec<Found>,
}

/// Finds the component that a stack belongs to.
#[derive(Debug, Clone)]
pub struct Classifier {
    ranges: Ranges<Marker>,
    markers: usize,
    is_boundary: Vec<bool>,
    walks: Vec<Walk>,
    /// Which walk a sample of each clock kind takes.
    walk_of_kind: [Option<u8>; CLOCK_KINDS],
    remembered: FxHashMap<u64, Marker>,
    found_symbols: Vec<Vec<String>>,
}

impl Classifier {
    /// Reads the kernel's symbols and prepares every walk.
    ///
    /// # Errors
    /// Whatever [`symbols::parse`] finds wrong with the list.
    pub fn new(kallsyms: impl BufRead) -> Result<Self, SymbolError> {
        let mut walks = Vec::new();
        let mut walk_of_kind = [None; CLOCK_KINDS];
        for source in Source::ALL {
            let Some(parent) = index_of_source(source) else {
                continue;
            };
            let rules = sampled_children(COMPONENTS[parent].slug);
            if !rules.is_empty() {
                walk_of_kind[usize::from(source.clock_kind())] = Some(walks.len() as u8);
                walks.push(Walk {
                    rules,
                    table: Vec::new(),
                });
            }
        }
        // A task without a kind of its own: is it in a socket call? An io_uring
        // thread outside the timed calls is asked the same.
        let task_walk = Some(walks.len() as u8);
        walk_of_kind[0] = task_walk;
        walk_of_kind[usize::from(Source::IoWorker.clock_kind())] = task_walk;
        walks.push(Walk {
            rules: sampled_events(),
            table: Vec::new(),
        });

        let patterns = Patterns::of(&walks);
        let mut interned: HashMap<Vec<u16>, Marker> = HashMap::from([(Vec::new(), ORDINARY)]);
        let mut found_symbols = vec![Vec::new(); COMPONENTS.len()];
        let ranges = symbols::parse(kallsyms, |symbol| {
            let set = patterns.matching(symbol);
            if set.is_empty() {
                return None;
            }
            note_symbol(&mut found_symbols, &walks, symbol);
            let next = interned.len() as Marker;
            Some(*interned.entry(set).or_insert(next))
        })?;

        let markers = interned.len();
        let mut sets: Vec<&[u16]> = vec![&[]; markers];
        for (set, marker) in &interned {
            sets[usize::from(*marker)] = set;
        }
        let is_boundary = sets
            .iter()
            .map(|set| BOUNDARIES.iter().any(|b| patterns.contains(set, b)))
            .collect();
        for walk in &mut walks {
            walk.table = vec![None; markers * markers];
            for (row, frame) in sets.iter().enumerate() {
                for (column, caller) in sets.iter().enumerate() {
                    walk.table[row * markers + column] = best(&walk.rules, |pattern, inner| {
                        patterns.contains(if inner { frame } else { caller }, pattern)
                    });
                }
            }
        }
        Ok(Classifier {
            ranges,
            markers,
            is_boundary,
            walks,
            walk_of_kind,
            remembered: FxHashMap::default(),
            found_symbols,
        })
    }

    /// The component (index in the table) of a stack sampled while the per-CPU
    /// clock was in `kind`; frames are return addresses, innermost first.
    ///
    /// For a softirq or a timed socket call this is a part of it, and `None`
    /// if no stage marker was met. For a task without a kind it is the timed
    /// component whose work the task was doing, and `None` if that is not networking.
    pub fn classify(&mut self, kind: u8, frames: &[u64]) -> Option<usize> {
        let walk = usize::from((*self.walk_of_kind.get(usize::from(kind))?)?);
        // The innermost address was executing; all others are where a call
        // returns to, which may be the first byte of the next function.
        let mut marker = self.marker(*frames.first()?);
        for (index, _) in frames.iter().enumerate() {
            let caller = match frames.get(index + 1) {
                Some(address) => self.marker(address.wrapping_sub(1)),
                None => ORDINARY,
            };
            if let Some(found) =
                self.walks[walk].table[usize::from(marker) * self.markers + usize::from(caller)]
            {
                return Some(usize::from(found));
            }
            if self.is_boundary[usize::from(marker)] {
                return None;
            }
            marker = caller;
        }
        None
    }

    /// Kernel functions that the rules of this component (index in the table)
    /// match on this kernel, sorted; rules by position alone name none.
    pub fn symbols_of(&self, component: usize) -> &[String] {
        self.found_symbols.get(component).map_or(&[], Vec::as_slice)
    }

    fn marker(&mut self, address: u64) -> Marker {
        if let Some(&marker) = self.remembered.get(&address) {
            return marker;
        }
        if self.remembered.len() >= REMEMBERED_ADDRESSES {
            self.remembered.clear();
        }
        let marker = self.ranges.find(address).unwrap_or(ORDINARY);
        self.remembered.insert(address, marker);
        marker
    }
}

/// The rules of the sampled children of a component.
fn sampled_children(parent: &str) -> Vec<(usize, Rule)> {
    children_of(parent)
        .filter_map(|index| match COMPONENTS[index].kind {
            Kind::Sampled(rules) => Some(rules.iter().map(move |rule| (index, *rule))),
            _ => None,
        })
        .flatten()
        .collect()
}

/// The rules by which timed components are recognised where they cannot be timed.
fn sampled_events() -> Vec<(usize, Rule)> {
    COMPONENTS
        .iter()
        .enumerate()
        .filter_map(|(index, c)| match c.kind {
            Kind::Timed(_, rules) => Some(rules.iter().map(move |rule| (index, *rule))),
            _ => None,
        })
        .flatten()
        .collect()
}

/// Notes for people which functions the rules found.
fn note_symbol(found: &mut [Vec<String>], walks: &[Walk], symbol: Symbol<'_>) {
    for (component, rule) in walks.iter().flat_map(|w| &w.rules) {
        let names = &mut found[*component];
        if rule.frame != "*"
            && !symbol.is_bpf
            && matches(rule.frame, symbol)
            && let Err(at) = names.binary_search_by(|n| n.as_str().cmp(symbol.name))
        {
            names.insert(at, symbol.name.to_owned());
        }
    }
}

/// The component of the most specific rule that holds for a function and its
/// caller; `holds(pattern, true)` asks for the function, `false` for the caller.
fn best(rules: &[(usize, Rule)], holds: impl Fn(&str, bool) -> bool) -> Found {
    rules
        .iter()
        .filter(|(_, rule)| holds(rule.frame, true))
        .filter_map(|(component, rule)| {
            let caller = if rule.under.is_empty() {
                -1
            } else {
                rule.under
                    .iter()
                    .filter(|p| holds(p, false))
                    .map(|p| specificity(p))
                    .max()?
            };
            Some(((specificity(rule.frame), caller), *component as u8))
        })
        .max_by_key(|(specificity, _)| *specificity)
        .map(|(_, component)| component)
}

/// A name is more specific than any BPF program, that than part of a name, that than anything.
fn specificity(pattern: &str) -> i8 {
    match pattern {
        "*" => 0,
        "[bpf]" => 2,
        _ if pattern.contains('*') => 1,
        _ => 3,
    }
}

fn matches(pattern: &str, symbol: Symbol<'_>) -> bool {
    if symbol.is_bpf || pattern == "[bpf]" {
        return symbol.is_bpf && pattern == "[bpf]";
    }
    let inner = pattern.trim_matches('*');
    match (pattern.starts_with('*'), pattern.ends_with('*')) {
        (true, true) => symbol.name.contains(inner),
        (true, false) => symbol.name.ends_with(inner),
        (false, true) => symbol.name.starts_with(inner),
        (false, false) => symbol.name == pattern,
    }
}

/// Every distinct pattern of the rules, numbered; `*` needs no number.
struct Patterns {
    all: Vec<&'static str>,
    /// Whole names are looked up; a kernel has too many symbols to try each pattern on each.
    names: FxHashMap<&'static str, u16>,
    parts: Vec<u16>,
}

impl Patterns {
    fn of(walks: &[Walk]) -> Self {
        let mut all: Vec<&'static str> = walks
            .iter()
            .flat_map(|walk| &walk.rules)
            .flat_map(|(_, rule)| std::iter::once(&rule.frame).chain(rule.under))
            .chain(BOUNDARIES)
            .copied()
            .filter(|pattern| *pattern != "*")
            .collect();
        all.sort_unstable();
        all.dedup();
        let numbered = || {
            all.iter()
                .enumerate()
                .map(|(index, pattern)| (*pattern, index as u16))
        };
        let names = numbered()
            .filter(|(pattern, _)| specificity(pattern) == 3)
            .collect();
        let parts = numbered()
            .filter(|(pattern, _)| specificity(pattern) != 3)
            .map(|(_, index)| index)
            .collect();
        Patterns { names, parts, all }
    }

    /// Numbers of the patterns that this symbol matches, ascending.
    fn matching(&self, symbol: Symbol<'_>) -> Vec<u16> {
        let mut set: Vec<u16> = self
            .parts
            .iter()
            .copied()
            .filter(|&index| matches(self.all[usize::from(index)], symbol))
            .collect();
        if !symbol.is_bpf {
            set.extend(self.names.get(symbol.name));
        }
        set.sort_unstable();
        set
    }

    fn contains(&self, set: &[u16], pattern: &str) -> bool {
        pattern == "*"
            || set
                .iter()
                .any(|&index| self.all[usize::from(index)] == pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A kernel made of the functions of these stacks, one every 4 KiB.
    struct Kernel {
        names: Vec<&'static str>,
        classifier: Classifier,
    }

    impl Kernel {
        fn with(stacks: &[&'static str]) -> Self {
            let mut names: Vec<&'static str> = stacks.iter().flat_map(|s| s.split(" < ")).collect();
            names.sort_unstable();
            names.dedup();
            let text: String = names
                .iter()
                .enumerate()
                .map(|(index, name)| {
                    let module = if name.starts_with("bpf_prog_") && !name.contains("generic") {
                        "\t[bpf]"
                    } else {
                        ""
                    };
                    format!("{:x} t {name}{module}\n", 0x1000 * (index as u64 + 1))
                })
                .collect();
            Kernel {
                names,
                classifier: Classifier::new(text.as_bytes()).unwrap(),
            }
        }

        fn classify(&mut self, source: Option<Source>, stack: &str) -> Option<&'static str> {
            let address = |name: &str| {
                0x1000 * (self.names.iter().position(|n| *n == name).unwrap() as u64 + 1) + 0x10
            };
            let frames: Vec<u64> = stack.split(" < ").map(address).collect();
            let kind = source.map_or(0, Source::clock_kind);
            self.classifier
                .classify(kind, &frames)
                .map(|index| COMPONENTS[index].slug)
        }
    }

    /// Each stack, sampled in the given context, belongs to the named component.
    fn check(source: Option<Source>, cases: &[(&'static str, Option<&str>)]) {
        let mut kernel = Kernel::with(&cases.iter().map(|(stack, _)| *stack).collect::<Vec<_>>());
        for (stack, expected) in cases {
            assert_eq!(kernel.classify(source, stack), *expected, "{stack}");
        }
    }

    /// Stacks of Linux 6.1, 6.12 and 6.18 under real traffic.
    #[test]
    fn the_innermost_stage_of_the_receive_softirq_decides() {
        check(
            Some(Source::Softirq(3)),
            &[
                (
                    "sock_def_readable < tcp_data_queue < tcp_rcv_established < tcp_v4_do_rcv < tcp_v4_rcv < ip_protocol_deliver_rcu < ip_local_deliver_finish < __netif_receive_skb_one_core < process_backlog < __napi_poll < net_rx_action < handle_softirqs",
                    Some("local_delivery_v4"),
                ),
                (
                    "tcp_v4_rcv < ip_protocol_deliver_rcu < ip_local_deliver_finish < ip_sublist_rcv < ip_list_rcv < __netif_receive_skb_list_core < netif_receive_skb_list_internal < gro_complete.constprop.0 < dev_gro_receive < gro_receive_skb < veth_xdp_rcv < veth_poll < __napi_poll",
                    Some("local_delivery_v4"),
                ),
                (
                    "skb_gro_receive < tcp_gro_receive < dev_gro_receive < gro_receive_skb < veth_poll < __napi_poll < net_rx_action",
                    Some("gro"),
                ),
                (
                    "__udp6_lib_rcv < ip6_protocol_deliver_rcu < ip6_input_finish < __netif_receive_skb_one_core < process_backlog",
                    Some("local_delivery_v6"),
                ),
                (
                    "veth_xmit < dev_hard_start_xmit < __dev_queue_xmit < ip_finish_output2 < ip_output < __netif_receive_skb_one_core < process_backlog",
                    Some("forwarding_v4"),
                ),
                (
                    "ip6_finish_output2 < ip6_output < ip6_sublist_rcv < ipv6_list_rcv",
                    Some("forwarding_v6"),
                ),
                (
                    "fib_table_lookup < ip_route_input_noref < ip_rcv_finish_core < ip_rcv < __netif_receive_skb_one_core",
                    Some("ip_receive_v4"),
                ),
                (
                    "kmem_cache_free < skb_free_head < veth_poll < __napi_poll < net_rx_action",
                    Some("driver_poll"),
                ),
                (
                    "page_pool_put < napi_consume_skb < virtnet_poll_tx < __napi_poll < net_rx_action",
                    Some("tx_completion"),
                ),
                (
                    "_raw_spin_unlock_irqrestore < process_backlog < __napi_poll < net_rx_action",
                    Some("backlog"),
                ),
                (
                    "skb_defer_free_flush < net_rx_action < handle_softirqs < do_softirq < __local_bh_enable_ip < ip_local_deliver_finish",
                    Some("napi_loop"),
                ),
                (
                    "ktime_get < handle_softirqs < do_softirq < __local_bh_enable_ip < ip_local_deliver_finish",
                    None,
                ),
            ],
        );
    }

    #[test]
    fn a_netfilter_hook_is_named_by_its_caller() {
        check(
            Some(Source::Softirq(3)),
            &[
                (
                    "nft_do_chain < nft_do_chain_ipv4 < nf_hook_slow < ip_rcv < __netif_receive_skb_one_core",
                    Some("nf_prerouting_v4"),
                ),
                (
                    "nft_do_chain < nf_hook_slow < nf_hook_slow_list < ip_sublist_rcv < ip_list_rcv",
                    Some("nf_prerouting_v4"),
                ),
                (
                    "nft_do_chain < nft_do_chain_inet < nf_hook_slow < ipv6_rcv < __netif_receive_skb_one_core",
                    Some("nf_prerouting_v6"),
                ),
                (
                    "nft_do_chain < nft_do_chain_netdev < nf_hook_slow < __netif_receive_skb_core.constprop.0",
                    Some("nf_ingress"),
                ),
                (
                    "nft_do_chain < nf_hook_slow < ip_local_deliver < __netif_receive_skb_one_core",
                    Some("nf_other"),
                ),
                (
                    "nft_do_chain < nf_hook_slow < ip_output < __netif_receive_skb_one_core",
                    Some("nf_other"),
                ),
                (
                    "resolve_normal_ct < nf_conntrack_in < nf_hook_slow < ip_rcv < __netif_receive_skb_one_core",
                    Some("conntrack"),
                ),
                (
                    "nf_hook_slow < br_nf_pre_routing < br_handle_frame < __netif_receive_skb_core.constprop.0",
                    Some("bridging"),
                ),
                (
                    "udp_queue_rcv_one_skb < ip_protocol_deliver_rcu < ip_local_deliver_finish < ip_sabotage_in < nf_hook_slow < ip_rcv < __netif_receive_skb_one_core < netif_receive_skb < br_handle_frame_finish < br_handle_frame",
                    Some("local_delivery_v4"),
                ),
            ],
        );
    }

    #[test]
    fn a_bpf_program_is_named_by_its_caller() {
        check(
            Some(Source::Softirq(3)),
            &[
                (
                    "bpf_prog_1_next < __netif_receive_skb_core.constprop.0 < __netif_receive_skb_one_core",
                    Some("tc_classify"),
                ),
                (
                    "bpf_prog_2_cls < cls_bpf_classify < __tcf_classify < tcf_classify < tc_run",
                    Some("tc_classify"),
                ),
                (
                    "bpf_prog_3_xdp < bpf_prog_run_generic_xdp < do_xdp_generic < __netif_receive_skb_core.constprop.0",
                    Some("xdp_generic"),
                ),
                (
                    "bpf_prog_4_sub < bpf_prog_3_xdp < veth_xdp_rcv_skb < veth_xdp_rcv < veth_poll < __napi_poll",
                    Some("xdp_native"),
                ),
                (
                    "bpf_prog_5_cg < __cgroup_bpf_run_filter_skb < sk_filter_trim_cap < tcp_v4_rcv < ip_protocol_deliver_rcu",
                    Some("local_delivery_v4"),
                ),
            ],
        );
    }

    #[test]
    fn a_bridge_and_other_upper_devices_are_told_apart() {
        check(
            Some(Source::Softirq(3)),
            &[
                (
                    "br_handle_frame < __netif_receive_skb_core.constprop.0",
                    Some("bridging"),
                ),
                (
                    "br_fdb_update < br_handle_frame_finish < br_handle_frame < __netif_receive_skb_core.constprop.0",
                    Some("bridging"),
                ),
                (
                    "macvlan_handle_frame < __netif_receive_skb_core.constprop.0",
                    Some("rx_handler"),
                ),
                (
                    "consume_skb < packet_rcv < __netif_receive_skb_core.constprop.0",
                    Some("taps"),
                ),
            ],
        );
    }

    #[test]
    fn a_task_is_sampled_by_its_outermost_call_and_local_ipc_is_not_networking() {
        check(
            None,
            &[
                (
                    "_copy_from_iter < tcp_sendmsg_locked < tcp_sendmsg < __sys_sendto < __x64_sys_sendto < do_syscall_64",
                    Some("tx_syscall"),
                ),
                (
                    "_copy_to_iter < skb_copy_datagram_iter < tcp_recvmsg < sock_recvmsg < sock_read_iter < vfs_read < do_syscall_64",
                    Some("rx_syscall"),
                ),
                (
                    "skb_splice < splice_to_socket < direct_splice_actor < do_syscall_64",
                    Some("tx_syscall"),
                ),
                (
                    "io_send < io_issue_sqe < io_submit_sqes < do_syscall_64",
                    Some("tx_syscall"),
                ),
                (
                    "sock_alloc_send_pskb < unix_stream_sendmsg < sock_write_iter < vfs_write < do_syscall_64",
                    Some("local_ipc"),
                ),
                (
                    "netlink_dump < netlink_recvmsg < sock_recvmsg < ____sys_recvmsg < do_syscall_64",
                    Some("local_ipc"),
                ),
                ("ext4_file_read < vfs_read < do_syscall_64", None),
                (
                    "handle_softirqs < irq_exit < tcp_sendmsg < __sys_sendto",
                    None,
                ),
            ],
        );
    }

    #[test]
    fn a_call_at_the_end_of_a_function_belongs_to_that_function() {
        // The return address is the first byte of the next function.
        let text = "1000 t leaf\n2000 t ip_rcv\n3000 t other\n";
        let mut classifier = Classifier::new(text.as_bytes()).unwrap();
        let found = classifier.classify(Source::Softirq(3).clock_kind(), &[0x1010, 0x3000]);
        assert_eq!(found.map(|i| COMPONENTS[i].slug), Some("ip_receive_v4"));
    }

    #[test]
    fn an_empty_stack_and_an_unknown_kind_belong_to_nothing() {
        let mut classifier = Classifier::new("1000 t ip_rcv\n".as_bytes()).unwrap();
        assert_eq!(
            classifier.classify(Source::Softirq(3).clock_kind(), &[]),
            None
        );
        assert_eq!(classifier.classify(200, &[0x1000]), None);
    }

    #[test]
    fn the_symbols_found_are_listed_by_component() {
        let classifier = Classifier::new(
            "1000 t br_handle_frame\t[bridge]\n2000 t br_forward\n3000 t ip_rcv\n".as_bytes(),
        )
        .unwrap();
        let bridging = metrics_common::component::index_of("bridging").unwrap();
        assert_eq!(
            classifier.symbols_of(bridging),
            ["br_forward", "br_handle_frame"]
        );
    }

    proptest! {
        /// Whatever addresses a stack holds, the answer is a part of what the clock says.
        #[test]
        fn parts_are_found_only_under_their_own_whole(kind in any::<u8>(), frames in proptest::collection::vec(0_u64..0x9000, 0..30)) {
            let text = "1000 t ip_rcv\n2000 t __napi_poll\n3000 t dev_gro_receive\n4000 t tcp_sendmsg\n5000 t net_rx_action\n6000 t bpf_prog_x\t[bpf]\n";
            let mut classifier = Classifier::new(text.as_bytes()).unwrap();
            if let Some(found) = classifier.classify(kind, &frames) {
                let whole = Source::ALL.iter().find(|s| s.clock_kind() == kind).and_then(|s| index_of_source(*s));
                match whole.map(|i| COMPONENTS[i].slug) {
                    Some("io_worker") | None => prop_assert!(matches!(COMPONENTS[found].kind, Kind::Timed(..))),
                    slug => prop_assert_eq!(COMPONENTS[found].parent, slug),
                }
            }
        }
    }
}
