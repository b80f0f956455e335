//! Every BPF object of netto against the types of each kernel that is kept in `kernels`.
//!
//! If a program asks for something new, these files lack it: write them anew by `cargo xtask vm --types`.
//! What a kernel really lacks stands in the table; docs/KERNELS.md says what that means for users.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use netto_relocation::btf::{ENUM, FUNCTION, Member, STRUCT, Type, Types};
use netto_relocation::fit::{HELPERS, differs, lacks};
use netto_relocation::program::Object;
use netto_relocation::{minimal, objects, socket_functions};

/// The kernel for which the programs' arguments are known to be right: its guest runs them.
const KNOWN: &str = "6.12";
/// The newest kernel that netto refuses, of those that are kept.
const REFUSED: &str = "5.10";

/// What some kernels lack.
struct Lack {
    what: &'static str,
    /// The first kernel that lacks it, of those that are kept; empty: the oldest.
    since: &'static str,
    /// The first one that has it; empty: none.
    until: &'static str,
}

const fn until(until: &'static str, what: &'static str) -> Lack {
    Lack {
        what,
        since: "",
        until,
    }
}

const fn since(since: &'static str, what: &'static str) -> Lack {
    Lack {
        what,
        since,
        until: "",
    }
}

/// All that kernels lack. `optional`: the program asks whether the kernel has it before it uses it.
const LACKS: &[Lack] = &[
    // The kernel that is refused.
    until("6.1", "netto: helper 158"),
    until("6.1", "owners: helper 158"),
    until("6.1", "tick: helper 158"),
    until("6.1", "health: helper 158"),
    // The list of symbols names functions there.
    until("6.1", "names: helper 165"),
    // Programs do without these: they read no reason of a drop, find the disk by the request, and take 0
    // for no error in either type.
    until(
        "6.1",
        "drops: tp_btf/kfree_skb: argument 2 is none, not skb_drop_reason",
    ),
    until(
        "6.1",
        "health: request_queue.disk in tp_btf/block_rq_complete",
    ),
    until(
        "6.1",
        "health: tp_btf/block_rq_complete: argument 1 is int, not unsigned char",
    ),
    // Hooks in whose place netto takes others, or says that something is not measured.
    until("6.1", "health: fentry/filemap_read: no such hook"),
    until("6.12", "health: tp_btf/mm_filemap_get_pages: no such hook"),
    until("6.1", "latency: tp_btf/qdisc_enqueue: no such hook"),
    until("6.12", "latency: tp_btf/sk_data_ready: no such hook"),
    until("6.12", "owners: tp_btf/sk_data_ready: no such hook"),
    until("6.12", "latency: tp_btf/sock_recv_length: no such hook"),
    until("6.12", "traffic: tp_btf/sock_recv_length: no such hook"),
    until("6.12", "traffic: tp_btf/sock_send_length: no such hook"),
    until("6.1", "socket: xsk_recvmsg: no such hook"),
    since("6.12", "socket: inet_sendpage: no such hook"),
    // The same in two places.
    until("6.12", "preemption: optional pcpu_hot.preempt_count"),
    since("6.16", "preemption: optional pcpu_hot.preempt_count"),
    since("6.1", "health: optional request.rq_disk"),
    until("6.1", "latency: optional sock.sk_rx_dst_ifindex"),
    since("6.1", "latency: optional inet_sock.rx_dst_ifindex"),
    until("7.1", "latency: optional scm_timestamping_internal.ts[0]"),
    since(
        "7.1",
        "latency: optional scm_timestamping_internal.ts[0].tv_nsec",
    ),
    since(
        "7.1",
        "latency: optional scm_timestamping_internal.ts[0].tv_sec",
    ),
    until("6.12", "latency: optional sk_buff.tstamp_type"),
    until("6.1", "latency: optional sk_buff.mono_delivery_time"),
    since("6.12", "latency: optional sk_buff.mono_delivery_time"),
];

fn numbers(version: &str) -> Vec<u32> {
    let numbers = version.split('.');
    numbers.map(|number| number.parse().unwrap()).collect()
}

impl Lack {
    fn is_of(&self, kernel: &str) -> bool {
        let is_before = |bound: &str| numbers(kernel) < numbers(bound);
        (self.since.is_empty() || !is_before(self.since))
            && (self.until.is_empty() || is_before(self.until))
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

fn types(name: &str) -> Types {
    let path = folder().join(format!("{name}.btf"));
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Types::read(&bytes).unwrap_or_else(|error| panic!("{}: {error:#}", path.display()))
}

/// The kernels whose types are kept.
fn kernels() -> Vec<String> {
    let list = std::fs::read_to_string(folder().join("packages.txt")).unwrap();
    let names = list.lines().map(|line| line.split(' ').next().unwrap());
    names.map(str::to_owned).collect()
}

/// All that the objects ask for and these types do not have.
fn all_lacks(objects: &[Object], kernel: &Types) -> BTreeSet<String> {
    let known = types(KNOWN);
    let mut all = BTreeSet::new();
    for object in objects {
        all.extend(lacks(object, kernel).unwrap());
        for program in &object.programs {
            if let Some(difference) = differs(program, kernel, &known).unwrap() {
                all.insert(format!(
                    "{}: {}: {difference}",
                    object.name, program.section
                ));
            }
        }
    }
    let has = |name: &&str| kernel.named(FUNCTION, name).next().is_some();
    let missing = socket_functions().filter(|name| !has(name));
    all.extend(missing.map(|name| format!("socket: {name}: no such hook")));
    all
}

/// What is known to be lacking in a kernel.
fn expected(kernel: &str) -> BTreeSet<String> {
    let lacks = LACKS.iter().filter(|lack| lack.is_of(kernel));
    lacks.map(|lack| lack.what.to_owned()).collect()
}

/// What the objects ask for and the changed types of the known kernel lack.
fn unexpected(objects: &[Object], changed: &Types) -> BTreeSet<String> {
    &all_lacks(objects, changed) - &expected(KNOWN)
}

#[test]
fn every_object_fits_every_kernel_but_for_what_is_known_to_be_lacking() {
    let objects = objects().unwrap();
    for kernel in kernels() {
        let (found, expected) = (all_lacks(&objects, &types(&kernel)), expected(&kernel));
        let (more, less) = (&found - &expected, &expected - &found);
        assert!(
            more.is_empty() && less.is_empty(),
            "Linux {kernel} lacks {more:#?}, and has {less:#?}; if a program of netto has changed, first \
             `cargo xtask vm --types`"
        );
    }
}

#[test]
fn a_kernel_that_netto_takes_lacks_nothing_that_programs_use_unasked() {
    // A missing hook is not fatal, because its program is not loaded.
    let is_fatal = |what: &str| !what.contains(": optional ") && !what.ends_with("no such hook");
    for kernel in kernels() {
        let fatal = LACKS
            .iter()
            .filter(|lack| lack.is_of(&kernel) && is_fatal(lack.what));
        assert_eq!(fatal.count() > 0, kernel == REFUSED, "Linux {kernel}");
    }
}

/// The types of the known kernel, changed in one place.
fn changed(is_chosen: impl Fn(&Type) -> bool, change: impl Fn(&mut Type)) -> Types {
    let mut types = types(KNOWN).types;
    let chosen = types.iter_mut().filter(|candidate| is_chosen(candidate));
    chosen.for_each(change);
    Types::new(types)
}

fn changed_members(name: &str, change: impl Fn(&mut Member)) -> Types {
    let has_member = |record: &Type| record.members.iter().any(|member| member.name == name);
    changed(has_member, |record| {
        let members = record.members.iter_mut();
        members
            .filter(|member| member.name == name)
            .for_each(&change);
    })
}

#[test]
fn a_kernel_that_calls_a_field_differently_is_found_out() {
    let objects = objects().unwrap();
    let rename = |field: &'static str| {
        let kernel = changed_members(field, |member| member.name = "other".to_owned());
        unexpected(&objects, &kernel)
    };
    let found = rename("nvcsw");
    assert!(
        found.contains("netto: task_struct.nvcsw in tp_btf/sched_switch"),
        "{found:?}"
    );
    let found = rename("tstamp");
    assert!(
        found
            .iter()
            .any(|what| what.starts_with("latency: sk_buff.tstamp in ")),
        "{found:?}"
    );
    // What programs ask for is said to be optional, and is unknown here nevertheless.
    let found = rename("tstamp_type");
    assert!(
        found.contains("latency: optional sk_buff.tstamp_type"),
        "{found:?}"
    );
    assert_eq!(unexpected(&objects, &types(KNOWN)), BTreeSet::new());
}

#[test]
fn a_field_of_another_kind_is_found_out() {
    let objects = objects().unwrap();
    let types = types(KNOWN);
    let structures = types.named(STRUCT, "sk_buff").next();
    let structure = structures.expect("it is kept");
    // The number of an interface becomes a structure.
    let kernel = changed_members("skb_iif", |member| member.word = structure);
    let found = unexpected(&objects, &kernel);
    assert!(
        found
            .iter()
            .any(|what| what.contains(": sk_buff.skb_iif in ")),
        "{found:?}"
    );
}

#[test]
fn a_missing_hook_another_argument_and_a_missing_helper_are_found_out() {
    let objects = objects().unwrap();
    let found_without = |name: &'static str| {
        let kernel = changed(|named| named.name == name, |named| named.name.clear());
        unexpected(&objects, &kernel)
    };
    assert!(
        found_without("btf_trace_softirq_entry")
            .contains("netto: tp_btf/softirq_entry: no such hook")
    );
    assert!(found_without("tcp_v4_rcv").contains("latency: fentry/tcp_v4_rcv: no such hook"));
    assert!(found_without("inet_sendmsg").contains("socket: inet_sendmsg: no such hook"));

    // The arguments of a function begin one later.
    let mut kernel = types(KNOWN);
    let function = kernel.named(FUNCTION, "skb_consume_udp").next().unwrap();
    let prototype = kernel.types[function as usize].size_or_type as usize;
    kernel.types[prototype].members.rotate_right(1);
    let found = unexpected(&objects, &kernel);
    let expected = "latency: fentry/skb_consume_udp: argument 0 is int, not sock*";
    assert!(found.contains(expected), "{found:?}");

    let kernel = changed(
        |named| named.kind() == ENUM && named.name == HELPERS.0,
        |helpers| {
            helpers
                .members
                .retain(|helper| helper.name != "BPF_FUNC_ktime_get_ns");
        },
    );
    let found = unexpected(&objects, &kernel);
    assert!(found.contains("netto: helper 5"), "{found:?}");
}

#[test]
fn what_is_kept_of_a_kernel_is_all_that_the_objects_ask_for() {
    let objects = objects().unwrap();
    for kernel in kernels() {
        let kept = types(&kernel);
        let again = minimal::minimal(&kept, &objects).unwrap();
        let message =
            format!("{kernel}.btf has more than that: write it anew by `cargo xtask vm --types`");
        assert!(kept.types.len() == again.types.len(), "{message}");
    }
}

#[test]
fn damaged_types_are_an_error_and_no_panic() {
    let bytes = std::fs::read(folder().join(format!("{KNOWN}.btf"))).unwrap();
    assert!(Types::read(&bytes).is_ok());
    for end in (0..bytes.len()).step_by(7) {
        assert!(Types::read(&bytes[..end]).is_err(), "cut after {end} bytes");
    }
}

/// That of this host, or of a file that `NETTO_BTF` names.
#[test]
#[ignore = "depends on the kernel of the host"]
fn the_kernel_at_hand_lacks_nothing_that_is_not_known() {
    let path = std::env::var_os("NETTO_BTF");
    let path = path.unwrap_or_else(|| "/sys/kernel/btf/vmlinux".into());
    let kernel = Types::read(&std::fs::read(path).unwrap()).unwrap();
    let known: BTreeSet<String> = LACKS.iter().map(|lack| lack.what.to_owned()).collect();
    let found = &all_lacks(&objects().unwrap(), &kernel) - &known;
    assert!(found.is_empty(), "{found:#?}");
}
