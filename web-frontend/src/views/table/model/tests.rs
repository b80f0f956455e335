//! The table for given messages.

use super::*;
use crate::fixture::{self, MS};

const HOST: (Unit, Basis) = (Unit::Time, Basis::Host);

fn layout(info: &Info, snapshot: &Snapshot) -> Layout {
    Layout::of(info, snapshot, HOST, &[], 0..snapshot.cpus.len())
}

/// Attributes of all cells for values, in the order of the markup.
fn places(html: &str) -> Vec<String> {
    html.split("<td ")
        .filter_map(|piece| piece.split_once(" data-cell>"))
        .map(|(attributes, _)| attributes.replace(" data-ns=\"\"", ""))
        .collect()
}

fn filled(layout: &Layout, info: &Info, snapshot: &Snapshot) -> Vec<(String, Cell)> {
    let places = places(&layout.html(info));
    let cells = layout.cells(info, snapshot);
    assert_eq!(
        places.len(),
        cells.len(),
        "a value for every cell and no more"
    );
    places.into_iter().zip(cells).collect()
}

fn cell<'a>(cells: &'a [(String, Cell)], key: &str, cpu: &str) -> &'a Cell {
    let place = format!("{key} data-cpu=\"{cpu}\"");
    let found = cells.iter().find(|(attributes, _)| *attributes == place);
    &found.unwrap_or_else(|| panic!("no cell {place}")).1
}

/// The cells of share and of each entry that follow the sum of a row.
fn beside<'a>(cells: &'a [(String, Cell)], key: &str) -> [&'a str; 2] {
    let place = format!("{key} data-cpu=\"all\"");
    let at = cells
        .iter()
        .position(|(attributes, _)| *attributes == place)
        .unwrap();
    [&cells[at + 1].1.text, &cells[at + 2].1.text]
}

#[test]
fn values_land_in_the_cells_that_name_them() {
    let (info, snapshot) = (fixture::info(), fixture::snapshot(1));
    let cells = filled(&layout(&info, &snapshot), &info, &snapshot);
    let rx = "data-component=\"rx_softirq\"";
    for (cpu, text, ns) in [("0", "0", 0), ("1", "20.0", 100), ("all", "10.0", 100)] {
        let cell = cell(&cells, rx, cpu);
        assert_eq!(cell.text, text, "CPU {cpu}");
        assert_eq!(cell.ns, Some(ns * MS), "CPU {cpu}");
    }
    assert_eq!(
        cell(&cells, "data-component=\"network\"", "all").text,
        "12.0"
    );
}

#[test]
fn estimates_say_how_sure_they_are() {
    let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    let rx = info.row_of("rx_softirq").unwrap();
    fixture::cost(&mut snapshot).entries[rx] = Some(vec![0, 5_000]);
    let cells = filled(&layout(&info, &snapshot), &info, &snapshot);
    let shares = |slug: &str| beside(&cells, &format!("data-component=\"{slug}\""));
    assert_eq!(shares("network"), ["–", "–"]);
    assert_eq!(shares("rx_softirq"), ["–", "20\u{202f}000 / softirq"]);
    assert_eq!(shares("driver_poll"), ["1.7–3.5 %", "–"]);
    let layout = Layout::of(&info, &snapshot, (Unit::Time, Basis::Parent), &[], 0..2);
    let cells = filled(&layout, &info, &snapshot);
    let poll = "data-component=\"driver_poll\"";
    assert_eq!(beside(&cells, poll)[0], "17.1–34.8 %");
}

#[test]
fn unit_and_basis_change_the_text_and_never_the_value() {
    let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    let rx = info.row_of("rx_softirq").unwrap();
    fixture::cost(&mut snapshot).entries[rx] = Some(vec![0, 5_000]);
    for (unit, basis, texts) in [
        (Unit::Time, Basis::Host, ["10.0", "20.0", "0"]),
        (Unit::Time, Basis::Parent, ["83.3", "100.0", "0"]),
        (Unit::Time, Basis::Cpus, ["0.20", "0.20", "0"]),
        (Unit::Time, Basis::Milliseconds, ["200.0", "200.0", "0"]),
        (
            Unit::PerEntry,
            Basis::Host,
            ["20\u{202f}000", "20\u{202f}000", "–"],
        ),
    ] {
        let layout = Layout::of(&info, &snapshot, (unit, basis), &[], 0..2);
        let cells = filled(&layout, &info, &snapshot);
        let rx = "data-component=\"rx_softirq\"";
        assert_eq!(
            ["all", "1", "0"].map(|cpu| cell(&cells, rx, cpu).text.as_str()),
            texts
        );
        assert_eq!(cell(&cells, rx, "1").ns, Some(100 * MS));
    }
}

#[test]
fn modes_are_shares_of_what_was_counted() {
    let (info, snapshot) = (fixture::info(), fixture::snapshot(1));
    let cells = filled(&layout(&info, &snapshot), &info, &snapshot);
    let idle = "data-mode=\"idle\"";
    assert_eq!(cell(&cells, idle, "0").text, "80.0");
    assert_eq!(cell(&cells, idle, "1").text, "70.0");
    assert_eq!(cell(&cells, idle, "all").text, "75.0");
    let unused = cell(&cells, "data-mode=\"steal\"", "1");
    assert_eq!((unused.text.as_str(), unused.level), ("0", 0));
}

#[test]
fn parts_can_be_folded_away() {
    let (info, snapshot) = (fixture::info(), fixture::snapshot(1));
    let folded = ["rx_softirq".to_owned()];
    let layout = Layout::of(&info, &snapshot, HOST, &folded, 0..2);
    let html = layout.html(&info);
    let has = |slug: &str| html.contains(&format!("data-row=\"{slug}\""));
    assert!(has("rx_softirq") && !has("gro") && !has("rx_unattributed"));
    assert!(has("io_worker") && has("softirq_rcu"), "what follows stays");
    assert!(html.contains("data-act=\"fold:rx_softirq\" aria-expanded=\"false\""));
    assert!(html.contains("data-act=\"fold:network\" aria-expanded=\"true\""));
    filled(&layout, &info, &snapshot);
}

#[test]
fn only_columns_in_sight_are_there_and_the_rest_is_room() {
    assert_eq!(columns_in_sight(24, 0.0, 100.0), 0..24);
    assert_eq!(columns_in_sight(128, 0.0, 760.0), 0..13);
    assert_eq!(columns_in_sight(128, 76.0 * 50.0, 760.0), 47..63);
    assert_eq!(columns_in_sight(128, -560.0, 760.0), 0..6);
    assert_eq!(columns_in_sight(128, 1e9, 760.0), 128..128);
    let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    snapshot.cpus = (0..128).collect();
    fixture::cost(&mut snapshot).components = vec![Some(vec![MS; 128]); info.components.len()];
    let layout = Layout::of(&info, &snapshot, HOST, &[], 47..63);
    let cells = filled(&layout, &info, &snapshot);
    assert_eq!(cell(&cells, "data-component=\"gro\"", "47").ns, Some(MS));
    assert_eq!(
        cell(&cells, "data-component=\"gro\"", "all").ns,
        Some(128 * MS)
    );
    let html = layout.html(&info);
    assert!(html.contains("width:3572px") && html.contains("width:4940px"));
    assert!(!html.contains("CPU 46<") && !html.contains("CPU 63<"));
}

#[test]
fn an_unavailable_row_has_its_reason_and_no_value() {
    let (mut info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    fixture::take_away(&mut info, &mut snapshot, "bridging", "no <bridge> \"here\"");
    let layout = layout(&info, &snapshot);
    let cells = filled(&layout, &info, &snapshot);
    assert!(cells.iter().all(|(place, _)| !place.contains("bridging")));
    let html = layout.html(&info);
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
    let html = layout(&info, &snapshot).html(&info);
    assert!(!html.contains("<script") && !html.contains("\" onclick"));
}

#[test]
fn the_layout_lasts_until_cpus_or_availability_change() {
    let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    let first = layout(&info, &snapshot);
    assert_eq!(first, layout(&info, &fixture::snapshot(2)));
    fixture::cost(&mut snapshot).components[info.row_of("bridging").unwrap()] = None;
    assert_ne!(first, layout(&info, &snapshot), "a row has lost its values");
    snapshot = fixture::snapshot(3);
    snapshot.cpus = vec![0, 2];
    assert_ne!(first, layout(&info, &snapshot), "another CPU is online");
}

#[test]
fn a_snapshot_shorter_than_its_cpus_leaves_cells_empty() {
    let (info, mut snapshot) = (fixture::info(), fixture::snapshot(1));
    fixture::cost(&mut snapshot).components[0] = Some(vec![5 * MS]);
    fixture::modes(&mut snapshot).cpus.truncate(1);
    let cells = filled(&layout(&info, &snapshot), &info, &snapshot);
    let network = "data-component=\"network\"";
    assert_eq!(cell(&cells, network, "0").text, "1.0");
    assert_eq!(cell(&cells, network, "1").ns, None);
    assert_eq!(cell(&cells, "data-mode=\"user\"", "1").ns, None);
}

#[test]
fn levels_rise_with_the_share_and_only_nothing_has_none() {
    let shares = [0.0, 0.1, 5.0, 20.0, 40.0, 90.0];
    assert_eq!(shares.map(level), [0, 1, 2, 3, 4, MAX_LEVEL]);
}
