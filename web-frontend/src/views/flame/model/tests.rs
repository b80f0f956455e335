//! Trees of folded stacks.

use super::*;
use crate::fixture;

const STACKS: &str = "\
rx_softirq;net_rx_action;napi_poll;tcp_v4_rcv 30
rx_softirq;net_rx_action;napi_poll;memcpy 20
tx_syscall;tcp_sendmsg;memcpy 40
rx_softirq;net_rx_action 10
";

fn path(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn at(tree: &Tree, names: &[&str]) -> usize {
    let (at, found) = tree.find(&path(names));
    assert_eq!(found, names.len(), "{names:?}");
    at
}

#[test]
fn stacks_that_begin_alike_are_joined_and_their_samples_added() {
    let tree = Tree::parse(STACKS);
    assert_eq!((tree.samples(), tree.unreadable), (100, 0));
    let action = &tree.nodes[at(&tree, &["rx_softirq", "net_rx_action"])];
    assert_eq!(
        (action.samples, action.self_samples, action.depth),
        (60, 10, 2)
    );
    let poll = at(&tree, &["rx_softirq", "net_rx_action", "napi_poll"]);
    let called: Vec<&str> = tree.nodes[poll]
        .children
        .iter()
        .map(|&child| tree.nodes[child].name.as_str())
        .collect();
    assert_eq!(called, ["memcpy", "tcp_v4_rcv"], "by name, not by size");
    assert_eq!(tree.event_of(poll), Some("rx_softirq"));
    assert_eq!(
        tree.path_to(poll),
        ["rx_softirq", "net_rx_action", "napi_poll"]
    );
}

#[test]
fn lines_that_are_no_stacks_are_counted_and_not_shown() {
    let tree =
        Tree::parse("# a comment\na;b 1\n\nno count\n;;; 2\n -3\na;b 18446744073709551615\n");
    assert_eq!(tree.unreadable, 3);
    // Numbers beyond the range do not overflow.
    assert_eq!(tree.samples(), u64::MAX);
    assert_eq!(Tree::parse("").samples(), 0);
    let deep = format!("{} 1", vec!["f"; 10_000].join(";"));
    assert_eq!(Tree::parse(&deep).nodes.len(), MOST_FRAMES + 1);
}

#[test]
fn boxes_are_as_wide_as_their_samples_and_stand_below_their_callers() {
    let tree = Tree::parse(STACKS);
    let boxes = tree.boxes(0, 0.0);
    assert_eq!(boxes.len(), tree.nodes.len());
    for flame_box in &boxes {
        let width = flame_box.right - flame_box.left;
        assert!((width - tree.share(flame_box.node)).abs() < 1e-9);
        let parent = tree.nodes[flame_box.node].parent;
        let above = boxes.iter().find(|b| b.node == parent).unwrap();
        assert!(above.left <= flame_box.left + 1e-9 && flame_box.right <= above.right + 1e-9);
    }
    // Siblings do not overlap.
    for (a, b) in boxes.iter().flat_map(|a| boxes.iter().map(move |b| (a, b))) {
        let apart = a.right <= b.left + 1e-9 || b.right <= a.left + 1e-9;
        assert!(a.node == b.node || a.depth != b.depth || apart);
    }
}

#[test]
fn what_is_zoomed_into_is_as_wide_as_the_whole_and_so_are_its_callers() {
    let tree = Tree::parse(STACKS);
    let poll = at(&tree, &["rx_softirq", "net_rx_action", "napi_poll"]);
    let boxes = tree.boxes(poll, 0.0);
    let callers: Vec<usize> = boxes
        .iter()
        .filter(|b| b.is_caller)
        .map(|b| b.depth)
        .collect();
    assert_eq!(callers, [0, 1, 2]);
    let poll_box = boxes.iter().find(|b| b.node == poll).unwrap();
    assert_eq!(
        (poll_box.left, poll_box.right, poll_box.is_caller),
        (0.0, 1.0, false)
    );
    assert!(
        boxes
            .iter()
            .all(|b| tree.event_of(b.node) != Some("tx_syscall"))
    );
    // An event has the whole above it, once.
    let rx = at(&tree, &["rx_softirq"]);
    let callers = tree.boxes(rx, 0.0).iter().filter(|b| b.is_caller).count();
    assert_eq!(callers, 1);
}

#[test]
fn boxes_too_narrow_to_be_seen_are_left_out_with_what_is_in_them() {
    let tree = Tree::parse(STACKS);
    let boxes = tree.boxes(0, 0.35);
    let names: Vec<&str> = boxes
        .iter()
        .map(|b| tree.nodes[b.node].name.as_str())
        .collect();
    assert!(!names.contains(&"tcp_v4_rcv"), "{names:?}");
    assert!(names.contains(&"napi_poll") && names.contains(&"tcp_sendmsg"));
}

#[test]
fn a_path_that_was_not_seen_lately_ends_where_it_is_still_known() {
    let tree = Tree::parse(STACKS);
    let (found, names) = tree.find(&path(&["tx_syscall", "udp_sendmsg", "x"]));
    assert_eq!((tree.nodes[found].name.as_str(), names), ("tx_syscall", 1));
}

#[test]
fn a_search_counts_each_sample_once() {
    let tree = Tree::parse("a;memcpy;memcpy_erms 3\na;other 1\n");
    let (found, share) = tree.search(" MEMCPY", |node| node.name.clone());
    assert_eq!((found.len(), share), (2, 0.75));
    assert_eq!(tree.search("", |node| node.name.clone()).0.len(), 0);
    // Events are found by the name that people read.
    let tree = Tree::parse(STACKS);
    let info = fixture::info();
    let (found, share) = tree.search("rx soft", |node| label(&info, node));
    assert_eq!((found.len(), share), (1, 0.6));
}

#[test]
fn the_hottest_functions_are_summed_over_their_callers() {
    let tree = Tree::parse(STACKS);
    assert_eq!(
        tree.hottest(0),
        [("memcpy", 60), ("tcp_v4_rcv", 30), ("net_rx_action", 10)]
    );
}

#[test]
fn an_answer_without_stacks_says_why() {
    let answer = |status, body: &str| FlameResponse {
        status,
        body: body.to_owned(),
        ..FlameResponse::default()
    };
    let reason = Profile::of(answer(503, "the sampler is off\n")).unwrap_err();
    assert_eq!(reason, "No flame graph here: the sampler is off");
    assert!(
        Profile::of(answer(404, "<html>"))
            .unwrap_err()
            .contains("offers no")
    );
    assert!(
        Profile::of(answer(500, "x"))
            .unwrap_err()
            .contains("status 500")
    );
    let empty = Profile::of(answer(200, "")).unwrap();
    assert_eq!(empty.basis(), "No sample of networking in the last minute.");
    assert_eq!(empty.hottest_text(&fixture::info(), 0), "");
    let full = Profile::of(FlameResponse {
        window_seconds: Some(47.5),
        left_out: Some(12),
        ..answer(200, STACKS)
    });
    let full = full.unwrap();
    assert_eq!(
        full.basis(),
        "100 samples of networking, the last 48 s, all CPUs; 12 more in stacks too rare to be kept; shares are of samples"
    );
    let text = full.hottest_text(&fixture::info(), 0);
    assert!(text.starts_with("Most time in: memcpy 60.0 %, "), "{text}");
}

#[test]
fn of_one_component_there_are_its_own_stacks() {
    let info = fixture::info();
    let profile = Profile::of(FlameResponse {
        status: 200,
        body: "rx_softirq;net_rx_action;__napi_poll;x_poll;dev_gro_receive 30\n\
               rx_softirq;net_rx_action;__napi_poll;x_poll 50\ntx_syscall;tcp_sendmsg 20\n"
            .to_owned(),
        ..FlameResponse::default()
    });
    let profile = profile.unwrap();
    let gro = profile.of_component(&info, "gro").unwrap();
    assert_eq!(gro.tree.samples(), 30);
    assert!(
        gro.basis()
            .starts_with("30 samples of GRO, of 100 of networking")
    );
    assert!(gro.folded.ends_with("dev_gro_receive 30\n"));
    let all = profile.of_component(&info, "network").unwrap();
    assert_eq!(all.folded, profile.folded);
    let none = profile.of_component(&info, "conntrack").unwrap();
    assert_eq!(none.basis(), "No sample of Conntrack in the last minute.");
    let foreign = profile.of_component(&info, "local_ipc");
    assert!(foreign.unwrap_err().contains("networking only"));
}
