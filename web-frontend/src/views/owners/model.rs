//! Owners as plain values: a line for each in descending order, with its account and, if expanded,
//! its components. Pure; `draw` makes the markup.

use std::cmp::Reverse;

use metrics_common::component;
use metrics_common::sections::{
    Account, AccountIntervals, Bounds, Owner, OwnerBasis, OwnerFlow, OwnerKind, Owners, event_of,
    is_softirq, service_of,
};
use metrics_common::{Info, Snapshot};

use crate::basis::{Amount, Basis, name_of_whole};
use crate::format::{self, fine_percent};
use metrics_common::component::NETWORK;
use metrics_common::sort::sort_by;

/// Most owners with a line; the others are one.
const MOST_OWNERS: usize = 40;
/// What the column is.
const STALLED: &str = " Stalled: time that networking's softirqs and interrupts stole from the \
    owner's running tasks, whoever caused them, on all CPUs together.";
/// What the line of a conversation is.
const FLOW_HELP: &str = "A conversation, with what the owner caused for it in tasks and softirqs, as samples \
    show it: one of its largest";
/// The number of the button for lines without time.
pub const ZEROS: usize = 11;
/// The strongest level of a [`Cell`].
pub const MAX_LEVEL: u8 = 5;

/// The contents of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// Its emphasis: 0 for zero, up to [`MAX_LEVEL`].
    pub level: u8,
    /// Its 95 % interval, for the tooltip; empty if it is unknown.
    pub interval: String,
}

impl Cell {
    fn empty() -> Cell {
        Cell::new(String::new(), 0)
    }

    /// Without an interval.
    pub fn new(text: String, level: u8) -> Cell {
        let interval = String::new();
        Cell {
            text,
            level,
            interval,
        }
    }

    /// The same with this interval.
    pub fn within(self, range: Option<String>) -> Cell {
        let interval = range.map_or_else(String::new, |range| format!("95 % interval: {range}"));
        Cell { interval, ..self }
    }
}

/// A line: an owner, or one of its components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRow {
    /// Identifier of the owner in the document and the address.
    pub key: String,
    /// Name for people.
    pub label: String,
    /// An explanation, one sentence.
    pub help: String,
    /// 0 for an owner, 1 for an event of it, 2 for a part of that.
    pub depth: usize,
    /// Whether it is expanded; `None` without components.
    pub is_open: Option<bool>,
    /// Its values, in the order of [`Table::columns`].
    pub cells: Vec<Cell>,
}

/// Names of the columns of all owners, by which they can be ordered.
const COLUMNS: [&str; 7] = [
    "caused", "tasks", "softirqs", "made", "took", "stalled", "pressure",
];

/// A column of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name in the address.
    pub name: &'static str,
    /// Its heading.
    pub heading: &'static str,
    /// Its unit.
    pub unit: String,
    /// Whether owners are ordered by it.
    pub is_order: bool,
}

/// All lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The columns of values.
    pub columns: Vec<Column>,
    /// The lines.
    pub lines: Vec<OwnerRow>,
    /// Number of owners without time in the displayed span.
    pub zeros: usize,
    /// The unit of its values.
    pub sentence: String,
}

/// The displayed part of the section, and its form.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// Index of the component.
    pub component: usize,
    /// The unit of values.
    pub basis: Basis,
    /// Keys of the expanded owners.
    pub open: &'a [String],
    /// Name of the column by which they are ordered; another text: by all that they cause and pay.
    pub by: &'a str,
    /// Whether owners without time have lines, too.
    pub shows_zeros: bool,
}

/// An owner with its order.
struct Ranked<'a> {
    owner: &'a Owner,
    place: usize,
    account: Account,
    intervals: AccountIntervals,
    pressure_ns: Option<u64>,
}

impl Ranked<'_> {
    /// Its value in a column of [`COLUMNS`].
    fn column_ns(&self, column: usize) -> u64 {
        let account = &self.account;
        match column {
            0 => account.caused_ns,
            1 => account.caused_ns.saturating_sub(account.softirq_ns),
            2 => account.softirq_ns,
            3 => account.made_others_pay_ns,
            4 => account.others_took_ns,
            5 => account.stalled_ns,
            _ => self.pressure_ns.unwrap_or(0),
        }
    }

    /// Whether it caused anything, or something was taken from it that differs from nothing.
    fn has_told_time(&self) -> bool {
        let Account {
            caused_ns,
            made_others_pay_ns,
            others_took_ns,
            ..
        } = self.account;
        let interval = self.intervals.others_took_interval_ns;
        let is_told = interval.is_none_or(|(low, _)| low > 0);
        caused_ns > 0 || made_others_pay_ns > 0 || (others_took_ns > 0 && is_told)
    }
}

/// Identifier of an owner in the document and the address: letters, digits, underscores.
pub fn key(owner: &Owner) -> String {
    let text = match owner.kind {
        OwnerKind::Cgroup => format!("cgroup_{}", owner.id),
        OwnerKind::Process => format!("process_{}_{}", owner.pid, owner.started_ns),
        OwnerKind::Interface => format!("interface_{}_{}", owner.id, owner.interface),
        OwnerKind::Nobody => "nobody".to_owned(),
        OwnerKind::Unknown => "unknown".to_owned(),
        OwnerKind::Other => "other".to_owned(),
        OwnerKind::Forgotten => "forgotten".to_owned(),
        OwnerKind::Idle => "idle".to_owned(),
        OwnerKind::Kernel => "kernel".to_owned(),
    };
    let plain = |c: char| match c.to_ascii_lowercase() {
        letter if letter.is_ascii_lowercase() || letter.is_ascii_digit() => letter,
        _ => '_',
    };
    text.chars().map(plain).take(70).collect()
}

/// An explanation of an owner, one sentence.
pub fn help(owner: &Owner) -> String {
    let all = match owner.kind {
        OwnerKind::Cgroup => "A control group, with all processes in it",
        OwnerKind::Process => "A process",
        OwnerKind::Interface => "Packets that no socket of this host owns, by where they went",
        OwnerKind::Nobody => "Neither a task, nor a socket, nor an interface is known for it",
        OwnerKind::Unknown => {
            "The owner was not looked for: that would have cost more than --max-overhead"
        }
        OwnerKind::Other => "All owners that are not among the largest",
        OwnerKind::Forgotten => "Owners that are gone, and were not among the newest",
        OwnerKind::Idle => "CPUs with nothing else to do: nobody lost anything",
        OwnerKind::Kernel => "Threads of the kernel, ksoftirqd among them: nobody was interrupted",
    };
    let facts = [
        ("", &owner.cgroup),
        ("container ", &owner.container),
        ("runtime ", &owner.runtime),
        ("pod ", &owner.pod),
        ("namespace ", &owner.namespace),
        ("unit ", &owner.unit),
    ];
    let mut text = all.to_owned();
    for (name, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!(" · {name}{value}"));
    }
    text
}

/// The owners of a time span.
pub fn table(info: &Info, snapshot: &Snapshot, owners: &Owners, asked: Question) -> Table {
    let is_all = info
        .components
        .get(asked.component)
        .is_some_and(|c| c.slug == NETWORK);
    let owners = owners.of_component(asked.component).largest(MOST_OWNERS);
    let whole_ns: u64 = owners.totals_ns().iter().sum();
    let amount = |ns| Amount::of_ns(snapshot, ns, Some(whole_ns));
    let text = |ns| amount_text(asked.basis, amount(ns));
    let range = |(low, high): Bounds| asked.basis.range(amount(low), amount(high));
    let mut ranked: Vec<Ranked> = owners
        .accounts()
        .into_iter()
        .zip(owners.intervals().accounts)
        .enumerate()
        .map(|(place, (account, intervals))| Ranked {
            owner: &owners.owners[place],
            place,
            account,
            intervals,
            pressure_ns: owners.irq_pressure_ns.get(place).copied().flatten(),
        })
        .filter(|ranked| is_all || ranked.account.caused_ns > 0 || ranked.owner.kind.loses())
        .collect();
    if !is_all {
        // Payers are not known by component.
        let key = |ranked: &Ranked| {
            (
                ranked.owner.kind == OwnerKind::Other,
                Reverse(ranked.account.caused_ns),
            )
        };
        sort_by(&mut ranked, |a, b| key(a).cmp(&key(b)));
    }
    let has_pressure = is_all && ranked.iter().any(|ranked| ranked.pressure_ns.is_some());
    let columns = columns(asked.basis, is_all, has_pressure, asked.by);
    if let Some(column) = columns.iter().position(|column| column.is_order) {
        let key = |ranked: &Ranked| {
            let is_sum = ranked.owner.kind == OwnerKind::Other;
            (is_sum, Reverse(ranked.column_ns(column)))
        };
        sort_by(&mut ranked, |a, b| key(a).cmp(&key(b)));
    }
    let of_the_time = |ns| fine_percent(format::ratio(ns, snapshot.interval_ns) * 100.0);
    let has_time = |ranked: &Ranked| {
        if is_all {
            ranked.has_told_time()
        } else {
            ranked.account.caused_ns > 0
        }
    };
    let zeros = ranked.iter().filter(|ranked| !has_time(ranked)).count();
    let most = |of: fn(&Account) -> u64| {
        let losing = ranked.iter().filter(|ranked| ranked.owner.kind.loses());
        losing.map(|ranked| of(&ranked.account)).max().unwrap_or(0)
    };
    let most_caused = most(|account| account.caused_ns);
    let most_taken =
        most(|account| account.made_others_pay_ns).max(most(|account| account.others_took_ns));
    let mut lines = Vec::new();
    for entry in &ranked {
        // One line is as good as the button.
        if zeros > 1 && !asked.shows_zeros && !has_time(entry) {
            continue;
        }
        let Account {
            caused_ns,
            softirq_ns,
            made_others_pay_ns,
            others_took_ns,
            stalled_ns,
        } = entry.account;
        let cell = |ns, most| Cell::new(text(ns), level(ns, most));
        let AccountIntervals {
            caused_interval_ns,
            softirq_interval_ns,
            made_others_pay_interval_ns,
            others_took_interval_ns,
            stalled_interval_ns,
        } = entry.intervals;
        let loses = entry.owner.kind.loses();
        let mut cells = vec![
            cell(caused_ns, most_caused).within(caused_interval_ns.map(range)),
            cell(caused_ns - softirq_ns.min(caused_ns), 0),
            cell(softirq_ns, 0).within(softirq_interval_ns.map(range)),
        ];
        if is_all {
            let made = made_others_pay_interval_ns.map(range);
            cells.push(cell(made_others_pay_ns, most_taken).within(made));
            let took = others_took_interval_ns.map(range);
            cells.push(cell(others_took_ns, if loses { most_taken } else { 0 }).within(took));
            cells.push(if loses {
                let range = |(low, high)| format!("{}–{} %", of_the_time(low), of_the_time(high));
                Cell::new(of_the_time(stalled_ns), u8::from(stalled_ns > 0))
                    .within(stalled_interval_ns.map(range))
            } else {
                Cell::empty()
            });
        }
        if has_pressure {
            cells.push(entry.pressure_ns.map_or_else(Cell::empty, |ns| {
                Cell::new(of_the_time(ns), u8::from(ns > 0))
            }));
        }
        let key = key(entry.owner);
        let is_open = asked.open.contains(&key);
        lines.push(OwnerRow {
            label: entry.owner.label(),
            help: help(entry.owner),
            depth: 0,
            is_open: (caused_ns > 0).then_some(is_open),
            cells,
            key: key.clone(),
        });
        if is_open {
            let parts = parts(info, &owners, entry.place, &key);
            lines.extend(parts.into_iter().map(|(mut line, ns, in_softirq)| {
                line.cells = vec![Cell::empty(); columns.len()];
                for (column, is_filled) in [(0, true), (1, !in_softirq), (2, in_softirq)] {
                    if is_filled {
                        line.cells[column] = cell(ns, 0);
                    }
                }
                line
            }));
            // Which component they took is not known.
            let flows = owners.flows_of(entry.place).filter(|_| is_all);
            lines.extend(flows.enumerate().map(|(number, flow)| {
                let mut cells = vec![Cell::empty(); columns.len()];
                cells[0] = cell(flow.ns, 0);
                OwnerRow {
                    key: format!("{key}-flow-{number}"),
                    label: conversation(flow),
                    help: FLOW_HELP.to_owned(),
                    depth: 1,
                    is_open: None,
                    cells,
                }
            }));
        }
    }
    Table {
        columns,
        lines,
        zeros,
        sentence: format!(
            "In {}. A softirq's time is of whom the packets were for, whoever it interrupted.{}",
            asked.basis.phrase(name_of_whole(info, asked.component)),
            if is_all { STALLED } else { "" }
        ),
    }
}

fn conversation(flow: &OwnerFlow) -> String {
    let [one, other] = flow.ends.map(|end| end.to_string());
    match service_of(flow.protocol, flow.ends) {
        Some(service) => format!("{one} – {other} ({service})"),
        None => format!("{one} – {other}"),
    }
}

fn columns(basis: Basis, is_all: bool, has_pressure: bool, by: &str) -> Vec<Column> {
    const OF_TIME: &str = "% of the time";
    let unit = basis.unit();
    let mut headings = vec![
        ("Your own networking", unit),
        ("in tasks", unit),
        ("in softirqs", unit),
    ];
    if is_all {
        headings.push(("You made others pay", unit));
        headings.push(("Others took from you", unit));
        headings.push(("Stalled", OF_TIME));
    }
    if has_pressure {
        headings.push(("irq.pressure", OF_TIME));
    }
    let columns = COLUMNS.into_iter().zip(headings);
    let columns = columns.map(|(name, (heading, unit))| Column {
        name,
        heading,
        unit: unit.to_owned(),
        is_order: name == by,
    });
    columns.collect()
}

/// A value in its column; zero is marked as such.
pub fn amount_text(basis: Basis, amount: Amount) -> String {
    if amount.cpus > 0.0 {
        basis.aligned(basis.value(amount))
    } else {
        "0".to_owned()
    }
}

/// The emphasis of a value relative to the largest.
pub fn level(ns: u64, most: u64) -> u8 {
    match (ns, format::ratio(ns, most)) {
        (0, _) => 0,
        (_, share) if share < 0.05 => 1,
        (_, share) if share < 0.2 => 2,
        (_, share) if share < 0.45 => 3,
        (_, share) if share < 0.7 => 4,
        _ if most == 0 => 1,
        _ => MAX_LEVEL,
    }
}

/// An event of an owner: its row, nanoseconds, and the same of its parts.
type Event = (usize, u64, Vec<(usize, u64)>);

/// The events of an owner and their parts, the largest first: lines without values, nanoseconds,
/// and whether it runs in softirqs.
fn parts(info: &Info, owners: &Owners, place: usize, key: &str) -> Vec<(OwnerRow, u64, bool)> {
    let mut events: Vec<Event> = Vec::new();
    for caused in &owners.caused {
        let ns: u64 = caused.cpu_ns.iter().sum();
        if caused.owner as usize != place || ns == 0 {
            continue;
        }
        let component = caused.component as usize;
        let event = event_of(component);
        match events.iter_mut().find(|(other, ..)| *other == event) {
            Some((_, sum, parts)) => {
                *sum += ns;
                parts.push((component, ns));
            }
            None => events.push((event, ns, vec![(component, ns)])),
        }
    }
    sort_by(&mut events, |a, b| b.1.cmp(&a.1));
    let line = |component: usize, depth| {
        let described = info.components.get(component);
        OwnerRow {
            key: format!("{key}-{component}"),
            label: described.map_or_else(String::new, |described| described.label.clone()),
            help: described.map_or_else(String::new, |described| described.help.clone()),
            depth,
            is_open: None,
            cells: Vec::new(),
        }
    };
    let mut lines = Vec::new();
    for (event, ns, mut parts) in events {
        let in_softirq = is_softirq(event);
        lines.push((line(event, 1), ns, in_softirq));
        sort_by(&mut parts, |a, b| b.1.cmp(&a.1));
        let parts = parts.into_iter().filter(|(part, _)| *part != event);
        lines.extend(parts.map(|(part, ns)| (line(part, 2), ns, in_softirq)));
    }
    lines
}

/// What the button says that folds owners without time away; `None` if there is nothing to fold.
pub fn zeros_text(table: &Table, basis: Basis, are_shown: bool) -> Option<String> {
    let (zeros, nothing) = (table.zeros, basis.text(0.0));
    let text = if are_shown {
        format!("Hide {zeros} that do not differ from {nothing}")
    } else {
        format!("{zeros} more that do not differ from {nothing}")
    };
    (zeros > 1).then_some(text)
}

/// Who took most from whom.
pub fn pair(info: &Info, snapshot: &Snapshot, owners: &Owners, basis: Basis) -> String {
    let all: u64 = owners.taken.iter().map(|taken| taken.ns).sum();
    let unknown = owners.taken.iter().filter(|taken| {
        let cause = owners.owners.get(taken.cause as usize);
        cause.is_some_and(|cause| cause.kind == OwnerKind::Unknown)
    });
    let unknown: u64 = unknown.map(|taken| taken.ns).sum();
    let part = fine_percent(format::ratio(unknown, all) * 100.0);
    let Some(taken) = owners.largest_pair() else {
        return match unknown {
            0 => "No owner took softirq time from another.".to_owned(),
            _ => format!("The cause of {part} % of softirq time is unknown."),
        };
    };
    let label = |place: u32| owners.owners[place as usize].label();
    let network = info.row_of(NETWORK).and_then(|row| snapshot.total_ns(row));
    let amount = Amount::of_ns(snapshot, taken.ns, network);
    let value = basis.number(basis.value(amount));
    let much = match basis {
        Basis::Host | Basis::Parent => format!("{value} {}", basis.phrase("all networking")),
        Basis::Cpus | Basis::Milliseconds => basis.say(amount),
    };
    let unknown = match unknown {
        0 => String::new(),
        _ => format!(" The cause of {part} % of softirq time is unknown."),
    };
    format!(
        "{} took {much} from {}.{unknown}",
        label(taken.cause),
        label(taken.payer)
    )
}

/// How the owners of a component were found.
pub fn found(owners: &Owners, component: usize) -> String {
    let event = event_of(component);
    let is_all = component::index_of(NETWORK) == Some(event);
    let mut sum = OwnerBasis::default();
    let is_counted = |basis: &&OwnerBasis| is_all || basis.component as usize == event;
    for basis in owners.basis.iter().filter(is_counted) {
        sum.task_ns += basis.task_ns;
        sum.socket_ns += basis.socket_ns;
        sum.interface_ns += basis.interface_ns;
        sum.proportion_ns += basis.proportion_ns;
        sum.nothing_ns += basis.nothing_ns;
        sum.unknown_ns += basis.unknown_ns;
    }
    let ways = [
        ("by the task that ran", sum.task_ns),
        ("by the packets' socket", sum.socket_ns),
        ("by their interface", sum.interface_ns),
        ("in proportion to what owners did there", sum.proportion_ns),
        ("not at all", sum.nothing_ns),
        ("not looked for", sum.unknown_ns),
    ];
    let all: u64 = ways.iter().map(|(_, ns)| ns).sum();
    let ways = ways.iter().filter(|(_, ns)| *ns > 0).map(|(way, ns)| {
        format!(
            "{way} ({} %)",
            fine_percent(format::ratio(*ns, all) * 100.0)
        )
    });
    let ways: Vec<String> = ways.collect();
    if ways.is_empty() {
        String::new()
    } else {
        format!("Owners were found {}.", ways.join(", "))
    }
}

#[cfg(test)]
pub(super) mod tests;
