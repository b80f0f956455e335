//! The table of components by CPU: its markup once per layout, its values on
//! every snapshot. Pure; the page puts the one into the document and the other
//! into the cells, in the same order.

use std::fmt::Write as _;

use metrics_common::snapshot::{Availability, CpuModes, Info, Snapshot};

use crate::format::{self, escape_html};
use crate::view_model::{Row, Tally, reason_missing, tree};

/// What the markup depends on: as long as it stays equal, only values change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    rows: Vec<Row>,
    /// Why a component has no values, by component.
    missing: Vec<Option<String>>,
    cpus: Vec<u32>,
}

/// The contents of one cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// What is read.
    pub text: String,
    /// CPU time in nanoseconds; `None` if the daemon sent none for this CPU.
    pub ns: Option<u128>,
    /// How much it should strike the eye: 0 for nothing at all, up to [`MAX_LEVEL`].
    pub level: u8,
}

/// The strongest level of a [`Cell`].
pub const MAX_LEVEL: u8 = 5;

impl Cell {
    fn empty() -> Self {
        Cell {
            text: "–".to_owned(),
            ns: None,
            level: 0,
        }
    }

    /// A share of one CPU; `of_all` is the same as a share of everything, for the level.
    fn share(ns: u64, of_one: f64, of_all: f64) -> Self {
        Cell {
            text: format::percent(of_one),
            ns: Some(u128::from(ns)),
            level: level(of_all),
        }
    }

    fn sum(ns: u128) -> Self {
        Cell {
            text: format::cpu_seconds(ns),
            ns: Some(ns),
            level: u8::from(ns > 0),
        }
    }
}

fn level(ratio: f64) -> u8 {
    match ratio {
        r if r <= 0.0 => 0,
        r if r < 0.02 => 1,
        r if r < 0.10 => 2,
        r if r < 0.25 => 3,
        r if r < 0.50 => 4,
        _ => MAX_LEVEL,
    }
}

impl Layout {
    /// The layout that this snapshot asks for.
    pub fn of(info: &Info, snapshot: &Snapshot) -> Self {
        Layout {
            rows: tree(info),
            missing: (0..info.components.len())
                .map(|index| reason_missing(info, snapshot, index).map(str::to_owned))
                .collect(),
            cpus: snapshot.cpus.clone(),
        }
    }

    /// Whether the snapshot of the same daemon fits this layout.
    pub fn fits(&self, info: &Info, snapshot: &Snapshot) -> bool {
        self.cpus == snapshot.cpus
            && self.missing.len() == info.components.len()
            && self
                .missing
                .iter()
                .enumerate()
                .all(|(index, reason)| reason.as_deref() == reason_missing(info, snapshot, index))
    }

    /// The table without values; each cell that gets one has `data-ns`.
    pub fn html(&self, info: &Info) -> String {
        let mut html = String::with_capacity(4096 + self.rows.len() * self.cpus.len() * 80);
        html.push_str(
            "<table aria-label=\"CPU time by component and CPU\"><thead><tr>\
             <th scope=\"col\" class=\"name\">Component<small>of the kernel's network stack</small></th>\
             <th scope=\"col\">All CPUs<small>sum, % of one CPU</small></th>\
             <th scope=\"col\">Since opened<small>CPU seconds</small></th>",
        );
        for cpu in &self.cpus {
            let _ = write!(html, "<th scope=\"col\">CPU {cpu}<small>%</small></th>");
        }
        html.push_str("<td class=\"fill\"></td></tr></thead><tbody>");
        for row in &self.rows {
            self.component_row(&mut html, info, row);
        }
        let _ = write!(
            html,
            "</tbody><tbody class=\"modes\"><tr class=\"section\"><th scope=\"rowgroup\" \
             class=\"name\">CPU modes</th><td colspan=\"{}\">from /proc/stat, which counts in \
             ticks of 10 ms</td></tr>",
            self.cpus.len() + 3
        );
        for name in CpuModes::NAMES {
            let _ = write!(html, "<tr><th scope=\"row\" class=\"name\">{name}</th>");
            self.empty_cells(&mut html, &format!("data-mode=\"{name}\""));
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table>");
        html
    }

    fn component_row(&self, html: &mut String, info: &Info, row: &Row) {
        let component = &info.components[row.component];
        let slug = escape_html(&component.slug);
        let method = match &component.availability {
            Availability::Available { method } => format!(" Measured by {method}."),
            Availability::Unavailable { .. } => String::new(),
        };
        let _ = write!(
            html,
            "<tr data-row=\"{slug}\" class=\"depth-{depth}{whole}\">\
             <th scope=\"row\" class=\"name\" style=\"--depth:{depth}\" title=\"{title}\">\
             <i class=\"swatch\" style=\"background:{color}\"></i>{label}</th>",
            depth = row.depth,
            whole = if row.has_parts { " whole" } else { "" },
            title = escape_html(&format!("{}{method}", component.help)),
            color = crate::bars::Rgb::parse(&component.color).css(),
            label = escape_html(&component.label),
        );
        match &self.missing[row.component] {
            Some(reason) => {
                let reason = escape_html(reason);
                let _ = write!(
                    html,
                    "<td class=\"unavailable\" colspan=\"{}\" data-component=\"{slug}\" \
                     data-unavailable=\"{reason}\" title=\"{reason}\"><span>unavailable: {reason}</span></td>",
                    self.cpus.len() + 3
                );
            }
            None => self.empty_cells(html, &format!("data-component=\"{slug}\"")),
        }
        html.push_str("</tr>");
    }

    fn empty_cells(&self, html: &mut String, key: &str) {
        for cpu in ["all", "opened"] {
            let _ = write!(html, "<td {key} data-cpu=\"{cpu}\" data-ns=\"\">–</td>");
        }
        for cpu in &self.cpus {
            let _ = write!(html, "<td {key} data-cpu=\"{cpu}\" data-ns=\"\">–</td>");
        }
        // Takes the width that few CPUs leave, so that values stay near their names.
        html.push_str("<td class=\"fill\"></td>");
    }

    /// The values of a snapshot that fits, in the order of the cells in the markup.
    pub fn cells(&self, snapshot: &Snapshot, tally: &Tally) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(self.rows.len() * (self.cpus.len() + 2));
        for row in &self.rows {
            if self.missing[row.component].is_some() {
                continue;
            }
            let Some(Some(values)) = snapshot.components.get(row.component) else {
                continue;
            };
            let total = values.iter().sum();
            cells.push(Cell::share(
                total,
                format::ratio(total, snapshot.interval_ns),
                format::ratio(total, snapshot.capacity_ns()),
            ));
            cells.push(Cell::sum(tally.component_ns(row.component)));
            cells.extend((0..self.cpus.len()).map(|column| {
                values.get(column).map_or_else(Cell::empty, |&ns| {
                    let share = format::ratio(ns, snapshot.interval_ns);
                    Cell::share(ns, share, share)
                })
            }));
        }
        self.mode_cells(snapshot, tally, &mut cells);
        cells
    }

    /// Modes are shares of what /proc/stat counted, for its ticks never quite
    /// fill an interval.
    fn mode_cells(&self, snapshot: &Snapshot, tally: &Tally, cells: &mut Vec<Cell>) {
        let host = snapshot.host_modes.values();
        let host_ns = snapshot.host_modes.total_ns();
        for (mode, &ns) in host.iter().enumerate() {
            let share = format::ratio(ns, host_ns);
            cells.push(Cell::share(ns, share * self.cpus.len() as f64, share));
            cells.push(Cell::sum(tally.mode_ns(mode)));
            cells.extend((0..self.cpus.len()).map(|column| {
                snapshot
                    .cpu_modes
                    .get(column)
                    .map_or_else(Cell::empty, |modes| {
                        let ns = modes.values()[mode];
                        let share = format::ratio(ns, modes.total_ns());
                        Cell::share(ns, share, share)
                    })
            }));
        }
    }
}
