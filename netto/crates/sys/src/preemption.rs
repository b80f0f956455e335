//! Whether the kernel can preempt programs at tracepoints. The BPF side is `bpf/preemption.bpf.c`.

use std::thread;

use anyhow::{Context, bail};
use libbpf_rs::skel::{OpenSkel, Skel};

use super::preemption_skel::PreemptionSkelBuilder;
use super::skeleton;

/// What the program finds, as there.
const UNREADABLE: u64 = 1;
const PREEMPTED: u64 = 2;
const WHOLE: u64 = 3;

/// Finds by making a thread whether programs at tracepoints run to their end before another task.
///
/// # Errors
/// They do not, or that cannot be told.
pub(super) fn programs_are_whole() -> anyhow::Result<()> {
    let open = skeleton::open::<PreemptionSkelBuilder>()?;
    let mut skel = open
        .load()
        .context("the kernel refuses the program that reads the preempt count")?;
    skel.attach()
        .context("the kernel refuses to call the program that reads the preempt count")?;
    let thread = thread::Builder::new().name("netto-preempt".to_owned());
    let thread = thread.spawn(|| ()).context("cannot make a thread")?;
    let _ = thread.join();
    let found = skel.maps.bss_data.as_deref().map(|found| found.netto_found);
    match found {
        Some(WHOLE) => Ok(()),
        Some(PREEMPTED) => bail!(
            "this kernel preempts softirqs (PREEMPT_RT) and the programs that time them, which would \
             count time twice"
        ),
        Some(UNREADABLE) => bail!(
            "this kernel preempts softirqs (PREEMPT_RT), and whether it preempts the programs that \
             time them, too, cannot be told: it has no preempt count that programs can read"
        ),
        _ => bail!("the program that reads the preempt count did not run"),
    }
}
