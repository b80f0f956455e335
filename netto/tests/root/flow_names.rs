//! `--flows-names`: hosts have the names that the system knows.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::child;
use crate::daemon;
use crate::lab::Namespace;
use crate::trial::tests;

tests! {
    flow_names::hosts_of_a_capture_file_have_the_names_of_etc_hosts_if_asked_for ["ip", "unshare"];
}

const RECORD: &str = "1500000000,1500000001,192.0.2.1,192.0.2.2,4000,443,17,0,0,2,200\n";
const NAME: &str = "one.flows.example";
/// In the files of a mount namespace of its own; no server is asked.
const SCRIPT: &str = "mount --bind \"$1/hosts\" /etc/hosts && \
                      mount --bind \"$1/nsswitch.conf\" /etc/nsswitch.conf && shift && exec \"$@\"";

fn hosts_of_a_capture_file_have_the_names_of_etc_hosts_if_asked_for() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (records, pcap) = (path("records.csv"), path("x.pcap"));
    std::fs::write(&records, RECORD)?;
    std::fs::write(path("hosts"), format!("192.0.2.1 {NAME}\n192.0.2.2 a\\b\n"))?;
    std::fs::write(path("nsswitch.conf"), "hosts: files\n")?;
    child::run(&mut daemon::command(&["synth", &records, "--pcap", &pcap]))?;
    let namespace = Namespace::new()?;
    let flow = |options: &[&str]| -> Result<Value> {
        let mut command = namespace.command("unshare");
        command.args(["--mount", "sh", "-c", SCRIPT, "sh"]);
        command.arg(folder.path()).arg(daemon::binary());
        command.args(["flows", "--read", &pcap, "--json"]);
        let text = child::run(command.args(options))?;
        let measured: Value = serde_json::from_str(&text)?;
        let flow = measured["flows"].get(0).context("no flow")?;
        ensure!(flow["source"] == "192.0.2.1", "{flow}");
        Ok(flow.clone())
    };
    let named = flow(&["--flows-names=true"])?;
    ensure!(named["source_name"] == NAME, "{named}");
    // What is no name is as if there were none.
    ensure!(named.get("destination_name").is_none(), "{named}");
    let unasked = flow(&[])?;
    ensure!(unasked.get("source_name").is_none(), "{unasked}");
    Ok(())
}
