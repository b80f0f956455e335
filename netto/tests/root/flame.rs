//! The flame graph of real traffic: whole stacks, by name, all samples included.

use anyhow::{Context, Result, ensure};

use crate::daemon::Daemon;
use crate::http;
use crate::lab::Network;
use crate::traffic;
use crate::trial::Test;

pub const TESTS: &[Test] = &[Test {
    name: "flame::stacks_of_sends_and_softirqs_are_folded_by_function",
    tools: &["ip"],
    body: folded,
}];

fn folded() -> Result<()> {
    let network = Network::direct()?;
    let daemon = Daemon::start(&[])?;
    let _traffic = traffic::udp(&network.left, &network.right, network.right_v4)?;
    daemon.measure()?;
    let answer = http::get_ok(daemon.at, "/api/v1/flamegraph")?;
    let mut sampled = 0;
    let (mut sending, mut receiving, mut unknown) = (0, 0, 0);
    for line in answer.body.lines() {
        let (stack, count) = line.rsplit_once(' ').context("a line without a count")?;
        let count: u64 = count.parse().with_context(|| line.to_owned())?;
        let functions: Vec<&str> = stack.split(';').collect();
        sampled += count;
        let goes_through = |name: &str| functions.contains(&name);
        match functions[0] {
            "tx_syscall" if goes_through("udp_sendmsg") => sending += count,
            "rx_softirq" if goes_through("net_rx_action") && goes_through("__napi_poll") => {
                receiving += count;
            }
            _ => {}
        }
        if goes_through("[unknown]") {
            unknown += count;
        }
    }
    println!("\n{sampled} samples: {sending} below udp_sendmsg, {receiving} below __napi_poll");
    let said = format!("x-netto-samples: {sampled}\r\n");
    ensure!(
        answer.head.to_lowercase().contains(&said),
        "{sampled} samples in the lines, but:\n{}",
        answer.head
    );
    // 40 and 45 % on Linux 6.18. The interrupted sender is never part of a softirq's stack.
    ensure!(sending * 10 >= sampled, "too few sends\n{}", answer.body);
    ensure!(
        receiving * 10 >= sampled,
        "too few packets\n{}",
        answer.body
    );
    ensure!(
        !answer
            .body
            .lines()
            .any(|line| line.contains(";udp_sendmsg;") && line.contains(";net_rx_action")),
        "a softirq on top of a send counts as both\n{}",
        answer.body
    );
    ensure!(
        unknown * 100 <= sampled,
        "{unknown} samples without a name\n{}",
        answer.body
    );
    Ok(())
}
