//! Draws what each step costs against the number of CPUs, both in powers of ten and two.

use std::path::Path;

use anyhow::Context;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{Circle, PathElement, Text};
use plotters::prelude::{DrawingArea, SVGBackend};
use plotters::style::{BLACK, Color, IntoFont, RGBColor, TextStyle, WHITE};

use super::{CPUS, Figure};

const SIZE: (u32, u32) = (960, 520);
const LEFT: i32 = 80;
const RIGHT: i32 = 660;
const TOP: i32 = 50;
const BOTTOM: i32 = 460;
/// Microseconds, powers of ten.
const LEAST: i32 = 0;
const MOST: i32 = 6;
const COLORS: [RGBColor; 6] = [
    RGBColor(0x1b, 0x6c, 0xa8),
    RGBColor(0xd9, 0x5f, 0x02),
    RGBColor(0x1b, 0x9e, 0x77),
    RGBColor(0x75, 0x70, 0xb3),
    RGBColor(0xa6, 0x76, 0x1d),
    RGBColor(0xe7, 0x29, 0x8a),
];

/// Draws the figures, with the slope of each step beside its name.
///
/// # Errors
/// If the file cannot be written.
pub fn draw(path: &Path, figures: &[Figure], slopes: &[(&str, f64)]) -> anyhow::Result<()> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    on(&area, figures, slopes)
        .and_then(|()| area.present().map_err(|error| error.to_string()))
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("cannot draw {}", path.display()))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn on(area: &Area<'_>, figures: &[Figure], slopes: &[(&str, f64)]) -> Result<(), String> {
    let small = TextStyle::from(("sans-serif", 14).into_font());
    let large = TextStyle::from(("sans-serif", 18).into_font());
    let line = |points: Vec<(i32, i32)>, style: plotters::style::ShapeStyle| {
        area.draw(&PathElement::new(points, style))
            .map_err(|error| error.to_string())
    };
    area.fill(&WHITE).map_err(|error| error.to_string())?;
    text(
        area,
        "What an interval costs netto, by number of CPUs".to_owned(),
        (LEFT, 12),
        &large,
    )?;
    for exponent in LEAST..=MOST {
        let y = height(10_f64.powi(exponent));
        line(vec![(LEFT, y), (RIGHT, y)], BLACK.mix(0.15).into())?;
        let words = match exponent {
            0..3 => format!("{} µs", 10_u32.pow(exponent as u32)),
            3..6 => format!("{} ms", 10_u32.pow(exponent as u32 - 3)),
            _ => format!("{} s", 10_u32.pow(exponent as u32 - 6)),
        };
        text(area, words, (LEFT - 62, y - 8), &small)?;
    }
    for cpus in CPUS {
        let x = place(cpus);
        line(vec![(x, TOP), (x, BOTTOM)], BLACK.mix(0.15).into())?;
        text(area, cpus.to_string(), (x - 8, BOTTOM + 8), &small)?;
    }
    text(area, "CPUs".to_owned(), (RIGHT + 12, BOTTOM + 8), &small)?;
    for ((step, slope_us), color) in slopes.iter().zip(COLORS) {
        let own = figures.iter().filter(|figure| figure.step == *step);
        let points: Vec<(i32, i32)> = own
            .map(|figure| (place(figure.cpus), height(figure.us[0])))
            .collect();
        for &point in &points {
            area.draw(&Circle::new(point, 3, color.filled()))
                .map_err(|error| error.to_string())?;
        }
        let end = points.last().copied().unwrap_or((RIGHT, BOTTOM));
        line(points, color.stroke_width(2))?;
        let words = format!("{step}: {slope_us:.2} µs for each further CPU");
        text(area, words, (end.0 + 12, end.1 - 8), &small.color(&color))?;
    }
    Ok(())
}

fn text(
    area: &Area<'_>,
    words: String,
    at: (i32, i32),
    style: &TextStyle<'_>,
) -> Result<(), String> {
    area.draw(&Text::new(words, at, style.clone()))
        .map_err(|error| error.to_string())
}

fn place(cpus: u32) -> i32 {
    let most = f64::from(CPUS[CPUS.len() - 1]).log2();
    LEFT + (f64::from(cpus).log2() / most * f64::from(RIGHT - LEFT)).round() as i32
}

fn height(us: f64) -> i32 {
    let share = (us.max(1.0).log10() - f64::from(LEAST)) / f64::from(MOST - LEAST);
    BOTTOM - (share * f64::from(BOTTOM - TOP)).round() as i32
}
