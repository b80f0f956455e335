//! The table's colours as seen with colour blindness.
//!
//! Colour blindness is simulated after G. Machado, M. Oliveira and L. Fernandes
//! (2009, full severity, in linear light); how far colours look apart is measured
//! in Oklab (B. Ottosson, 2020), where 2 hundredths are just noticeable.

#![allow(clippy::unwrap_used)]

use metrics_common::COMPONENTS;
use metrics_common::component::children_of;

/// Least difference between adjacent parts of one whole, in hundredths.
const NEIGHBOURS: f64 = 8.0;
/// Least difference between any two of the four classic events.
const CLASSIC: f64 = 12.0;
/// Least difference between any two events.
const EVENTS: f64 = 4.0;

const SIGHTS: [(&str, [[f64; 3]; 3]); 4] = [
    (
        "full colour",
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    ),
    (
        "protanopia",
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
    ),
    (
        "deuteranopia",
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
    ),
    (
        "tritanopia",
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    ),
];

fn linear(color: &str) -> [f64; 3] {
    [1, 3, 5].map(|at| {
        let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.040_45 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    })
}

fn times(matrix: [[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row[0] * v[0] + row[1] * v[1] + row[2] * v[2])
}

fn oklab(rgb: [f64; 3]) -> [f64; 3] {
    let cones = times(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ],
        rgb,
    );
    times(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ],
        cones.map(|cone| cone.max(0.0).cbrt()),
    )
}

/// The smallest difference between two colours, and the kind of vision.
fn apart(a: &str, b: &str) -> (f64, &'static str) {
    let seen = |matrix, color| oklab(times(matrix, linear(color)).map(|c| c.clamp(0.0, 1.0)));
    SIGHTS
        .map(|(name, matrix)| {
            let (a, b) = (seen(matrix, a), seen(matrix, b));
            let squares = (0..3).map(|i| (a[i] - b[i]).powi(2));
            (squares.sum::<f64>().sqrt() * 100.0, name)
        })
        .into_iter()
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap()
}

#[test]
fn parts_that_touch_in_a_bar_look_apart_to_everybody() {
    for whole in COMPONENTS {
        // Other softirqs are shown in shades of grey, and never stacked.
        if whole.slug == "other_softirq" {
            continue;
        }
        let parts: Vec<usize> = children_of(whole.slug).collect();
        for pair in parts.windows(2) {
            let (a, b) = (COMPONENTS[pair[0]], COMPONENTS[pair[1]]);
            let (distance, sight) = apart(a.color, b.color);
            assert!(
                distance >= NEIGHBOURS,
                "{} {} and {} {} are {distance:.1} apart for {sight}",
                a.slug,
                a.color,
                b.slug,
                b.color
            );
        }
    }
}

#[test]
fn events_look_apart_to_everybody() {
    let classic = ["tx_syscall", "rx_syscall", "tx_softirq", "rx_softirq"];
    let events: Vec<usize> = children_of("network").collect();
    for (at, &a) in events.iter().enumerate() {
        for &b in &events[..at] {
            let (a, b) = (COMPONENTS[a], COMPONENTS[b]);
            let both = classic.contains(&a.slug) && classic.contains(&b.slug);
            let wanted = if both { CLASSIC } else { EVENTS };
            let (distance, sight) = apart(a.color, b.color);
            assert!(
                distance >= wanted,
                "{} and {}: {distance:.1} for {sight}",
                a.slug,
                b.slug
            );
        }
    }
}
