//! Drawings of areas, on any backend.

use super::*;
use crate::timeline::{Frame, Mark};

const FRAME: Frame = Frame {
    from_ms: 0.0,
    step_ms: 1_000.0,
    steps: 10,
};

fn layer(key: &str, color: Rgb, values: Vec<Option<f64>>) -> Layer {
    Layer {
        key: key.to_owned(),
        label: key.to_owned(),
        color,
        // Of one CPU, in per cent.
        cpus: values.into_iter().map(|v| Some(v? / 100.0)).collect(),
        values: Vec::new(),
    }
}

fn chart(layers: Vec<Layer>) -> Chart {
    let whole = (1.0, vec![Some(1.0); 10]);
    Chart::new(
        FRAME,
        layers,
        Basis::Host,
        whole,
        String::new(),
        Times::default(),
    )
}

fn two() -> Chart {
    let low = layer("low", Rgb(0, 0, 255), vec![Some(10.0); 10]);
    let high = layer("high", Rgb(255, 0, 0), vec![Some(20.0); 10]);
    chart(vec![low, high])
}

/// The points of each polygon.
fn polygons(svg: &str) -> Vec<Vec<(i32, i32)>> {
    svg.split("<polygon ")
        .skip(1)
        .map(|piece| {
            let (_, rest) = piece.split_once("points=\"").unwrap();
            let points = rest.split('"').next().unwrap();
            points
                .split_whitespace()
                .map(|point| {
                    let (x, y) = point.split_once(',').unwrap();
                    (x.parse().unwrap(), y.parse().unwrap())
                })
                .collect()
        })
        .collect()
}

#[test]
fn layers_stand_on_each_other_in_proportion() {
    let chart = two();
    assert_eq!(chart.top, 40.0);
    // 174 pixels for the values, 0 at the bottom and 40 % at the top.
    let svg = svg(&chart, Theme::LIGHT, (448, 200)).unwrap();
    let plot = PlotArea::of((448, 200));
    let found = polygons(&svg);
    assert_eq!(found.len(), 2);
    let heights = |points: &[(i32, i32)]| {
        let ys = points.iter().map(|p| p.1);
        (ys.clone().min().unwrap(), ys.max().unwrap())
    };
    let quarter = (plot.bottom - plot.top) / 4;
    let (low_top, low_bottom) = heights(&found[0]);
    let (high_top, high_bottom) = heights(&found[1]);
    assert_eq!(low_bottom, plot.bottom);
    assert!((plot.bottom - low_top - quarter).abs() <= 1, "{low_top}");
    assert_eq!(high_bottom, low_top);
    assert!((low_top - high_top - 2 * quarter).abs() <= 1, "{high_top}");
    for (x, _) in found.concat() {
        assert!((plot.left..=plot.right).contains(&x));
    }
    assert_eq!(
        found[0].len(),
        4,
        "a level stretch needs no points between its ends"
    );
}

#[test]
fn a_gap_is_left_open_and_nothing_is_drawn_of_nothing() {
    let mut values = vec![Some(5.0); 10];
    values[4] = None;
    values[5] = None;
    let nothing = values.iter().map(|value| value.map(|_| 0.0)).collect();
    let none = layer("none", Rgb(4, 5, 6), nothing);
    let gap = layer("gap", Rgb(1, 2, 3), values);
    let svg = svg(&chart(vec![gap.clone(), none]), Theme::DARK, (600, 160));
    let found = polygons(&svg.unwrap());
    assert_eq!(found.len(), 2, "one on each side of the gap");
    let (left, right) = (&found[0], &found[1]);
    let end = left.iter().map(|p| p.0).max();
    assert!(end < right.iter().map(|p| p.0).min());
}

#[test]
fn the_axis_ends_at_a_round_value_above_the_highest() {
    for (value, top) in [
        (0.0, 0.01),
        (0.7, 0.8),
        (9.4, 10.0),
        (9.9, 15.0),
        (61.0, 80.0),
        (100.0, 150.0),
    ] {
        let found = round_up(value);
        assert!((found - top).abs() < top * 1e-9, "{value}: {found}");
    }
    for (value, top, basis, text) in [
        (2.5, 10.0, Basis::Host, "2.5 %"),
        (0.02, 0.08, Basis::Parent, "0.02 %"),
        (30.0, 40.0, Basis::Host, "30 %"),
        (0.0, 40.0, Basis::Host, "0"),
        (0.5, 2.0, Basis::Cpus, "0.5"),
        (500.0, 2_000.0, Basis::Milliseconds, "500"),
    ] {
        assert_eq!(value_label(value, top, basis), text);
    }
}

#[test]
fn the_whole_is_the_end_of_an_axis_in_per_cent() {
    let full = chart(vec![layer("full", Rgb(0, 0, 0), vec![Some(100.0); 10])]);
    assert_eq!(full.top, 100.0);
    let over = chart(vec![layer("over", Rgb(0, 0, 0), vec![Some(110.0); 10])]);
    assert_eq!(over.top, 150.0);
}

#[test]
fn the_grid_has_round_labels() {
    for top in [
        0.01, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 80.0, 100.0, 150.0,
    ] {
        for height in [80, 160] {
            let step = top / f64::from(lines_below(top, PlotArea::of((600, height))));
            let digits = step / 10_f64.powf(step.log10().floor()) * 10.0;
            let is_round = (digits - digits.round()).abs() < 1e-6;
            assert!(is_round, "{top}: every {step}");
        }
    }
}

#[test]
fn a_pixel_and_its_moment_belong_together() {
    let plot = PlotArea::of((600, 160));
    for ms in [0.0, 2_500.0, 10_000.0] {
        let x = plot.x_of(&FRAME, ms);
        assert!((plot.ms_at(&FRAME, x) - ms).abs() < 1e-6);
    }
    assert_eq!(plot.ms_at(&FRAME, -50.0), 0.0);
    assert_eq!(plot.ms_at(&FRAME, 5_000.0), 10_000.0);
}

#[test]
fn any_size_is_drawn() {
    for size in [(1, 1), (120, 60), (4_000, 200)] {
        assert!(svg(&two(), Theme::LIGHT, size).is_ok());
    }
    let empty = chart(Vec::new());
    assert!(svg(&empty, Theme::LIGHT, (300, 100)).is_ok());
}

#[test]
fn a_marked_span_is_barred_above_the_plot_at_its_times_and_one_elsewhere_is_not() {
    let marked = |from_ms: f64, to_ms: f64| {
        let mut chart = two();
        let label = "TCP segments sent again".to_owned();
        chart.times.marks = vec![Mark {
            label,
            from_ms,
            to_ms,
        }];
        svg(&chart, Theme::LIGHT, (448, 200)).unwrap()
    };
    // The plot is 400 pixels wide, from pixel 44 on.
    let bars = |svg: &str| -> Vec<String> {
        let bars = svg.split("<rect ").filter(|rect| rect.contains("#D9482B"));
        let bars = bars.filter(|rect| rect.contains("opacity=\"1\""));
        bars.map(str::to_owned).collect()
    };
    let [bar] = &bars(&marked(2_000.0, 5_000.0))[..] else {
        panic!("one bar");
    };
    assert!(
        bar.contains("x=\"124\"") && bar.contains("width=\"120\""),
        "{bar}"
    );
    let [open] = &bars(&marked(8_000.0, f64::INFINITY))[..] else {
        panic!("one bar");
    };
    assert!(
        open.contains("x=\"364\"") && open.contains("width=\"80\""),
        "{open}"
    );
    assert_eq!(bars(&marked(20_000.0, 30_000.0)), [""; 0]);
    // It says what it is.
    let labels = |svg: String| svg.matches("TCP segments sent again").count();
    assert_eq!(labels(marked(2_000.0, 5_000.0)), 1);
    assert_eq!(labels(marked(20_000.0, 30_000.0)), 0);
}

#[test]
fn a_pointer_finds_the_layer_that_it_is_in() {
    let chart = two();
    let key = |step, value| {
        let layer = chart.layer_at(step, value)?;
        Some(layer.key.as_str())
    };
    let [lower, upper] = &chart.layers[..] else {
        panic!("two layers");
    };
    let step = (0..chart.frame.steps)
        .find(|step| chart.sum_at(*step).is_some_and(|sum| sum > 0.0))
        .unwrap();
    let (first, sum) = (lower.value_at(step).unwrap(), chart.sum_at(step).unwrap());
    assert!(0.0 < first && first < sum, "both have time");
    assert_eq!(key(step, 0.5 * first), Some(lower.key.as_str()));
    assert_eq!(key(step, 0.5 * (first + sum)), Some(upper.key.as_str()));
    assert_eq!(key(step, 1.01 * sum), None, "above all of them");
    assert_eq!(key(step, -1.0), None);
}

#[test]
fn a_wide_interval_is_a_haze_above_what_is_below_its_layer() {
    let bounds = vec![Some((0.05, 0.3)); 10];
    let of = |layer| two().with_band(layer, "high", &bounds).band.unwrap().edges[0];
    assert_eq!(of(Some("high")), Some((15.0, 40.0)));
    assert_eq!(of(Some("low")), Some((5.0, 30.0)));
    assert_eq!(of(None), Some((5.0, 30.0)), "of all together");
    let narrow = vec![Some((0.19, 0.21)); 10];
    assert_eq!(two().with_band(None, "all", &narrow).band, None);

    let mut gap = bounds.clone();
    gap[4] = None;
    let chart = two().with_band(Some("high"), "high", &gap);
    let svg = svg(&chart, Theme::LIGHT, (448, 200)).unwrap();
    // Two layers, and a haze on both sides of the gap.
    assert_eq!(polygons(&svg).len(), 4);
    assert_eq!(svg.matches("opacity=\"0.22\"").count(), 2);
}
