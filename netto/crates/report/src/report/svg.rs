//! A picture of the share of the host over time, with stacked parts. Uses a plotting library;
//! `offline::summary` computes the data.

use jiff::tz::TimeZone;
use plotters::drawing::IntoDrawingArea;
use plotters::element::{PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{DrawingArea, SVGBackend};
use plotters::style::{BLACK, Color, IntoFont, RGBColor, TextStyle, WHITE};

use netto_offline::summary::{Step, Strip, Summary, Timeline};
use netto_questions::figures::{percent, plain};
use netto_questions::times::{length, shown, shown_time};

const SIZE: (u32, u32) = (1_000, 420);
const LEFT: i32 = 70;
const RIGHT: i32 = 740;
const TOP: i32 = 64;
const BOTTOM: i32 = 370;
/// Steps of a picture: two points each.
const STEPS: usize = 335;
/// Parts with a colour of their own; the rest is *other*.
const PARTS: usize = 8;
const OTHER: RGBColor = RGBColor(0xb0, 0xb0, 0xb0);
/// Ticks on the time axis.
const MARKS: u64 = 5;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// The picture.
///
/// # Errors
/// If it cannot be drawn.
pub(super) fn text(summary: &Summary, strip: Strip, zone: &TimeZone) -> anyhow::Result<String> {
    let mut picture = String::new();
    {
        let area = SVGBackend::with_string(&mut picture, SIZE).into_drawing_area();
        draw(&area, summary, strip, zone)
            .and_then(|()| area.present().map_err(|error| error.to_string()))
            .map_err(|error| anyhow::anyhow!("cannot draw the picture: {error}"))?;
    }
    Ok(picture)
}

/// A band: its name, its colour, and its CPU time in a step.
struct Band {
    name: String,
    color: RGBColor,
    parts: Vec<usize>,
}

impl Band {
    fn ns(&self, step: &Step) -> u64 {
        let part = |&part: &usize| step.parts_ns.get(part).copied().unwrap_or(0);
        self.parts.iter().map(part).fold(0, u64::saturating_add)
    }
}

fn draw(area: &Area<'_>, summary: &Summary, strip: Strip, zone: &TimeZone) -> Result<(), String> {
    let timeline = strip.timeline.at_most(STEPS);
    let bands = bands(&strip.parts, &timeline, &strip.label);
    let most = timeline
        .steps()
        .map(|(_, step)| step.share_ratio(step.subject_ns))
        .fold(0.0, f64::max);
    let scale = Scale {
        from: summary.covered.from_unix_ns,
        to: summary
            .covered
            .to_unix_ns
            .max(summary.covered.from_unix_ns + 1),
        most: ceiling(most),
    };
    let small = TextStyle::from(("sans-serif", 13).into_font());
    let large = TextStyle::from(("sans-serif", 18).into_font());
    let put = |words: &str, at: (i32, i32), style: &TextStyle<'_>| {
        area.draw(&Text::new(plain(words), at, style.clone()))
            .map_err(|error| error.to_string())
    };
    area.fill(&WHITE).map_err(|error| error.to_string())?;
    let title = format!(
        "{}: share of the CPUs of {}",
        strip.label, summary.host.hostname
    );
    put(&title, (LEFT, 12), &large)?;
    let demonstration = if summary.host.is_demonstration {
        "Demonstration, made up · "
    } else {
        ""
    };
    let subtitle = format!(
        "{demonstration}{} to {} · a step is {}",
        shown(scale.from, zone),
        shown(scale.to, zone),
        length(timeline.step_ns())
    );
    put(&subtitle, (LEFT, 36), &small)?;
    for tenth in 0..=4 {
        let share = scale.most * f64::from(tenth) / 4.0;
        let y = scale.y(share);
        let line = PathElement::new(vec![(LEFT, y), (RIGHT, y)], BLACK.mix(0.15));
        area.draw(&line).map_err(|error| error.to_string())?;
        put(&percent(share), (12, y - 7), &small)?;
    }
    for mark in 0..MARKS {
        let time = scale.from + (scale.to - scale.from) / (MARKS - 1) * mark;
        put(
            &shown_time(time, zone),
            (scale.x(time) - 24, BOTTOM + 10),
            &small,
        )?;
    }
    for run in runs(&timeline) {
        let mut below = vec![0_u64; run.len()];
        for band in &bands {
            let base = below.clone();
            for (sum, (_, step)) in below.iter_mut().zip(&run) {
                *sum = sum.saturating_add(band.ns(step));
            }
            if base == below {
                continue;
            }
            let edge = |heights: &[u64]| -> Vec<(i32, i32)> {
                let points = run.iter().zip(heights).flat_map(|((at, step), ns)| {
                    let y = scale.y(step.share_ratio(*ns));
                    let end = at.saturating_add(timeline.step_ns());
                    [(scale.x(*at), y), (scale.x(end), y)]
                });
                points.collect()
            };
            let mut outline = edge(&below);
            outline.extend(edge(&base).into_iter().rev());
            let polygon = Polygon::new(outline, band.color.filled());
            area.draw(&polygon).map_err(|error| error.to_string())?;
        }
    }
    for (index, band) in bands.iter().rev().enumerate() {
        let y = TOP + 22 * index as i32;
        let mark = Rectangle::new([(RIGHT + 24, y), (RIGHT + 36, y + 12)], band.color.filled());
        area.draw(&mark).map_err(|error| error.to_string())?;
        put(&band.name, (RIGHT + 44, y), &small)?;
    }
    Ok(())
}

/// The largest parts in the order of the table, and the rest as one.
fn bands(parts: &[(String, String)], timeline: &Timeline, whole: &str) -> Vec<Band> {
    let sum = |part: usize| {
        let steps = timeline
            .steps()
            .map(|(_, step)| step.parts_ns.get(part).copied());
        steps.flatten().fold(0_u64, u64::saturating_add)
    };
    let mut order: Vec<(u64, usize)> = (0..parts.len()).map(|part| (sum(part), part)).collect();
    order.retain(|(ns, _)| *ns > 0);
    order.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
    let rest: Vec<usize> = order.iter().skip(PARTS).map(|(_, part)| *part).collect();
    let mut kept: Vec<usize> = order.iter().take(PARTS).map(|(_, part)| *part).collect();
    kept.sort_unstable();
    let mut bands: Vec<Band> = kept
        .into_iter()
        .map(|part| Band {
            name: parts[part].0.clone(),
            color: color(&parts[part].1),
            parts: vec![part],
        })
        .collect();
    if !rest.is_empty() {
        bands.push(Band {
            name: format!("other of {whole}"),
            color: OTHER,
            parts: rest,
        });
    }
    bands
}

/// Sequences of steps without gaps.
fn runs(timeline: &Timeline) -> Vec<Vec<(u64, &Step)>> {
    let mut runs: Vec<Vec<(u64, &Step)>> = Vec::new();
    for (at, step) in timeline.steps() {
        match runs.last_mut() {
            Some(run)
                if run
                    .last()
                    .is_some_and(|(last, _)| at.saturating_sub(*last) <= timeline.step_ns()) =>
            {
                run.push((at, step));
            }
            _ => runs.push(vec![(at, step)]),
        }
    }
    runs
}

struct Scale {
    from: u64,
    to: u64,
    most: f64,
}

impl Scale {
    fn x(&self, time: u64) -> i32 {
        let share = time.clamp(self.from, self.to).saturating_sub(self.from) as f64
            / (self.to - self.from) as f64;
        LEFT + (share * f64::from(RIGHT - LEFT)).round() as i32
    }

    fn y(&self, share: f64) -> i32 {
        let height = (share / self.most).clamp(0.0, 1.0);
        BOTTOM - (height * f64::from(BOTTOM - TOP)).round() as i32
    }
}

/// The next larger share that can be read off in quarters.
fn ceiling(most: f64) -> f64 {
    let steps = [
        0.0004, 0.002, 0.004, 0.01, 0.02, 0.04, 0.1, 0.2, 0.4, 0.6, 0.8,
    ];
    steps.into_iter().find(|step| *step >= most).unwrap_or(1.0)
}

fn color(text: &str) -> RGBColor {
    let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6);
    match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
        Some(rgb) => RGBColor((rgb >> 16) as u8, (rgb >> 8) as u8, rgb as u8),
        None => OTHER,
    }
}
