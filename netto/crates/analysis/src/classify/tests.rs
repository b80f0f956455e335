//! Stacks of real kernels, and impossible stacks.

use std::collections::BTreeSet;

use super::*;
use crate::found::FoundSymbols;
use metrics_common::ownership::Parts;
use proptest::prelude::*;

mod leaves;
mod sockets;
mod softirqs;
mod stages;
mod threads;

/// The search by names must give the same part.
fn by_names_it_is_the_same(owner: SampleOwner, stack: &str) {
    let event = COMPONENTS[owner.event].slug;
    let named: Vec<String> = stack.split(" < ").map(shown).collect();
    let Some(mut parts) = Parts::of(event) else {
        return assert_eq!(owner.part, None, "{event}: {stack}");
    };
    let found = parts.owner(named.iter().map(String::as_str));
    let is_left_over = |row: &usize| COMPONENTS[*row].kind == Kind::Remainder;
    assert_eq!(
        found.filter(|row| !is_left_over(row)),
        owner.part,
        "{stack}"
    );
}

/// The name in a flame graph.
fn shown(symbol: &str) -> String {
    let is_program = symbol.starts_with("bpf_prog_") && !symbol.contains("generic");
    if is_program || symbol.starts_with("bpf_trampoline_") {
        format!("[bpf] {}", symbols::program_name(symbol))
    } else {
        symbols::normalise(symbol).to_owned()
    }
}

/// A kernel made of the functions of these stacks, one per 4 KiB.
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

    fn frames(&self, stack: &str) -> Vec<u64> {
        let address = |name: &str| {
            0x1000 * (self.names.iter().position(|n| *n == name).unwrap() as u64 + 1) + 0x10
        };
        stack.split(" < ").map(address).collect()
    }

    fn classify(&mut self, source: Option<Source>, stack: &str) -> Option<&'static str> {
        let frames = self.frames(stack);
        let kind = source.map_or(0, Source::clock_kind);
        let owner = self.classifier.classify(kind, &frames)?;
        by_names_it_is_the_same(owner, stack);
        // The most specific answer: the part, or else the event if the stack shows another one than
        // the clock.
        let clock_row = source.and_then(index_of_source);
        owner
            .part
            .or((clock_row != Some(owner.event)).then_some(owner.event))
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

#[test]
fn a_call_at_the_end_of_a_function_belongs_to_that_function() {
    // The return address is the first byte of the next function.
    let text = "1000 t leaf\n2000 t ip_rcv\n3000 t other\n";
    let mut classifier = Classifier::new(text.as_bytes()).unwrap();
    let found = classifier
        .classify(Source::NET_RX.clock_kind(), &[0x1010, 0x3000])
        .and_then(|o| o.part);
    assert_eq!(found.map(|i| COMPONENTS[i].slug), Some("ip_receive_v4"));
}

#[test]
fn an_empty_stack_is_whatever_the_clock_says_and_an_unknown_kind_nothing() {
    let mut classifier = Classifier::new("1000 t ip_rcv\n".as_bytes()).unwrap();
    let bare = classifier
        .classify(Source::NET_RX.clock_kind(), &[])
        .unwrap();
    assert_eq!(
        (COMPONENTS[bare.event].slug, bare.part),
        ("rx_softirq", None)
    );
    assert_eq!(classifier.classify(0, &[]), None);
    assert_eq!(classifier.classify(200, &[0x1000]), None);
}

#[test]
fn the_symbols_found_are_listed_by_component() {
    let text = "1000 t br_handle_frame\t[bridge]\n2000 t br_forward\n3000 t ip_rcv\n";
    let found = FoundSymbols::read(text.as_bytes()).unwrap();
    let has_symbols = Classifier::new(text.as_bytes()).unwrap().has_symbols;
    let bridging = index_of("bridging").unwrap();
    assert_eq!(found.of(bridging), ["br_forward", "br_handle_frame"]);
    for (component, has_symbols) in has_symbols.into_iter().enumerate() {
        assert_eq!(has_symbols, !found.of(component).is_empty(), "{component}");
    }
}

/// With all kernel functions that rules name in full, each with a marker of its own.
#[test]
fn tables_have_a_row_for_what_differs_and_not_for_each_function() {
    let rules = COMPONENTS
        .iter()
        .flat_map(|component| component.kind.rules());
    let names: BTreeSet<&str> = rules.map(|rule| rule.frame).collect();
    let named = names.iter().filter(|name| !name.contains('*'));
    let lines = (1_u64..)
        .zip(named)
        .map(|(at, name)| format!("{at:x}000 t {name}\n"));
    let text: String = lines.collect();
    let classifier = Classifier::new(text.as_bytes()).unwrap();
    let walks = classifier.carved.iter().chain(&classifier.parts);
    let cells: usize = walks.chain([&classifier.tasks]).map(Walk::cells).sum();
    let markers = classifier.is_boundary.len();
    assert!(markers > 200, "{markers}");
    assert!(cells < markers * 200, "{cells} for {markers} markers");
}

/// Without probes the clock is always in kind 0, and only the stack tells the event.
#[test]
fn without_probes_softirqs_are_found_in_stacks_with_their_parts() {
    let names = "__napi_poll dev_gro_receive do_idle handle_softirqs inet_sendmsg leaf net_rx_action net_tx_action";
    let text: String = names
        .split(' ')
        .enumerate()
        .map(|(i, name)| format!("{:x} t {name}\n", 0x1000 * (i + 1)))
        .collect();
    let mut classifier = Classifier::new(text.as_bytes()).unwrap();
    let mut slugs = |stack: &str| {
        let address =
            |name| 0x1000 * (names.split(' ').position(|n| n == name).unwrap() as u64 + 1) + 0x10;
        let frames: Vec<u64> = stack.split(" < ").map(address).collect();
        classifier
            .classify(0, &frames)
            .map(|o| (COMPONENTS[o.event].slug, o.part.map(|p| COMPONENTS[p].slug)))
    };
    let on_top_of_a_send =
        "leaf < dev_gro_receive < __napi_poll < net_rx_action < handle_softirqs < inet_sendmsg";
    assert_eq!(slugs(on_top_of_a_send), Some(("rx_softirq", Some("gro"))));
    assert_eq!(
        slugs("leaf < net_tx_action < handle_softirqs < inet_sendmsg"),
        Some(("tx_softirq", None))
    );
    assert_eq!(
        slugs("leaf < inet_sendmsg"),
        Some(("tx_syscall", Some("send_socket")))
    );
    assert_eq!(
        slugs("leaf < handle_softirqs < inet_sendmsg"),
        None,
        "a softirq that nobody knows"
    );
    // The same on a CPU that was woken up by a packet; and an idle one.
    let on_top_of_idleness =
        "leaf < dev_gro_receive < __napi_poll < net_rx_action < handle_softirqs < do_idle";
    assert_eq!(slugs(on_top_of_idleness), Some(("rx_softirq", Some("gro"))));
    assert_eq!(slugs("leaf < do_idle"), None);
}

#[test]
fn a_stack_is_recognised_wherever_in_its_innermost_function_the_cpu_was() {
    let mut kernel = Kernel::with(&["__napi_poll < net_rx_action", "ip_rcv < net_rx_action"]);
    let kind = Source::NET_RX.clock_kind();
    let frames = kernel.frames("__napi_poll < net_rx_action");
    let classifier = &mut kernel.classifier;
    let first = classifier.recognise(kind, &frames);
    let elsewhere = classifier.recognise(kind, &[frames[0] + 5, frames[1]]);
    assert_eq!(first, elsewhere);
    for (kind, frames) in [
        (0, &frames[..]),
        (kind, &[frames[0], frames[1] + 5]),
        (kind, &[frames[1], frames[1]]),
        (kind, &frames[..1]),
        (kind, &[]),
        (kind, &[0]),
    ] {
        assert_ne!(
            first,
            classifier.recognise(kind, frames),
            "{kind} {frames:x?}"
        );
    }
}

#[test]
fn when_too_many_stacks_are_known_they_are_learnt_anew_under_other_numbers() {
    let mut kernel = Kernel::with(&["__napi_poll < net_rx_action"]);
    let kind = Source::NET_RX.clock_kind();
    let frames = kernel.frames("__napi_poll < net_rx_action");
    let classifier = &mut kernel.classifier;
    let known = classifier.recognise(kind, &frames);
    let owner = classifier.owner_on(0, 0, known);
    assert!(owner.is_some_and(|owner| owner.part == index_of("napi_loop")));
    for caller in 0..MOST.known as u64 {
        classifier.recognise(kind, &[frames[0], caller]);
    }
    assert_eq!(
        classifier.owner_on(0, 0, known),
        None,
        "that was another epoch"
    );
    let again = classifier.recognise(kind, &frames);
    assert_ne!(known.epoch, again.epoch);
    assert_eq!(classifier.owner_on(0, 0, again), owner);
    assert!(classifier.known.len() <= MOST.known);
}

/// A new reading of symbols knows nothing of earlier stacks.
#[test]
fn the_families_that_were_seen_outlast_the_symbols() {
    let stack = "unix_stream_sendmsg < __sys_sendto < do_syscall_64";
    let bare = "__sys_sendto < do_syscall_64";
    let mut kernel = Kernel::with(&[stack, bare]);
    assert_eq!(kernel.classify(None, bare), Some("socket_unknown"));
    assert_eq!(kernel.classify(None, stack), Some("local_ipc"));
    assert_eq!(kernel.classify(None, bare), Some("local_ipc"));
    let mut later = Kernel::with(&[stack, bare]);
    later.classifier.take_over(kernel.classifier);
    assert_eq!(later.classify(None, bare), Some("local_ipc"));
}

proptest! {
    /// The result for a cached stack equals that for a new one.
    #[test]
    fn a_stack_that_is_known_is_judged_like_one_that_is_not(
        stacks in proptest::collection::vec((0_usize..2, 0_u8..17, proptest::collection::vec(0_u64..9, 0..5)), 0..60),
    ) {
        let text = "1000 t ip_rcv\n2000 t __napi_poll\n3000 t sock_sendmsg\n4000 t inet_sendmsg\n5000 t net_rx_action\n6000 t unix_stream_sendmsg\n7000 t io_wq_worker\n8000 t x\n";
        let mut knowing = Classifier::new(text.as_bytes()).unwrap();
        let mut forgetful = Classifier::new(text.as_bytes()).unwrap();
        for (cpu, kind, places) in stacks {
            let frames: Vec<u64> = places.iter().map(|place| 0x1000 * place + 0x10).collect();
            let (known, new) = (knowing.recognise(kind, &frames), forgetful.recognise(kind, &frames));
            prop_assert_eq!(knowing.owner_on(cpu, 7, known), forgetful.owner_on(cpu, 7, new));
            prop_assert_eq!(knowing.is_io_thread(known), forgetful.is_io_thread(new));
            forgetful.known.clear();
            forgetful.verdicts.clear();
        }
    }

    /// A part belongs to its whole, for any addresses.
    #[test]
    fn parts_are_found_only_under_their_own_whole(
        kind in any::<u8>(),
        frames in proptest::collection::vec(0_u64..0x9000, 0..30),
    ) {
        let text = "1000 t ip_rcv\n2000 t __napi_poll\n3000 t dev_gro_receive\n4000 t tcp_sendmsg\n5000 t net_rx_action\n6000 t bpf_prog_x\t[bpf]\n";
        let mut classifier = Classifier::new(text.as_bytes()).unwrap();
        if let Some(owner) = classifier.classify(kind, &frames) {
            let event = COMPONENTS[owner.event];
            prop_assert!(matches!(event.kind, Kind::Timed(..) | Kind::Estimated(_) | Kind::Carved(..)));
            if let Some(part) = owner.part {
                prop_assert_eq!(COMPONENTS[part].parent, Some(event.slug));
            }
        }
    }
}
