//! The table of components by CPU: its markup once per layout, its values for every snapshot. Pure;
//! the page inserts the markup into the document and the values into the cells, in the same order.
//!
//! On a host with many CPUs only visible columns exist; empty cells take the space of the others.

use std::fmt::Write as _;
use std::ops::Range;

use metrics_common::sections::{CpuModes, Modes};
use metrics_common::{Availability, Info, Snapshot};

use super::choices::Unit;
use crate::action::Action;
use crate::basis::{self, Amount, Basis};
use crate::color::Rgb;
use crate::format::{self, escape_html};
use crate::tip::{self, entry_word};
use crate::view_model::reason_missing;
use metrics_common::tree::Row;

/// Width of a CPU's column, pixels; the same as in the style sheet.
pub const CPU_COLUMN_PX: usize = 76;
/// Least width of the columns before those of the CPUs.
pub const OTHER_COLUMNS_PX: f64 = 560.0;
/// Most CPUs for which all columns exist.
const ALL_COLUMNS: usize = 24;
/// Additional columns on each side of the visible ones, for scrolling.
const SPARE_COLUMNS: usize = 3;

/// The parts of the table that determine its markup: while they are equal, only values change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    rows: Vec<Row>,
    folded: Vec<String>,
    unit: Unit,
    basis: Basis,
    /// Why a component has no values, by component.
    missing: Vec<Option<String>>,
    cpus: Vec<u32>,
    columns: Range<usize>,
}

/// The contents of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// Its text.
    pub text: String,
    /// CPU time in nanoseconds; `None` if the daemon sent none for this CPU.
    pub ns: Option<u64>,
    /// Its emphasis: 0 for zero, up to [`MAX_LEVEL`].
    pub level: u8,
}

/// The strongest level of a [`Cell`].
pub const MAX_LEVEL: u8 = 5;

impl Cell {
    fn text(text: String) -> Self {
        Cell {
            text,
            ns: None,
            level: 1,
        }
    }

    fn empty() -> Self {
        Cell {
            text: "–".to_owned(),
            ns: None,
            level: 0,
        }
    }
}

fn level(percent: f64) -> u8 {
    match percent {
        p if p <= 0.0 => 0,
        p if p < 2.0 => 1,
        p if p < 10.0 => 2,
        p if p < 25.0 => 3,
        p if p < 50.0 => 4,
        _ => MAX_LEVEL,
    }
}

/// The visible columns when this many pixels of CPUs are scrolled away (negative while other
/// columns are to the left of them), for this width of the window.
pub fn columns_in_sight(cpus: usize, scrolled_px: f64, seen_px: f64) -> Range<usize> {
    if cpus <= ALL_COLUMNS {
        return 0..cpus;
    }
    let width = CPU_COLUMN_PX as f64;
    let first = (scrolled_px.max(0.0) / width) as usize;
    let last = ((scrolled_px + seen_px).max(0.0) / width).ceil() as usize;
    let first = first.saturating_sub(SPARE_COLUMNS).min(cpus);
    first..(last + SPARE_COLUMNS).clamp(first, cpus)
}

impl Layout {
    /// The layout for this snapshot.
    pub fn of(
        info: &Info,
        snapshot: &Snapshot,
        (unit, basis): (Unit, Basis),
        folded: &[String],
        columns: Range<usize>,
    ) -> Self {
        let cpus = snapshot.cpus.clone();
        Layout {
            rows: info.tree(),
            folded: folded.to_vec(),
            unit,
            basis,
            missing: (0..info.components.len())
                .map(|index| reason_missing(info, snapshot, index).map(str::to_owned))
                .collect(),
            columns: columns.start.min(cpus.len())..columns.end.min(cpus.len()),
            cpus,
        }
    }

    /// The rows that are not collapsed.
    fn visible(&self, info: &Info) -> Vec<Row> {
        let mut shut: Option<usize> = None;
        let mut rows = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            if shut.is_some_and(|depth| row.depth > depth) {
                continue;
            }
            let slug = &info.components[row.component].slug;
            shut = (row.has_parts && self.folded.contains(slug)).then_some(row.depth);
            rows.push(*row);
        }
        rows
    }

    /// The table without values; each cell for a value has `data-cell`.
    pub fn html(&self, info: &Info) -> String {
        let mut html = String::with_capacity(1 << 15);
        let room = |columns: usize| columns * CPU_COLUMN_PX;
        // With a fixed layout, changing digits do not cause a new layout.
        let _ = write!(
            html,
            "<table aria-label=\"CPU time by component and CPU\" aria-colcount=\"{all}\">\
             <colgroup><col class=\"name\"><col class=\"sum\"><col class=\"share\">\
             <col class=\"each\"><col style=\"width:{before}px\">\
             <col class=\"cpu\" span=\"{shown}\"><col style=\"width:{after}px\"><col></colgroup>\
             <thead><tr><th scope=\"col\" class=\"name\">Component<small>of the kernel's network \
             stack</small></th><th scope=\"col\">All CPUs<small>{unit}</small></th>\
             <th scope=\"col\">95 % interval<small>of an estimate, {interval}</small></th>\
             <th scope=\"col\">Each<small>ns per entry</small></th><td class=\"room\"></td>",
            all = self.cpus.len() + 4,
            before = room(self.columns.start),
            shown = self.columns.len().max(1),
            after = room(self.cpus.len() - self.columns.end),
            unit = self.unit_text(true),
            interval = self.basis.heading(true),
        );
        for cpu in &self.cpus[self.columns.clone()] {
            let _ = write!(
                html,
                "<th scope=\"col\">CPU {cpu}<small>{}</small></th>",
                self.unit_text(false)
            );
        }
        html.push_str("<td class=\"room\"></td><td class=\"room\"></td></tr></thead><tbody>");
        for row in self.visible(info) {
            self.component_row(&mut html, info, &row);
        }
        let _ = write!(
            html,
            "</tbody><tbody class=\"modes\"><tr class=\"section\"><th scope=\"rowgroup\" \
             class=\"name\">CPU modes</th><td colspan=\"{}\">from /proc/stat, which counts in \
             ticks of 10 ms</td></tr>",
            self.columns.len() + 6
        );
        for name in CpuModes::NAMES {
            let _ = write!(html, "<tr><th scope=\"row\" class=\"name\">{name}</th>");
            self.empty_cells(&mut html, &format!("data-mode=\"{name}\""));
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table>");
        html
    }

    fn unit_text(&self, all: bool) -> &'static str {
        match (self.unit, all) {
            (Unit::Time, all) => self.basis.heading(all),
            (Unit::PerEntry, true) => "mean, ns per entry",
            (Unit::PerEntry, false) => "ns",
        }
    }

    fn component_row(&self, html: &mut String, info: &Info, row: &Row) {
        let component = &info.components[row.component];
        let slug = escape_html(&component.slug);
        let method = match &component.availability {
            Availability::Available { method } => format!(" Measured by {method}."),
            Availability::Unavailable { .. } => String::new(),
        };
        let is_open = !self.folded.contains(&component.slug);
        let fold = if row.has_parts {
            format!(
                "<button class=\"fold\"{fold} aria-expanded=\"{is_open}\" \
                 aria-label=\"parts of {}\"></button>",
                escape_html(&component.label),
                fold = Action::Fold(component.slug.clone()).attribute(),
            )
        } else {
            "<i class=\"fold\"></i>".to_owned()
        };
        let _ = write!(
            html,
            "<tr data-row=\"{slug}\" class=\"depth-{depth}{whole}\">\
             <th scope=\"row\" class=\"name\" style=\"--depth:{depth}\" title=\"{title}\">{fold}\
             <i class=\"swatch\" style=\"background:{color}\"></i>\
             <button class=\"plain\"{show}>{label}</button></th>",
            show = Action::About(component.slug.clone()).attribute(),
            depth = row.depth,
            whole = if row.has_parts { " whole" } else { "" },
            title = escape_html(&format!("{}{method}", component.help)),
            color = Rgb::parse(&component.color).css(),
            label = escape_html(&component.label),
        );
        match &self.missing[row.component] {
            Some(reason) => {
                let reason = escape_html(reason);
                let _ = write!(
                    html,
                    "<td class=\"unavailable\" colspan=\"{}\" data-component=\"{slug}\" \
                     data-unavailable=\"{reason}\" title=\"{reason}\"><span>unavailable: {reason}</span></td>",
                    self.columns.len() + 6
                );
            }
            None => self.empty_cells(html, &format!("data-component=\"{slug}\"")),
        }
        html.push_str("</tr>");
    }

    fn empty_cells(&self, html: &mut String, key: &str) {
        let _ = write!(
            html,
            "<td {key} data-cpu=\"all\" data-ns=\"\" data-cell>–</td>\
             <td class=\"share\" data-cell>–</td><td class=\"each\" data-cell>–</td>\
             <td class=\"room\"></td>"
        );
        for cpu in &self.cpus[self.columns.clone()] {
            let _ = write!(
                html,
                "<td {key} data-cpu=\"{cpu}\" data-ns=\"\" data-cell>–</td>"
            );
        }
        html.push_str("<td class=\"room\"></td><td class=\"room\"></td>");
    }

    /// The values of a snapshot of this layout, in the order of the cells in the markup.
    pub fn cells(&self, info: &Info, snapshot: &Snapshot) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(self.rows.len() * (self.columns.len() + 3));
        for row in self.visible(info) {
            let index = row.component;
            if self.missing[index].is_some() {
                continue;
            }
            let Some(values) = snapshot.cost().cpu_ns(index) else {
                continue;
            };
            let entries = snapshot.cost().entries_of(index);
            let total = snapshot.total_ns(index).unwrap_or(0);
            let all_entries = entries.map(|row| row.iter().sum::<u64>());
            let amount = Amount::of_component(info, snapshot, index)
                .unwrap_or_else(|| Amount::of_ns(snapshot, total, None));
            cells.push(self.value(total, amount, all_entries));
            let slug = &info.components[index].slug;
            let interval = tip::interval(info, snapshot, slug, self.basis);
            cells.push(interval.map_or_else(Cell::empty, Cell::text));
            cells.push(each(info, index, total, all_entries));
            let parent = basis::parent_of(info, index);
            let of_parent = parent.and_then(|parent| snapshot.cost().cpu_ns(parent));
            cells.extend(self.columns.clone().map(|column| {
                values.get(column).map_or_else(Cell::empty, |&ns| {
                    let count = entries.and_then(|row| row.get(column)).copied();
                    let parent_ns = of_parent.and_then(|row| row.get(column)).copied();
                    self.value(ns, Amount::on_one_cpu(snapshot, ns, parent_ns), count)
                })
            }));
        }
        self.mode_cells(snapshot, &mut cells);
        cells
    }

    fn value(&self, ns: u64, amount: Amount, entries: Option<u64>) -> Cell {
        let text = match self.unit {
            Unit::Time => self.basis.number(self.basis.value(amount)),
            Unit::PerEntry => match entries {
                Some(count) if count > 0 => format::count(ns / count),
                _ => "–".to_owned(),
            },
        };
        Cell {
            text,
            ns: Some(ns),
            // In any unit, the emphasis follows the share of the host.
            level: level(Basis::Host.value(amount)),
        }
    }

    /// Modes are shares of the time counted by /proc/stat, because its ticks never quite fill an
    /// interval.
    fn mode_cells(&self, snapshot: &Snapshot, cells: &mut Vec<Cell>) {
        let nothing = Modes::default();
        let modes = snapshot.sections.modes.as_ref().unwrap_or(&nothing);
        let host_ns = modes.host.total_ns();
        for (mode, &ns) in modes.host.values().iter().enumerate() {
            let share = Amount::of_share(format::ratio(ns, host_ns), self.cpus.len());
            cells.push(self.value(ns, share, None));
            cells.push(Cell::empty());
            cells.push(Cell::empty());
            cells.extend(self.columns.clone().map(|column| {
                modes.cpus.get(column).map_or_else(Cell::empty, |modes| {
                    let ns = modes.values()[mode];
                    let share = Amount::of_share(format::ratio(ns, modes.total_ns()), 1);
                    self.value(ns, share, None)
                })
            }));
        }
    }
}

/// The unit of its values.
pub fn sentence(unit: Unit, basis: Basis) -> String {
    match unit {
        Unit::Time => format!(
            "All CPUs in {}; a CPU's column in {}.",
            basis.phrase("the component above"),
            basis.phrase_of_cpu()
        ),
        Unit::PerEntry => "Nanoseconds for each call or softirq, where those are counted; \
                           intervals are of CPU time."
            .to_owned(),
    }
}

fn each(info: &Info, index: usize, ns: u64, entries: Option<u64>) -> Cell {
    match entries {
        Some(count) if count > 0 => Cell::text(format!(
            "{} / {}",
            format::count(ns / count),
            entry_word(&info.components[index].slug)
        )),
        _ => Cell::empty(),
    }
}

#[cfg(test)]
mod tests;
