//! Whose packets a BPF program ran for: of two control groups that receive through one program, each
//! has its part of the program's time.

use anyhow::{Context, Result, ensure};
use metrics_common::sections::Program;
use metrics_common::{OwnerKind, Snapshot};

use crate::flows::{self, Flow};
use crate::follow::Followed;
use crate::groups::Group;
use crate::lab::{Network, kernel_at_least};
use crate::programs::by_kernel;
use crate::traffic;
use crate::trial::tests;

tests! {
    program_owners::two_groups_that_receive_through_one_program_have_their_parts_of_its_time ["ip"];
}

/// Packets a second of a flow, and how many flows go to each group.
const PACKETS: u64 = 2_000;
const FLOWS: [u16; 2] = [3, 1];
/// Samples in the program before its owners are read, and how long these may take.
const ENOUGH: u64 = 600;
/// The part of the group with three of four flows, with room for a busy host.
const PART: std::ops::RangeInclusive<f64> = 0.65..=0.85;
/// Least part of the program's time that is for either.
const KNOWN: f64 = 0.8;

fn program(sum: &Snapshot, id: u32) -> Result<&Program> {
    let programs = sum.sections.programs.as_ref().context("no section")?;
    let mut programs = programs.programs.iter();
    programs
        .find(|program| program.about.id == id)
        .context("no sample in the program")
}

/// The sum of intervals from now on in which the program has enough samples.
fn sampled(followed: &mut Followed, id: u32) -> Result<Snapshot> {
    followed.catch_up()?;
    let mut sum = followed.next()?;
    let samples = |sum: &Snapshot| program(sum, id).map_or(0, |program| program.about.samples);
    followed.find(
        |last| format!("{} samples in an interval", samples(last)),
        |snapshot| {
            sum.add(snapshot);
            Ok((samples(&sum) >= ENOUGH).then(|| sum.clone()))
        },
    )
}

fn two_groups_that_receive_through_one_program_have_their_parts_of_its_time() -> Result<()> {
    let network = Network::direct()?;
    let how = if kernel_at_least(6, 6)? {
        "tcx"
    } else {
        "xdp-generic"
    };
    let _program = traffic::agent(&network.right, &["attach", how, "lan"])?;
    let id = by_kernel()?.id;
    let groups = [Group::new("many")?, Group::new("few")?];
    let senders = Group::new("senders")?;
    let mut followed = Followed::start_with(&flows::often("cgroup"))?;
    let flow = |place: usize, port| Flow {
        count: FLOWS[place],
        ..Flow::udp(
            [&groups[place], &senders],
            &network,
            port,
            flows::rate(PACKETS),
        )
    };
    let _loads = [flow(0, 6001).start()?, flow(1, 6101).start()?];
    let sum = sampled(&mut followed, id)?;
    let measured = program(&sum, id)?;
    let causes = measured.causes();
    println!("\n{how}: {causes:#?}");
    let all_ns = measured.total_ns();
    ensure!(causes.iter().map(|cause| cause.ns).sum::<u64>() == all_ns);
    let of = |group: &Group| {
        let of_group = causes
            .iter()
            .find(|cause| cause.owner.cgroup == group.path());
        of_group.with_context(|| format!("{} has none of {causes:?}", group.path()))
    };
    let (many, few) = (of(&groups[0])?, of(&groups[1])?);
    let both = (many.ns + few.ns) as f64;
    let part = many.ns as f64 / both;
    ensure!(PART.contains(&part), "{part:.3} of it for three of four");
    ensure!(both >= KNOWN * all_ns as f64, "{both} of {all_ns} ns");
    for cause in causes
        .iter()
        .filter(|cause| cause.owner.kind != OwnerKind::Unknown)
    {
        let (low, high) = cause.interval_ns.context("no interval")?;
        ensure!(low <= cause.ns && cause.ns <= high, "{cause:?}");
    }
    Ok(())
}
