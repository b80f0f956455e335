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
            "<table aria-label=\"CPU time by component and CPU\">\
             <colgroup><col class=\"name\"><col class=\"sum\" span=\"2\">",
        );
        // A table of fixed columns is not laid out anew for every digit that changes.
        let _ = write!(
            html,
            "<col class=\"cpu\" span=\"{}\"><col></colgroup><thead><tr>",
            self.cpus.len()
        );
        html.push_str(
            "\
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, MS};
    use crate::view_model::index_of;

    /// Attributes of all cells that get a value, in the order of the markup.
    fn slots(html: &str) -> Vec<String> {
        html.split("<td ")
            .filter_map(|piece| piece.split_once(" data-ns=\"\""))
            .map(|(attributes, _)| attributes.to_owned())
            .collect()
    }

    fn filled(info: &Info, snapshot: &Snapshot) -> Vec<(String, Cell)> {
        let mut tally = Tally::default();
        tally.meet(info);
        tally.add(snapshot);
        let layout = Layout::of(info, snapshot);
        let slots = slots(&layout.html(info));
        let cells = layout.cells(snapshot, &tally);
        assert_eq!(
            slots.len(),
            cells.len(),
            "a value for every cell and no more"
        );
        slots.into_iter().zip(cells).collect()
    }

    fn cell<'a>(cells: &'a [(String, Cell)], key: &str, cpu: &str) -> &'a Cell {
        let slot = format!("{key} data-cpu=\"{cpu}\"");
        let found = cells.iter().find(|(attributes, _)| *attributes == slot);
        &found.unwrap_or_else(|| panic!("no cell {slot}")).1
    }

    #[test]
    fn values_land_in_the_cells_that_name_them() {
        let cells = filled(&fixture::info(), &fixture::snapshot(1));
        let rx = "data-component=\"rx_softirq\"";
        for (cpu, text, ns) in [
            ("0", "0", 0),
            ("1", "20.0", 100),
            ("all", "20.0", 100),
            ("opened", "0.10", 100),
        ] {
            let cell = cell(&cells, rx, cpu);
            assert_eq!(cell.text, text, "CPU {cpu}");
            assert_eq!(cell.ns, Some(ns * u128::from(MS)), "CPU {cpu}");
        }
        assert_eq!(
            cell(&cells, "data-component=\"network\"", "all").text,
            "24.0"
        );
    }

    #[test]
    fn modes_are_shares_of_what_was_counted() {
        let cells = filled(&fixture::info(), &fixture::snapshot(1));
        let idle = "data-mode=\"idle\"";
        assert_eq!(cell(&cells, idle, "0").text, "80.0");
        assert_eq!(cell(&cells, idle, "1").text, "70.0");
        assert_eq!(
            cell(&cells, idle, "all").text,
            "150.0",
            "of 200 on two CPUs"
        );
        let unused = cell(&cells, "data-mode=\"steal\"", "1");
        assert_eq!((unused.text.as_str(), unused.level), ("0", 0));
    }

    #[test]
    fn an_unavailable_row_has_its_reason_and_no_value() {
        let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        fixture::take_away(&mut info, &mut snapshot, "bridging", "no <bridge> \"here\"");
        let cells = filled(&info, &snapshot);
        assert!(cells.iter().all(|(slot, _)| !slot.contains("bridging")));
        let html = Layout::of(&info, &snapshot).html(&info);
        assert!(html.contains("unavailable: no &lt;bridge&gt; &quot;here&quot;</span>"));
        assert!(!html.contains("<bridge>"));
    }

    #[test]
    fn names_and_slugs_of_a_daemon_cannot_become_markup() {
        let (mut info, snapshot) = (fixture::info(), fixture::snapshot(1));
        let evil = "<script>alert(1)</script>\" onclick=\"x";
        info.components[0].label = evil.to_owned();
        info.components[0].help = evil.to_owned();
        info.components[0].slug = evil.to_owned();
        info.components[0].color = evil.to_owned();
        let html = Layout::of(&info, &snapshot).html(&info);
        assert!(!html.contains("<script") && !html.contains("\" onclick"));
    }

    #[test]
    fn the_layout_lasts_until_cpus_or_availability_change() {
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        let layout = Layout::of(&info, &snapshot);
        assert!(layout.fits(&info, &fixture::snapshot(2)));
        snapshot.components[index_of(&info, "bridging").unwrap()] = None;
        assert!(!layout.fits(&info, &snapshot), "a row has lost its values");
        snapshot = fixture::snapshot(3);
        snapshot.cpus = vec![0, 2];
        assert!(!layout.fits(&info, &snapshot), "another CPU is online");
    }

    #[test]
    fn a_snapshot_shorter_than_its_cpus_leaves_cells_empty() {
        let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
        snapshot.components[0] = Some(vec![5 * MS]);
        snapshot.cpu_modes.truncate(1);
        let cells = filled(&info, &snapshot);
        let network = "data-component=\"network\"";
        assert_eq!(cell(&cells, network, "0").text, "1.0");
        assert_eq!(cell(&cells, network, "1").ns, None);
        assert_eq!(cell(&cells, "data-mode=\"user\"", "1").ns, None);
    }

    #[test]
    fn levels_rise_with_the_share_and_only_nothing_has_none() {
        let shares = [0.0, 0.001, 0.05, 0.2, 0.4, 0.9];
        assert_eq!(shares.map(level), [0, 1, 2, 3, 4, MAX_LEVEL]);
    }
}
