//! Content of the terminal, cell by cell, at usual and extreme sizes.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::top::model::{Key, Model};
use netto_demo::{Demo, Settings, demo};
use netto_feature::instruments::Feature;
use netto_pipeline::trace_analyzer::SnapshotSource;

const FEATURES: &[Feature] = &[
    netto_modes::FEATURE,
    netto_cost::FEATURE,
    netto_power::FEATURE,
    netto_traffic::FEATURE,
    netto_drops::FEATURE,
    netto_own::FEATURE,
];

fn model(cpus: u32) -> Model {
    let Demo {
        info, mut source, ..
    } = demo(Settings {
        cpus,
        seed: 3,
        period: Duration::from_millis(500),
        frequency_hz: 1000,
        features: FEATURES,
        without: &[],
    });
    let mut model = Model::default();
    model.meet(info);
    for _ in 0..12 {
        model.receive(&source.next_snapshot().unwrap());
    }
    model
}

fn rows(screen: &Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, screen)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect();
    (0..height).map(row).collect()
}

#[test]
fn a_usual_terminal_has_everything() {
    let screen = model(4).screen();
    let rows = rows(&screen, 80, 24);
    let headline = screen.headline.as_ref().unwrap();
    let network = headline.network.as_ref().unwrap();
    assert!(
        rows[0].contains("DEMO") && rows[0].contains("demo-4"),
        "{rows:#?}"
    );
    assert!(
        rows[4].contains(&format!("{} %", percent(network.ratio))),
        "{rows:#?}"
    );
    assert!(rows[4].contains("CPUs' worth of 4"), "{rows:#?}");
    let (_, answers) = headline.answers.as_ref().unwrap();
    for (answer, row) in answers.iter().zip(&rows[1..]) {
        let shown: String = answer.chars().take(70).collect();
        assert!(row.contains(&shown), "{answer}: {rows:#?}");
    }
    assert!(
        rows[5].contains("netto itself") && rows[5].contains("over the last 5.0 s"),
        "{rows:#?}"
    );
    for (line, row) in screen.lines.iter().zip(&rows[7..20]) {
        let name: String = line.label.chars().take(15).collect();
        assert!(row.contains(&name), "{name}: {rows:#?}");
        if let Ok(value) = &line.value {
            assert!(row.contains(&percent(value.ratio)), "{name}: {rows:#?}");
            assert_eq!(row.contains('█'), value.ns > 0, "{name}: {rows:#?}");
            if let Some((low, high)) = value.interval_ratio {
                let interval = format!("{}–{}", percent(low), percent(high));
                assert!(row.contains(&interval), "{interval}: {rows:#?}");
            }
        }
    }
    assert!(rows.iter().any(|row| row.contains("by CPU")), "{rows:#?}");
    assert!((0..4).all(|cpu| rows.iter().any(|row| row.contains(&format!("CPU {cpu}")))));
    assert!(rows[23].contains("q quit"), "{rows:#?}");
}

#[test]
fn a_small_terminal_keeps_the_figures_and_the_way_out() {
    let screen = model(64).screen();
    let rows = rows(&screen, 40, 10);
    let network = screen.headline.as_ref().unwrap().network.clone().unwrap();
    assert!(
        rows[2].contains(&format!("{} %", percent(network.ratio))),
        "{rows:#?}"
    );
    let first = screen.lines[0].value.as_ref().unwrap();
    assert!(
        rows[5].trim_end().ends_with(&percent(first.ratio)),
        "{rows:#?}"
    );
    assert!(rows[9].contains("q quit"), "{rows:#?}");
    assert!(rows.iter().all(|row| row.chars().count() == 40));
}

#[test]
fn the_chosen_line_is_in_sight() {
    let mut model = model(4);
    (0..100).for_each(|_| model.press(Key::Down));
    let screen = model.screen();
    assert!(screen.lines.len() > 5, "more lines than there is room for");
    let rows = rows(&screen, 80, 9);
    assert!(rows[7].starts_with('>'), "{rows:#?}");
}

#[test]
fn a_question_mark_shows_every_key_and_the_next_one_the_lines() {
    let mut model = model(4);
    model.press(Key::Help);
    let shown = rows(&model.screen(), 80, 24).join("\n");
    for key in ["↑ ↓", "⏎", "←", "s ", "w ", "z ", "space", "+ -", "?", "q "] {
        assert!(shown.contains(&format!("\n  {key}")), "{key}: {shown}");
    }
    assert!(model.close() && !model.close());
    let shown = rows(&model.screen(), 80, 24).join("\n");
    assert!(
        !shown.contains("Keys") && shown.contains("? keys"),
        "{shown}"
    );
}

#[test]
fn hints_fit_and_the_keys_and_the_way_out_stay_longest() {
    let mut screen = model(4).screen();
    screen.breakdowns = vec![('o', "owners"), ('c', "caused and paid")];
    for width in 10..140 {
        let hints = help_text(&screen, width);
        assert!(hints.ends_with("q quit"), "{hints}");
        assert!(
            hints.chars().count() <= usize::from(width),
            "{width}: {hints}"
        );
    }
    let at_80 = help_text(&screen, 80);
    for part in ["⏎ in", "esc back", "o owners", "↑↓ choose", "? keys"] {
        assert!(at_80.contains(part), "{at_80}");
    }
    assert!(help_text(&screen, 140).contains("w window"));
}

#[test]
fn what_is_lost_is_said_on_a_terminal_of_any_use() {
    let mut model = model(4);
    model.set_link(SourceState::Lost("the daemon said goodbye".to_owned()));
    let rows = rows(&model.screen(), 80, 24);
    assert!(
        rows[0].contains("lost: the daemon said goodbye"),
        "{rows:#?}"
    );
}

#[test]
fn no_size_is_too_small_or_too_large() {
    let empty = Model::default().screen();
    let (mut deep, wide) = (model(2), model(64));
    deep.press(Key::In);
    for screen in [empty, deep.screen(), wide.screen()] {
        for (width, height) in [
            (1, 1),
            (2, 3),
            (5, 40),
            (200, 1),
            (80, 4),
            (17, 17),
            (300, 90),
        ] {
            assert_eq!(rows(&screen, width, height).len(), usize::from(height));
        }
    }
}
