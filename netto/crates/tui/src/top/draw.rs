//! Draws a screen of the model on a terminal of any size.
//!
//! Decides what to omit on a small terminal; does not access the terminal itself.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Text, Span};
use ratatui::widgets::Paragraph;

use metrics_common::text::{cpus as cpus_text, percent_number as percent};
use netto_judges::verdict::Level;

use super::model::{Headline, Screen, Sort, SourceState};
use netto_questions::line::{Line, Value};
use netto_questions::words::utc;

/// From this width on, headlines are whole sentences; narrower ones would be cut off.
const WIDE: u16 = 80;
/// From this height on CPUs are shown, and from this width intervals.
const CPUS_FROM_HEIGHT: u16 = 16;
/// From this height on, all answers are shown, and not only the verdict.
const ANSWERS_FROM_HEIGHT: u16 = 20;
const INTERVALS_FROM_WIDTH: u16 = 70;
/// Width of names, shares, confidence intervals and CPU seconds per second.
const NAME: usize = 24;
const NARROW_NAME: usize = 16;
const SHARE: usize = 9;
const INTERVAL: usize = 15;
const WORTH: usize = 8;
/// Width of a cell in the list of CPUs.
const CPU: u16 = 26;

const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const LOUD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

/// Draws a screen.
pub fn draw(frame: &mut Frame, screen: &Screen) {
    let area = frame.area();
    let cpus_height = match area.height {
        high if high >= CPUS_FROM_HEIGHT => (high / 3).min(rows_for_cpus(screen, area.width) + 1),
        _ => 0,
    };
    let [head, body, cpus, help] = Layout::vertical([
        Constraint::Length(head_height(screen, area.height)),
        Constraint::Min(0),
        Constraint::Length(cpus_height),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(
        Paragraph::new(heading(screen, (area.width, area.height))),
        head,
    );
    if screen.shows_help {
        keys(frame, body, screen);
    } else {
        lines(frame, body, screen);
    }
    self::cpus(frame, cpus, screen);
    frame.render_widget(
        Paragraph::new(Text::styled(help_text(screen, area.width), DIM)),
        help,
    );
}

/// Lines above the components: on a low terminal, of the answers only the verdict.
fn head_height(screen: &Screen, height: u16) -> u16 {
    let answers = screen
        .headline
        .as_ref()
        .and_then(|headline| headline.answers.as_ref());
    match (answers, height >= ANSWERS_FROM_HEIGHT) {
        (None, _) => 3,
        (Some(_), false) => 4,
        (Some((_, lines)), true) => 3 + lines.len() as u16,
    }
}

/// As many hints as there is room for: those of most use stay longest.
fn help_text(screen: &Screen, width: u16) -> String {
    let breakdowns = screen.breakdowns.iter();
    let breakdowns = breakdowns.map(|(key, name)| (format!("{key} {name}"), 5));
    let hint = |(text, weight): (&str, u8)| (text.to_owned(), weight);
    let before = [("↑↓ choose", 4), ("⏎ in", 7), ("esc back", 6)].map(hint);
    let after = [
        ("s sort", 2),
        ("w window", 1),
        ("space pause", 3),
        ("? keys", 9),
        ("q quit", 10),
    ];
    let mut hints: Vec<(String, u8)> = before.into_iter().collect();
    hints.extend(breakdowns);
    hints.extend(after.map(hint));
    loop {
        let texts: Vec<&str> = hints.iter().map(|(text, _)| text.as_str()).collect();
        let line = format!(" {}", texts.join(" · "));
        if line.chars().count() <= usize::from(width) || hints.len() == 1 {
            return line;
        }
        let weights = hints.iter().map(|(_, weight)| *weight);
        let Some(least) = weights.min() else {
            return line;
        };
        hints.retain(|(_, weight)| *weight != least);
    }
}

fn heading(screen: &Screen, (width, height): (u16, u16)) -> Vec<Text<'static>> {
    let mut first = vec![Span::styled(" netto ", BOLD)];
    if let Some(badge) = screen.badge {
        first.push(Span::styled(
            format!(" {badge} "),
            Style::new().add_modifier(Modifier::REVERSED),
        ));
        first.push(Span::raw(" "));
    }
    match &screen.link {
        SourceState::Lost(_) | SourceState::Ended(_) | SourceState::Waiting
            if screen.host.is_empty() => {}
        _ => first.push(Span::raw(screen.host.clone())),
    }
    match (&screen.link, screen.is_paused) {
        (SourceState::Lost(reason), _) => {
            first.push(Span::styled(format!(" · lost: {reason}"), LOUD))
        }
        (SourceState::Ended(reason), _) => first.push(Span::styled(format!(" · {reason}"), LOUD)),
        (_, true) => first.push(Span::styled(" · paused", LOUD)),
        (SourceState::Waiting, false) => {
            first.push(Span::styled(" · waiting for an interval", DIM))
        }
        (SourceState::Live, false) => {}
    }
    let mut texts = vec![Text::from(first)];
    if let Some(headline) = &screen.headline {
        if let Some((level, lines)) = &headline.answers {
            let style = if *level == Level::Calm { BOLD } else { LOUD };
            let shown = usize::from(head_height(screen, height)) - 3;
            for (index, line) in lines.iter().take(shown).enumerate() {
                let style = if index == 0 { style } else { Style::new() };
                texts.push(Text::styled(format!(" {line}"), style));
            }
        }
        texts.push(network(headline, width));
        texts.push(own_line(headline, screen, width));
    }
    texts
}

fn network(headline: &Headline, width: u16) -> Text<'static> {
    let value = match &headline.network {
        Ok(value) => value,
        Err(reason) => return Text::styled(format!(" Networking unavailable: {reason}"), LOUD),
    };
    let bound = if headline.at_least { "at least " } else { "" };
    let mut spans = vec![
        Span::raw(format!(" Networking {bound}")),
        Span::styled(format!("{} %", percent(value.ratio)), BOLD),
    ];
    if width >= WIDE {
        spans.push(Span::raw(format!(
            " of this host's CPU: {} CPUs' worth of {}",
            cpus_text(value.cpus),
            headline.cpus
        )));
    } else {
        spans.push(Span::raw(format!(
            ", {} of {} CPUs",
            cpus_text(value.cpus),
            headline.cpus
        )));
    }
    if let Some((watts, of_capacity)) = headline.network_watts {
        spans.push(Span::raw(format!(" ≈ {watts:.1} W")));
        if width >= WIDE {
            let both = format!(" of busy power, {of_capacity:.1} W of capacity");
            spans.push(Span::raw(both));
        }
    }
    Text::from(spans)
}

fn own_line(headline: &Headline, screen: &Screen, width: u16) -> Text<'static> {
    let mut spans = Vec::new();
    let mut say = |text: String, style: Style| {
        let dot = if spans.is_empty() { " " } else { " · " };
        spans.push(Span::raw(dot));
        spans.push(Span::styled(text, style));
    };
    match (headline.own_costliest, headline.own_ratio) {
        (Some((ratio, cpu)), _) if width >= WIDE => say(
            format!("netto itself {} % of CPU {cpu}", percent(ratio)),
            DIM,
        ),
        (Some((ratio, _)), _) | (None, Some(ratio)) => {
            say(format!("netto {} %", percent(ratio)), DIM);
        }
        (None, None) => {}
    }
    match headline.stacks_lost {
        0 => say("0 lost".to_owned(), DIM),
        lost => say(format!("{lost} stacks lost"), LOUD),
    }
    if let Some((probe, ratio)) = &headline.missed {
        say(format!("{probe} missed {} %", percent(*ratio)), LOUD);
    }
    if headline.skipped > 0 {
        say(format!("{} intervals skipped", headline.skipped), LOUD);
    }
    if width >= WIDE {
        say(
            format!("over the last {:.1} s", screen.window_ns as f64 / 1e9),
            DIM,
        );
        let time = utc(screen.time_unix_ns);
        say(time.get(11..19).unwrap_or(&time).to_owned() + " UTC", DIM);
    }
    Text::from(spans)
}

/// The keys, instead of the lines.
fn keys(frame: &mut Frame, area: Rect, screen: &Screen) {
    let breakdowns = screen.breakdowns.iter();
    let breakdowns = breakdowns.map(|(key, name)| (key.to_string(), format!("{name}, and back")));
    let before = [
        ("↑ ↓, k j", "choose a line"),
        ("⏎ →", "open a component that has a +"),
        ("←, esc", "back to the whole; esc also ends netto top there"),
    ];
    let after = [
        ("s", "sort by time, or as in `netto list`"),
        ("w", "average over 5 s or a minute, or show one interval"),
        ("z", "list the lines at 0, or leave them out"),
        ("space, p", "pause, go on"),
        ("+ -", "a recording faster, slower"),
        ("?", "close this list"),
        ("q", "quit"),
    ];
    let owned = |(key, what): (&str, &str)| (key.to_owned(), what.to_owned());
    let all = before.map(owned).into_iter().chain(breakdowns);
    let mut texts = vec![Text::styled(" Keys", BOLD)];
    texts.extend(
        all.chain(after.map(owned))
            .map(|(key, what)| Text::raw(format!("  {key:<10}{what}"))),
    );
    frame.render_widget(Paragraph::new(texts), area);
}

fn lines(frame: &mut Frame, area: Rect, screen: &Screen) {
    if area.height == 0 {
        return;
    }
    let width = usize::from(area.width);
    let has_intervals = area.width >= INTERVALS_FROM_WIDTH;
    let name = if has_intervals { NAME } else { NARROW_NAME };
    let order = match screen.sort {
        Sort::Time => "",
        Sort::Table => " (in the table's order)",
    };
    let zeros = match screen.zeros {
        0 => String::new(),
        zeros => format!(", {zeros} at 0 (z)"),
    };
    let title = format!(" {}{order}{zeros}", screen.path.join(" › "));
    let head = if has_intervals {
        format!(
            "{:>SHARE$}{:>INTERVAL$}{:>WORTH$}",
            "% of host", "95 %", "CPUs"
        )
    } else {
        format!("{:>SHARE$}", "% of host")
    };
    let columns = head.chars().count();
    let bar = width.saturating_sub(name + 2 + columns);
    let room = width.saturating_sub(columns);
    let mut texts = vec![Text::styled(
        format!("{}{head}", fitted(&title, room)),
        BOLD.add_modifier(Modifier::UNDERLINED),
    )];
    let shown = usize::from(area.height) - 1;
    let chosen = screen.lines.iter().position(|line| line.is_chosen);
    let first = chosen.unwrap_or(0).saturating_sub(shown.saturating_sub(1));
    let known = screen
        .lines
        .iter()
        .filter_map(|line| line.value.as_ref().ok());
    let most = known.map(|value| value.ratio).fold(0.0, f64::max);
    for line in screen.lines.iter().skip(first).take(shown) {
        texts.push(component(line, name, bar, has_intervals, most));
    }
    frame.render_widget(Paragraph::new(texts), area);
}

fn component(
    line: &Line,
    name: usize,
    bar: usize,
    has_intervals: bool,
    most: f64,
) -> Text<'static> {
    let mark = if line.is_chosen { ">" } else { " " };
    let parts = if line.has_parts { "+" } else { " " };
    let label = fitted(&line.label, name.saturating_sub(1));
    let style = if line.is_chosen { BOLD } else { Style::new() };
    let mut spans = vec![Span::styled(format!("{mark}{parts}{label} "), style)];
    match &line.value {
        Ok(value) => {
            let filled = bar_cells(value.ratio, most, bar);
            spans.push(Span::styled("█".repeat(filled), color(line)));
            spans.push(Span::raw(" ".repeat(bar.saturating_sub(filled))));
            spans.push(Span::styled(figures(value, has_intervals), style));
        }
        Err(reason) => spans.push(Span::styled(format!("unavailable: {reason}"), DIM)),
    }
    Text::from(spans)
}

fn figures(value: &Value, has_intervals: bool) -> String {
    let share = percent(value.ratio);
    if !has_intervals {
        return format!("{share:>SHARE$}");
    }
    let interval = match value.interval_ratio {
        Some((low, high)) => format!("{}–{}", percent(low), percent(high)),
        None => String::new(),
    };
    format!(
        "{share:>SHARE$}{interval:>INTERVAL$}{:>WORTH$}",
        cpus_text(value.cpus)
    )
}

/// Number of filled cells of a bar; at least one for any value above 0.
fn bar_cells(ratio: f64, most: f64, cells: usize) -> usize {
    if ratio <= 0.0 || most <= 0.0 || !ratio.is_finite() {
        return 0;
    }
    (((ratio / most) * cells as f64).round() as usize).clamp(1.min(cells), cells)
}

fn color(line: &Line) -> Style {
    let (red, green, blue) = line.color;
    Style::new().fg(Color::Rgb(red, green, blue))
}

fn cpu_columns(width: u16) -> u16 {
    (width / CPU).max(1)
}

fn rows_for_cpus(screen: &Screen, width: u16) -> u16 {
    let cpus = u16::try_from(screen.cpus.len()).unwrap_or(u16::MAX);
    cpus.div_ceil(cpu_columns(width))
}

fn cpus(frame: &mut Frame, area: Rect, screen: &Screen) {
    if area.height == 0 || screen.cpus.is_empty() {
        return;
    }
    let columns = usize::from(cpu_columns(area.width));
    let rows = usize::from(area.height) - 1;
    let room = columns * rows;
    let left = screen.cpus.len().saturating_sub(room);
    let more = if left > 0 {
        format!(", {left} more")
    } else {
        String::new()
    };
    let title = format!(" {} by CPU, % of that CPU{more}", screen.cpus_of);
    let mut texts = vec![Text::styled(
        fitted(&title, usize::from(area.width)),
        BOLD.add_modifier(Modifier::UNDERLINED),
    )];
    for row in screen.cpus.chunks(columns).take(rows) {
        let mut spans = Vec::new();
        for line in row {
            let Ok(value) = &line.value else { continue };
            let filled = bar_cells(value.ratio, 1.0, 10);
            spans.push(Span::raw(format!(" {:<8}", line.label)));
            spans.push(Span::styled("█".repeat(filled), color(line)));
            spans.push(Span::raw(" ".repeat(10 - filled)));
            spans.push(Span::raw(format!("{:>6} ", percent(value.ratio))));
        }
        texts.push(Text::from(spans));
    }
    frame.render_widget(Paragraph::new(texts), area);
}

/// The text cut or padded to this width; a cut one ends with an ellipsis.
fn fitted(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return format!("{text:<width$}");
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests;
