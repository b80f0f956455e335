//! The three linked bars as plain values: the host's CPU modes, its kernel time
//! by networking event, and one event by its parts. Pure; `plot` draws them and
//! `legend` writes them out, so that both always say the same.

use metrics_common::confidence;
use metrics_common::sections::CpuModes;
use metrics_common::{Info, Snapshot};

use crate::basis::{self, Amount, Basis, THIS_HOST};
use crate::color::Rgb;
use crate::view_model::reason_missing;
use crate::{format, tip};

/// The component whose parts the second bar shows.
const EVENTS: &str = "network";
/// Key of the kernel's time other than networking.
pub const REST: &str = "rest_of_kernel";
/// Modes in which the kernel works, as indices in [`CpuModes::NAMES`]: softirq, irq, system.
const KERNEL_MODES: [usize; 3] = [6, 5, 2];
/// The other modes, from the bottom of the bar upwards: user, nice, steal, iowait, idle.
const OTHER_MODES: [usize; 5] = [0, 1, 7, 4, 3];

/// Colours of the modes in the order of [`CpuModes::NAMES`]. They are not components, so they are
/// in no table; all are visible on light and dark pages.
const MODE_COLORS: [Option<Rgb>; 8] = [
    Some(Rgb(0x5b, 0x8f, 0xb9)), // user
    Some(Rgb(0x8f, 0xb8, 0xd6)), // nice
    Some(Rgb(0xc9, 0x6b, 0x5c)), // system
    None,                        // idle
    Some(Rgb(0xb3, 0x9d, 0x72)), // iowait
    Some(Rgb(0x9a, 0x4f, 0x6e)), // irq
    Some(Rgb(0xe0, 0x8a, 0x4f)), // softirq
    Some(Rgb(0x6d, 0x60, 0x80)), // steal
];
const MODE_HELP: [&str; 8] = [
    "Programs in user mode, guests included.",
    "Programs in user mode with low priority.",
    "The kernel at work for a task.",
    "Nothing to do.",
    "Nothing to do while input or output is outstanding.",
    "Hard interrupts.",
    "Softirqs.",
    "Taken by the hypervisor.",
];
const REST_COLOR: Rgb = Rgb(0x9a, 0x8f, 0x86);
/// A bar below this share of the host's time is faint.
const FAINT_RATIO: f64 = 0.001;
/// Less of the host's time is little.
const LITTLE_RATIO: f64 = 0.005;
/// A part of a bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Slug of the component, name of the mode, or [`REST`].
    pub key: String,
    /// Name for people.
    pub label: String,
    /// Its colour, the same everywhere; `None` for idle time, which is as pale as the page allows.
    pub color: Option<Rgb>,
    /// One sentence of explanation.
    pub help: String,
    /// CPU time in the interval, nanoseconds.
    pub ns: u64,
    /// The same with its reference values.
    pub amount: Amount,
    /// The name of its whole.
    pub whole: String,
    /// Share of the bar, 0 to 1.
    pub ratio: f64,
    /// The upper end of its 95 % interval, if that reaches from nothing to more than a little: there are too few
    /// samples to tell it from nothing.
    pub at_most: Option<Amount>,
}

/// A part that a bar cannot show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// Slug of the component.
    pub key: String,
    /// Name for people.
    pub label: String,
    /// Why it is not measured.
    pub reason: String,
}

/// One stacked bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// The name of the whole bar.
    pub title: String,
    /// The size of the whole bar as text; or why there is nothing to draw.
    pub subtitle: String,
    /// CPU time of the whole bar in the interval, nanoseconds.
    pub whole_ns: u64,
    /// The unit of its values.
    pub basis: Basis,
    /// Parts from the bottom to the top; their ratios add up to 1, or all are 0.
    pub segments: Vec<Segment>,
    /// Parts that are not measured here.
    pub absent: Vec<Absent>,
    /// The range of this bar, as ratios from the bottom, that the next bar expands.
    pub opened: Option<(f64, f64)>,
    /// Whether the bar is so small a part of the host that its split hardly matters.
    pub faint: bool,
    /// A remark on these values.
    pub note: Option<String>,
    /// The lowest segments that are one figure together.
    pub bracket: Option<Bracket>,
}

/// The sum of a bar's lowest segments.
#[derive(Debug, Clone, PartialEq)]
pub struct Bracket {
    /// What they are.
    pub label: String,
    /// Their sum with its unit.
    pub text: String,
    /// Their share of the bar, 0 to 1.
    pub ratio: f64,
}

/// The three bars; the third one shows the parts of `focus`, one of the events.
pub fn bars(info: &Info, snapshot: &Snapshot, focus: &str, basis: Basis) -> [Bar; 3] {
    [
        modes_bar(snapshot, basis),
        events_bar(info, snapshot, focus, basis),
        parts_bar(info, snapshot, focus, basis),
    ]
}

/// The unit of the values of all three.
pub fn sentence(info: &Info, snapshot: &Snapshot, focus: &str, basis: Basis) -> String {
    let index = info.row_of(focus);
    let whole = index.map_or(focus, |index| basis::name_of_whole(info, index));
    let phrase = match basis {
        Basis::Parent => format!(
            "% of the whole that each is a part of: events of all networking, the last list of {whole}, \
             modes and the rest of the kernel of {THIS_HOST}"
        ),
        _ => format!("{}, {} CPUs", basis.phrase(whole), snapshot.cpus.len()),
    };
    format!("Values in {phrase}.")
}

/// A time from `/proc/stat`, whose ticks never quite fill an interval.
fn counted(snapshot: &Snapshot, ns: u64) -> Amount {
    match host_modes(snapshot).total_ns() {
        0 => Amount::of_ns(snapshot, ns, None),
        all => Amount::of_share(format::ratio(ns, all), snapshot.cpus.len()),
    }
}

/// The host's modes; no time was counted where that section is absent.
fn host_modes(snapshot: &Snapshot) -> CpuModes {
    let modes = snapshot.sections.modes.as_ref();
    modes.map(|modes| modes.host).unwrap_or_default()
}

fn modes_bar(snapshot: &Snapshot, basis: Basis) -> Bar {
    let modes = host_modes(snapshot);
    let values = modes.values();
    let segments: Vec<Segment> = KERNEL_MODES
        .iter()
        .chain(&OTHER_MODES)
        .map(|&mode| Segment {
            key: CpuModes::NAMES[mode].to_owned(),
            label: CpuModes::NAMES[mode].to_owned(),
            color: MODE_COLORS[mode],
            help: MODE_HELP[mode].to_owned(),
            ns: values[mode],
            amount: counted(snapshot, values[mode]),
            whole: THIS_HOST.to_owned(),
            ratio: 0.0,
            at_most: None,
        })
        .collect();
    let mut bar = Bar {
        title: "CPU modes".to_owned(),
        subtitle: "all CPU time of the host".to_owned(),
        whole_ns: modes.total_ns(),
        basis,
        segments,
        absent: Vec::new(),
        opened: None,
        faint: false,
        note: None,
        bracket: None,
    };
    bar.set_ratios();
    if bar.whole_ns == 0 {
        bar.subtitle = "no time counted in this interval".to_owned();
    } else {
        let kernel: f64 = bar.segments[..KERNEL_MODES.len()]
            .iter()
            .map(|segment| segment.ratio)
            .sum();
        bar.opened = Some((0.0, kernel));
    }
    bar
}

fn events_bar(info: &Info, snapshot: &Snapshot, focus: &str, basis: Basis) -> Bar {
    let modes = host_modes(snapshot);
    let (values, host_ns) = (modes.values(), modes.total_ns());
    let kernel_ns: u64 = KERNEL_MODES.iter().map(|&mode| values[mode]).sum();
    let (mut segments, absent) = parts(info, snapshot, EVENTS);
    let events_ns: u64 = segments.iter().map(|segment| segment.ns).sum();
    let mut help = "What the kernel did besides networking.".to_owned();
    if !absent.is_empty() {
        help.push_str(" Networking that is not measured here is in it.");
    }
    let rest_ns = kernel_ns.saturating_sub(events_ns);
    segments.push(Segment {
        key: REST.to_owned(),
        label: "Rest of the kernel".to_owned(),
        color: Some(REST_COLOR),
        help,
        ns: rest_ns,
        amount: counted(snapshot, rest_ns),
        whole: THIS_HOST.to_owned(),
        ratio: 0.0,
        at_most: None,
    });
    let whole_ns = kernel_ns.max(events_ns);
    let mut bar = Bar {
        title: "Kernel".to_owned(),
        subtitle: size(
            basis,
            counted(snapshot, whole_ns),
            THIS_HOST,
            "no kernel time in this interval",
        ),
        whole_ns,
        basis,
        segments,
        absent,
        opened: None,
        faint: format::ratio(whole_ns, host_ns) < FAINT_RATIO,
        // They are measured by different clocks; on a quiet host the coarse one shows nothing.
        note: (events_ns > kernel_ns).then(|| {
            "Here the events are the whole: /proc/stat counts in 10 ms ticks and saw less kernel time."
                .to_owned()
        }),
        bracket: None,
    };
    bar.set_ratios();
    bar.opened = bar.stretch_of(focus);
    let network = info.row_of(EVENTS);
    bar.bracket = network
        .filter(|_| events_ns > 0)
        .and_then(|row| Amount::of_component(info, snapshot, row))
        .map(|amount| Bracket {
            label: "Networking".to_owned(),
            text: basis.say(amount),
            ratio: format::ratio(events_ns, whole_ns),
        });
    bar
}

fn parts_bar(info: &Info, snapshot: &Snapshot, focus: &str, basis: Basis) -> Bar {
    let host_ns = host_modes(snapshot).total_ns();
    let index = info.row_of(focus);
    let title = index.map_or(focus, |index| &info.components[index].label);
    let (mut segments, absent) = parts(info, snapshot, focus);
    // A component without parts is its own only part.
    let is_split = !segments.is_empty() || !absent.is_empty();
    if let Some(index) = index.filter(|_| !is_split) {
        segments.push(segment(info, snapshot, index));
    }
    let parts_ns: u64 = segments.iter().map(|segment| segment.ns).sum();
    let reason = index.and_then(|index| reason_missing(info, snapshot, index));
    let whole_ns = match reason {
        Some(_) => 0,
        None => index
            .and_then(|index| snapshot.total_ns(index))
            .unwrap_or(0)
            .max(parts_ns),
    };
    let subtitle = match reason {
        Some(reason) => format!("unavailable: {reason}"),
        None => {
            let parent = index.and_then(|index| basis::parent_of(info, index));
            let parent_ns = parent.and_then(|parent| snapshot.total_ns(parent));
            size(
                basis,
                Amount::of_ns(snapshot, whole_ns, parent_ns),
                index.map_or(THIS_HOST, |index| basis::whole_of(info, index)),
                &format!("no {title} time in this interval"),
            )
        }
    };
    let stacks = index
        .and_then(|index| snapshot.cost().samples_of(index))
        .map(|row| row.iter().map(|&count| u64::from(count)).sum::<u64>());
    let mut bar = Bar {
        title: title.to_owned(),
        subtitle,
        whole_ns,
        basis,
        segments: if reason.is_some() {
            Vec::new()
        } else {
            segments
        },
        absent,
        opened: None,
        faint: format::ratio(whole_ns, host_ns) < FAINT_RATIO,
        note: match stacks {
            _ if whole_ns == 0 => None,
            Some(stacks) => Some(estimate(
                stacks,
                snapshot.interval_ns,
                tip::basis(info, snapshot, focus),
            )),
            None if is_split => None,
            None => Some(format!(
                "{title} is timed as a whole and not split further."
            )),
        },
        bracket: None,
    };
    bar.set_ratios();
    bar
}

/// The basis of a split.
fn estimate(stacks: u64, interval_ns: u64, basis: Option<String>) -> String {
    let rate = stacks as f64 * 1e9 / interval_ns.max(1) as f64;
    let rate = match rate {
        few if few < 9.95 => format!("{few:.1}"),
        many => format::count(many.round() as u64),
    };
    let stacks = format::count(stacks);
    let length = format::length(interval_ns);
    let text = format!("An estimate from {stacks} stacks in {length}, {rate} a second");
    match basis {
        None => format!("{text}."),
        Some(basis) => format!("{text}, and others: {basis}."),
    }
}

/// The measured and the unmeasured parts of a component; ratios are left at 0.
fn parts(info: &Info, snapshot: &Snapshot, whole: &str) -> (Vec<Segment>, Vec<Absent>) {
    let mut segments = Vec::new();
    let mut absent = Vec::new();
    for index in info.parts_of(whole) {
        let component = &info.components[index];
        match reason_missing(info, snapshot, index) {
            Some(reason) => absent.push(Absent {
                key: component.slug.clone(),
                label: component.label.clone(),
                reason: reason.to_owned(),
            }),
            None => segments.push(segment(info, snapshot, index)),
        }
    }
    (segments, absent)
}

fn segment(info: &Info, snapshot: &Snapshot, index: usize) -> Segment {
    let component = &info.components[index];
    let ns = snapshot.total_ns(index).unwrap_or(0);
    let amount = Amount::of_component(info, snapshot, index);
    let interval = confidence::of_component(info, snapshot, index);
    let little_ns = LITTLE_RATIO * snapshot.capacity_ns() as f64;
    let at_most = interval.filter(|(low, high)| *low == 0 && *high as f64 > little_ns);
    let at_most = at_most.zip(amount);
    Segment {
        key: component.slug.clone(),
        label: component.label.clone(),
        color: Some(Rgb::parse(&component.color)),
        help: component.help.clone(),
        ns,
        amount: amount.unwrap_or_else(|| Amount::of_ns(snapshot, ns, None)),
        whole: basis::whole_of(info, index).to_owned(),
        ratio: 0.0,
        at_most: at_most.map(|((_, high), amount)| amount.with_ns(snapshot, high)),
    }
}

/// The size of a whole bar as text.
fn size(basis: Basis, amount: Amount, whole: &str, nothing: &str) -> String {
    if amount.cpus > 0.0 {
        format!(
            "{} {}",
            basis.number(basis.value(amount)),
            basis.phrase(whole)
        )
    } else {
        nothing.to_owned()
    }
}

impl Bar {
    /// The value of a segment, in the bar's unit.
    pub fn text(&self, segment: &Segment) -> String {
        match (self.basis, segment.at_most) {
            // Beside parts of networking.
            (Basis::Parent, _) if segment.key == REST => self.basis.say_of(segment.amount, "host"),
            (basis, Some(most)) => format!("≤ {}", basis.say_shortly(most)),
            (basis, None) => basis.say_shortly(segment.amount),
        }
    }

    fn set_ratios(&mut self) {
        for segment in &mut self.segments {
            segment.ratio = format::ratio(segment.ns, self.whole_ns);
        }
    }

    /// The range of a segment, as ratios from the bottom.
    fn stretch_of(&self, key: &str) -> Option<(f64, f64)> {
        let at = self.segments.iter().position(|s| s.key == key)?;
        let below: f64 = self.segments[..at].iter().map(|s| s.ratio).sum();
        (self.segments[at].ratio > 0.0).then(|| (below, below + self.segments[at].ratio))
    }
}

#[cfg(test)]
mod tests;
