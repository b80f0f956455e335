//! The verdict on a host's networking: is it a problem, where, and whose. Its levels are the rows
//! of [`RULES`]; page, terminal and report say the same by this code. Pure.

use serde::Serialize;

use metrics_common::component::NETWORK;
use metrics_common::info::{Availability, Info};
use metrics_common::sections::{Account, Owners};
use metrics_common::snapshot::{Snapshot, ratio};
use metrics_common::text::percent;

mod course;
mod evidence;

pub use course::{Course, Courses};
pub use evidence::Evidence;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing to do.
    Calm,
    /// Networking takes much of the host.
    High,
    /// One CPU is full of networking.
    CpuFull,
    /// Networking of one owner takes CPU time from another.
    Hurts,
}

/// What so much CPU time per time is called, on a host of so many CPUs: in the reader's unit.
pub type InUnit<'a> = &'a dyn Fn(f64, usize) -> String;

/// The unit of the terminal: a share of the host.
pub fn of_host(worth: f64, cpus: usize) -> String {
    format!("{} of this host", percent(worth / cpus.max(1) as f64))
}

/// A row of the table of verdicts.
pub struct Rule {
    /// Its level.
    pub level: Level,
    /// Name for machines.
    pub slug: &'static str,
    /// Name for people.
    pub name: &'static str,
    /// The figure that decides.
    pub condition: &'static str,
    /// It holds from this figure on.
    pub begins: f64,
    /// Once it holds, it ends below this figure, so that it does not change with every interval.
    pub ends: f64,
    figure: fn(&Figures) -> Figure,
    words: fn(&Figures, InUnit) -> String,
}

/// The table of verdicts, the worst first: the first row whose condition is met holds.
pub const RULES: &[Rule] = &[
    Rule {
        level: Level::Hurts,
        slug: "hurts",
        name: "It hurts",
        condition: "CPU time that softirqs of one owner take from another, as a share of one CPU or, \
                    if that is less, as ten times the share of the host; by the lower end of the \
                    95 % interval",
        begins: 0.01,
        ends: 0.007,
        figure: |of| {
            of.loss()
                .map_or(Figure::NOTHING, |loss| loss.figure(of.cpus))
        },
        words: |of, in_unit| match of.loss() {
            Some(loss) => format!(
                "{} loses {} to {}",
                loss.payer,
                in_unit(loss.cpus, of.cpus),
                loss.cause
            ),
            None => String::new(),
        },
    },
    Rule {
        level: Level::CpuFull,
        slug: "cpu_full",
        name: "One CPU full",
        condition: "networking's share of the CPU that has most of it",
        begins: 0.7,
        ends: 0.6,
        figure: |of| Figure::of(of.busiest.map_or(0.0, |(_, ratio)| ratio)),
        words: |of, _| match of.busiest {
            Some((cpu, ratio)) => format!("CPU {cpu} at {} networking", percent(ratio)),
            None => String::new(),
        },
    },
    Rule {
        level: Level::High,
        slug: "high",
        name: "High",
        condition: "networking's share of all CPUs",
        begins: 0.2,
        ends: 0.16,
        figure: |of| Figure::of(of.ratio),
        words: |of, _| {
            let worth = of.ratio * of.cpus as f64;
            format!(
                "networking takes {}{} of this host's CPU, {worth:.1} of {} CPUs",
                of.at_least(),
                percent(of.ratio),
                of.cpus
            )
        },
    },
    Rule {
        level: Level::Calm,
        slug: "calm",
        name: "Calm",
        condition: "none of the others",
        begins: 0.0,
        ends: 0.0,
        figure: |_| Figure::NOTHING,
        words: |of, _| {
            let mut text = format!(
                "networking takes {}{} of this host's CPU",
                of.at_least(),
                percent(of.ratio)
            );
            if let (Some((cpu, ratio)), true) = (of.busiest, of.cpus > 1) {
                text += &format!(", at most {} of one CPU ({cpu})", percent(ratio));
            }
            if of.whose.is_ok() {
                text += ", and nobody loses much to another";
            }
            text
        },
    },
];

/// The figure of a rule.
#[derive(Debug, Clone, Copy)]
struct Figure {
    /// The estimate.
    likely: f64,
    /// The lower end of its interval; the same where it is measured.
    sure: f64,
}

impl Figure {
    const NOTHING: Figure = Figure::of(0.0);

    const fn of(value: f64) -> Figure {
        Figure {
            likely: value,
            sure: value,
        }
    }
}

/// Softirq time of one owner that another paid.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// Name of the owner that caused it.
    pub cause: String,
    /// Name of the owner that paid.
    pub payer: String,
    /// CPU time per time.
    pub cpus: f64,
    /// The lower end of its 95 % interval; 0 if that is unknown.
    pub sure_cpus: f64,
}

impl Loss {
    /// The largest loss of one owner to another in an interval of this length.
    pub fn of(owners: &Owners, interval_ns: u64) -> Option<Loss> {
        let pair = owners.largest_pair()?;
        let place = owners.taken.iter().position(|taken| *taken == pair);
        let bounds = place.and_then(|place| owners.intervals().taken[place]);
        let label = |place: u32| owners.owners[place as usize].label();
        Some(Loss {
            cause: label(pair.cause),
            payer: label(pair.payer),
            cpus: ratio(pair.ns, interval_ns),
            sure_cpus: ratio(bounds.map_or(0, |(low, _)| low), interval_ns),
        })
    }

    fn figure(&self, cpus: usize) -> Figure {
        // On a large host a little is taken from everybody.
        let scaled = |worth: f64| worth * (10.0 / cpus.max(1) as f64).min(1.0);
        Figure {
            likely: scaled(self.cpus),
            sure: scaled(self.sure_cpus),
        }
    }
}

/// Something with a name and its CPU time as a share of the host, 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Named {
    /// Its name for people.
    pub label: String,
    /// CPU time as a share of the time of all CPUs, 0 to 1.
    pub share_ratio: f64,
}

/// The part of networking that takes most.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Leader {
    /// Its stable name.
    pub component: String,
    /// Its name and share.
    #[serde(flatten)]
    pub named: Named,
}

/// Whose networking it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Whose {
    /// The owner that causes most.
    pub causes: Option<Named>,
    /// The owner that pays most for others.
    pub pays: Option<Named>,
    /// The largest loss of one owner to another.
    pub loss: Option<Loss>,
}

/// All figures that a verdict rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Number of CPUs.
    pub cpus: usize,
    /// Networking's share of all CPUs, 0 to 1.
    pub ratio: f64,
    /// Whether a part of networking is not measured here.
    pub is_lower_bound: bool,
    /// The CPU with most networking, and networking's share of it, 0 to 1.
    pub busiest: Option<(u32, f64)>,
    /// The part that takes most.
    pub leader: Option<Leader>,
    /// Whose it is, or why that is unknown.
    pub whose: Result<Whose, String>,
}

impl Figures {
    /// The figures of an interval; `None` if networking is not measured.
    pub fn of(info: &Info, snapshot: &Snapshot) -> Option<Figures> {
        let is_there = |row: usize| info.components[row].availability.is_available();
        let total_ns = |row: usize| snapshot.total_ns(row).filter(|_| is_there(row));
        let share = |ns: u64| ratio(ns, snapshot.capacity_ns());
        let network = info.row_of(NETWORK)?;
        let ratio_of_all = share(total_ns(network)?);
        let values = snapshot.cost().cpu_ns(network)?;
        let busiest = snapshot.cpus.iter().zip(values).max_by_key(|(_, ns)| **ns);
        let events: Vec<_> = info.parts_of(NETWORK).collect();
        let is_lower_bound = events.iter().any(|event| total_ns(*event).is_none());
        let leader = events
            .into_iter()
            .flat_map(|event| {
                let mut parts = info.parts_of(&info.components[event].slug).peekable();
                let event = parts.peek().is_none().then_some(event);
                event.into_iter().chain(parts)
            })
            .filter_map(|row| Some((row, total_ns(row)?)))
            .max_by_key(|(_, ns)| *ns)
            .filter(|(_, ns)| *ns > 0);
        let whose = match &snapshot.sections.owners {
            Some(owners) => Ok(Whose::of(owners, snapshot.interval_ns, snapshot.cpus.len())),
            None => Err(reason(info, "owners")),
        };
        Some(Figures {
            cpus: snapshot.cpus.len(),
            ratio: ratio_of_all,
            is_lower_bound,
            busiest: busiest.map(|(cpu, ns)| (*cpu, ratio(*ns, snapshot.interval_ns))),
            leader: leader.map(|(row, ns)| Leader {
                component: info.components[row].slug.clone(),
                named: Named {
                    label: info.components[row].label.clone(),
                    share_ratio: share(ns),
                },
            }),
            whose,
        })
    }

    fn at_least(&self) -> &'static str {
        if self.is_lower_bound { "at least " } else { "" }
    }

    fn loss(&self) -> Option<&Loss> {
        self.whose.as_ref().ok()?.loss.as_ref()
    }

    /// The verdict. `before` is the level of the verdict before, which is easier to keep than to
    /// reach.
    pub fn judge(&self, before: Option<Level>) -> Verdict {
        self.judge_in(before, &of_host)
    }

    /// The same, in the reader's unit.
    pub fn judge_in(&self, before: Option<Level>, in_unit: InUnit) -> Verdict {
        let holds = |rule: &&Rule| {
            let figure = (rule.figure)(self);
            if before == Some(rule.level) {
                figure.likely >= rule.ends
            } else {
                figure.sure >= rule.begins
            }
        };
        // The last row always holds.
        let rule = RULES.iter().find(holds).unwrap_or(&RULES[RULES.len() - 1]);
        Verdict {
            level: rule.level,
            name: rule.name,
            slug: rule.slug,
            text: (rule.words)(self, in_unit),
        }
    }
}

/// Why a section is absent.
fn reason(info: &Info, section: &str) -> String {
    let mut instruments = info.instruments.iter();
    match instruments
        .find(|instrument| instrument.name == section)
        .map(|instrument| &instrument.availability)
    {
        Some(Availability::Unavailable { reason }) => reason.clone(),
        _ => "not measured in this time".to_owned(),
    }
}

impl Whose {
    /// Who causes and pays in an interval of this length on this many CPUs.
    pub fn of(owners: &Owners, interval_ns: u64, cpus: usize) -> Whose {
        let capacity_ns = interval_ns.saturating_mul(cpus as u64);
        let accounts = owners.accounts();
        let largest = |ns: fn(&Account) -> u64| {
            let named = owners.owners.iter().zip(&accounts);
            let named = named.filter(|(owner, account)| !owner.kind.is_single() && ns(account) > 0);
            let (owner, account) = named.max_by_key(|(_, account)| ns(account))?;
            Some(Named {
                label: owner.label(),
                share_ratio: ratio(ns(account), capacity_ns),
            })
        };
        Whose {
            causes: largest(|account| account.caused_ns),
            pays: largest(|account| account.others_took_ns),
            loss: Loss::of(owners, interval_ns),
        }
    }
}

/// A verdict in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// Its level.
    pub level: Level,
    /// The level's name for people.
    #[serde(skip)]
    pub name: &'static str,
    /// The level's name for machines.
    #[serde(skip)]
    pub slug: &'static str,
    /// What the level rests on.
    pub text: String,
}

/// The answers for a terminal, in the order of the questions: is it a problem, where and whose, and
/// whether packets wait longer.
pub fn lines(
    figures: &Figures,
    verdict: &Verdict,
    latency: &Result<Course, String>,
) -> [String; 3] {
    let said = |named: &Named| format!("{} {}", named.label, percent(named.share_ratio));
    let whose = match &figures.whose {
        Ok(Whose { causes, pays, .. }) => {
            let name = |named: &Option<Named>| named.as_ref().map_or("nobody".to_owned(), said);
            format!(
                "caused most by {}, paid most by {}",
                name(causes),
                name(pays)
            )
        }
        Err(reason) => format!("owners unknown: {reason}"),
    };
    let leader = figures.leader.as_ref();
    let leader = leader.map_or("none".to_owned(), |leader| said(&leader.named));
    [
        format!("{}: {}", verdict.name, verdict.text),
        format!("Largest part {leader} · {whose}"),
        match latency {
            Ok(course) => format!("Latency {course}"),
            Err(reason) => format!("Latency unknown: {reason}"),
        },
    ]
}

#[cfg(test)]
mod tests;
