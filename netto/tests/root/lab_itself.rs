//! The lab before the daemon: its networks carry the packets that they are meant to.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::lab::{self, Namespace, Network};
use crate::trial::{self, NotOnThisKernel, tests};
use crate::webdriver::{Browser, TALL_WINDOW};
use crate::{child, quiet, repeat, traffic};

tests! {
    lab::a_direct_network_carries_udp_and_tcp_of_both_families ["ip"] = direct;
    lab::a_bridge_carries_packets_even_for_nobody ["ip", "bridge"];
    lab::a_router_carries_packets_even_for_nobody ["ip"];
    lab::iperf3_runs_between_namespaces ["ip", "iperf3"] = iperf3;
    lab::a_program_attached_to_a_device_lets_packets_pass ["ip"];
    lab::a_host_that_is_not_quiet_is_noticed_and_named ["ip"];
    lab::a_check_of_statistics_holds_when_two_of_three_tries_do = majority;
    lab::a_browser_opens_a_page_and_tells_what_its_console_says ["chromium", "chromedriver", "unshare"]
        = browser;
}

/// Waits until a device has received a stream of packets.
fn carries(at: &Namespace, device: &str) -> Result<()> {
    let before = at.received_packets(device)?;
    child::eventually(|| {
        let packets = at.received_packets(device)? - before;
        ensure!(packets >= 200, "{device} received only {packets} packets");
        Ok(())
    })
}

fn direct() -> Result<()> {
    let network = Network::direct()?;
    for to in [network.right_v4, network.right_v6] {
        let _udp = traffic::udp(&network.left, &network.right, to)?;
        carries(&network.right, "lan")?;
        drop(_udp);
        let _tcp = traffic::tcp(&network.left, &network.right, to)?;
        carries(&network.right, "lan")?;
    }
    let _flows = traffic::udp_flows(&network.left, network.right_v4)?;
    carries(&network.right, "lan")
}

fn a_bridge_carries_packets_even_for_nobody() -> Result<()> {
    let network = Network::bridged()?;
    for to in [network.right_v4, network.nobody_v4, network.nobody_v6] {
        let _udp = traffic::udp_blast(&network.left, to)?;
        carries(&network.right, "lan")?;
    }
    Ok(())
}

fn a_router_carries_packets_even_for_nobody() -> Result<()> {
    let network = Network::routed()?;
    for to in [
        network.right_v4,
        network.right_v6,
        network.nobody_v4,
        network.nobody_v6,
    ] {
        let _udp = traffic::udp_blast(&network.left, to)?;
        carries(&network.right, "lan")?;
    }
    Ok(())
}

fn iperf3() -> Result<()> {
    let network = Network::direct()?;
    network.enable_gro()?;
    let report = traffic::iperf3(&network.left, &network.right, network.right_v4, 1, "")?;
    let bytes = report["end"]["sum_received"]["bytes"]
        .as_u64()
        .context("iperf3 does not say how much it received")?;
    ensure!(bytes > 1 << 20, "iperf3 carried only {bytes} bytes");
    Ok(())
}

fn a_program_attached_to_a_device_lets_packets_pass() -> Result<()> {
    let network = Network::direct()?;
    let mut ways = vec!["xdp-generic"];
    if lab::kernel_at_least(6, 6)? {
        ways.push("tcx");
    }
    for how in ways {
        let _program = traffic::agent(&network.right, &["attach", how, "lan"])?;
        let _udp = traffic::udp_blast(&network.left, network.right_v4)?;
        carries(&network.right, "lan")?;
    }
    Ok(())
}

/// The traffic stands for that of others: a skip, which says how much, and in CI a failure.
fn a_host_that_is_not_quiet_is_noticed_and_named() -> Result<()> {
    let network = Network::direct()?;
    let traffic = traffic::udp_blast(&network.left, network.nobody_v4)?;
    let Err(error) = quiet::wait(Duration::ZERO) else {
        anyhow::bail!("a stream of packets is taken for quiet");
    };
    drop(traffic);
    let text = error.to_string();
    ensure!(
        text.starts_with("this host is not quiet: ") && text.contains(" % networking"),
        "{text}"
    );
    ensure!(trial::outcome(error, false).is_ok(), "no skip");
    let again = trial::NotNow(text).into();
    ensure!(trial::outcome(again, true).is_err(), "no failure in CI");
    Ok(())
}

/// One try.
type Outcome = fn() -> Result<()>;

/// Runs tries with these outcomes; returns the result, the number of tries, and the messages.
fn tries(outcomes: &[Outcome]) -> (Result<()>, usize, Vec<String>) {
    let (mut made, mut messages) = (0, Vec::new());
    let attempt = || {
        made += 1;
        outcomes.get(made - 1).context("one try too many")?()
    };
    let result = repeat::majority("NAME", attempt, |line| messages.push(line.to_owned()));
    (result, made, messages)
}

fn majority() -> Result<()> {
    let holds = || Ok(());
    let one = || bail!("0.2 of\nall");
    let other = || bail!("0.3");
    let skip = || Err(trial::NotNow("not quiet".to_owned()).into());
    let first = "NAME failed at try 1: 0.2 of\nall";
    let unsteady = "UNSTEADY: NAME failed 1 of 3 tries: 0.2 of";

    let (result, made, messages) = tries(&[holds]);
    ensure!(
        result.is_ok() && made == 1 && messages.is_empty(),
        "{messages:?}"
    );
    let (result, made, messages) = tries(&[one, holds, holds]);
    ensure!(
        result.is_ok() && made == 3 && messages == [first, unsteady],
        "{messages:?}"
    );
    let second = "NAME failed at try 2: 0.3";
    let third = "NAME failed at try 3: 0.3";
    let failures = [
        (vec![one as Outcome, other], second),
        (vec![one, holds, other], third),
    ];
    for (outcomes, last) in failures {
        let tries_made = outcomes.len();
        let (result, made, messages) = tries(&outcomes);
        let text = result.err().context("most tries failed")?.to_string();
        ensure!(
            text == format!("2 of {tries_made} tries failed:\n0.2 of\nall\n0.3"),
            "{text}"
        );
        ensure!(
            made == tries_made && messages == [first, last],
            "{messages:?}"
        );
    }

    let (result, made, messages) = tries(&[skip]);
    let error = result.err().context("a skip is no success")?;
    ensure!(
        trial::is_skip(&error) && made == 1 && messages.is_empty(),
        "{error:#}"
    );
    let (result, made, _) = tries(&[one, skip]);
    let error = result.err().context("a failure and a skip")?;
    ensure!(
        !trial::is_skip(&error) && made == 2 && error.to_string().contains("0.2 of\nall"),
        "{error:#}"
    );
    Ok(())
}

fn browser() -> Result<()> {
    let browser = Browser::start(TALL_WINDOW)?;
    browser.open("data:text/html,<p id=a>one</p><script>console.error('two')</script>")?;
    let text = browser.script("return document.getElementById('a').textContent")?;
    ensure!(text == "one", "the page says {text}");
    let errors = browser.console_errors()?;
    ensure!(
        errors.len() == 1 && errors[0].contains("two"),
        "the console says {errors:?}"
    );
    Ok(())
}

/// The result of a test that needs a newer kernel.
pub fn needs_kernel(major: u32, minor: u32, what: &str) -> Result<()> {
    if lab::kernel_at_least(major, minor)? {
        return Ok(());
    }
    Err(NotOnThisKernel(format!("{what} needs Linux {major}.{minor}")).into())
}
