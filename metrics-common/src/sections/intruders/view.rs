//! Intruders as a table for people.

use super::{Intruder, Intruders, QuietCpu};
use crate::text::shortened;
use crate::view::View;

/// Most CPUs, causes on one, on a terminal and on the page, and names in a cell.
const MOST_CPUS: usize = 16;
const MOST_LINES: [usize; 2] = [6, 8];
const MOST_NAMES: usize = 3;

/// The largest causes on each CPU: what they ran, whom they interrupted, and from where they came.
pub const INTRUDERS: View<Intruders> = table! {
    View of (intruders, is_page):
        for (quiet, of_cpu) in intruders.by_cpu(),
        for (cause, ns, ratio, [events, victims, origins]) in lines(&of_cpu, is_page) =>
    text     "", "" 0,            "CPU"               = format!("{} ({})", quiet.cpu, quiet.reasons());
    title    "", "" 0,            ""                  = format!("quiet by {}{}", quiet.reasons(), quiet.reached_by());
    text     "", "" 0,            "Caused by"         = cause;
    text     "", "caused by" -36, ""                  = shortened(&cause, 36);
    cpu_time "", "" 0,            "% of the CPU"      = ns;
    ratio    "", "share" 8,       "% of its softirqs" = ratio;
    cpu_time "", "CPUs" 8,        ""                  = ns;
    text     "", "" 0,            "Softirqs"          = events;
    text     "", "" 0,            "Interrupted"       = victims;
    text     "", "" 0,            "Also on"           = origins;
    text     "", "softirqs" 0,    ""                  = words(&events, &victims, &origins);
};

/// Cause, time, its share of the CPU's softirqs, and the names of events, victims and origins.
type Line = (String, u64, f64, [String; 3]);

fn lines(of_cpu: &Intruders, is_page: bool) -> Vec<Line> {
    let mut all = of_cpu.intruders();
    let rest = all.split_off(all.len().min(MOST_LINES[usize::from(is_page)]));
    let mut lines: Vec<Line> = all.into_iter().map(line).collect();
    let ns = rest
        .iter()
        .fold(0, |sum: u64, intrusion| sum.saturating_add(intrusion.ns));
    if ns > 0 && !is_page {
        let ratio = rest.iter().map(|intrusion| intrusion.ratio).sum();
        lines.push(("others".to_owned(), ns, ratio, Default::default()));
    }
    lines
}

fn line(intruder: Intruder) -> Line {
    let events = first(intruder.events.iter().map(|(name, _)| (*name).to_owned()));
    let origins = first(intruder.origins.iter().map(|(cpu, _)| format!("CPU {cpu}")));
    let victims = first(intruder.victims.into_iter().map(|(name, _)| name));
    (
        intruder.cause,
        intruder.ns,
        intruder.ratio,
        [events, victims, origins],
    )
}

/// The first names of a cell.
fn first(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.collect();
    if names.len() > MOST_NAMES {
        names.truncate(MOST_NAMES);
        names.push("…".to_owned());
    }
    names.join(", ")
}

fn words(events: &str, victims: &str, origins: &str) -> String {
    match (events, origins) {
        ("", _) => String::new(),
        (_, "") => format!("{events}; interrupted {victims}"),
        _ => format!("{events}; interrupted {victims}; also on {origins}"),
    }
}

impl QuietCpu {
    fn reached_by(&self) -> String {
        let ways = self.ways.join(", ");
        if ways.is_empty() {
            ways
        } else {
            format!("; reached by {ways}")
        }
    }

    /// Why it is meant to be quiet, and how it is reached all the same.
    pub fn heading(&self) -> String {
        let (why, ways) = (self.reasons(), self.reached_by());
        format!("CPU {} is meant to be quiet ({why}){ways}", self.cpu)
    }
}

impl Intruders {
    /// Those of each CPU that has any.
    pub fn by_cpu(&self) -> impl Iterator<Item = (&QuietCpu, Intruders)> {
        let all = self.cpus.iter().take(MOST_CPUS).map(|quiet| {
            let of_cpu = self
                .intrusions
                .iter()
                .filter(|intrusion| intrusion.cpu == quiet.cpu);
            let intrusions = of_cpu.cloned().collect();
            let (cpus, origins) = (vec![quiet.clone()], self.origins.clone());
            (
                quiet,
                Intruders {
                    cpus,
                    intrusions,
                    origins,
                },
            )
        });
        all.filter(|(_, section)| !section.intrusions.is_empty())
    }
}
