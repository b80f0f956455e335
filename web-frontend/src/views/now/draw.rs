//! Draws the three linked bars on any plotters backend: SVG in the browser, a mock in the tests.
//! Knows pixels and colours, but not the source of values.

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::element::{PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{DrawingArea, DrawingBackend};
use plotters::style::text_anchor::HPos;
use plotters::style::{Color, FontStyle};

use super::model::{Bar, Bracket, Segment};
use crate::color::Rgb;
use crate::plot::{FONT_PX, PlotError, Theme, document, ink_on, rgb, text_style, text_width_px};

/// Space above the bars for a title, and for a subtitle.
const TITLE_PX: i32 = 20;
const HEAD_PX: i32 = 42;
/// Lower segments carry no text.
const LABEL_MIN_PX: i32 = 15;

/// The bars as an SVG document of this size in pixels.
///
/// # Errors
/// Only if plotters' SVG backend fails, which writes to memory.
pub fn svg(bars: &[Bar; 3], theme: Theme, size: (u32, u32)) -> Result<String, PlotError> {
    document(size, |area| draw(area, bars, theme))
}

/// Draws the bars into an area of any size.
///
/// # Errors
/// Those of the backend.
pub fn draw<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    bars: &[Bar; 3],
    theme: Theme,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let (width, height) = area.dim_in_pixel();
    let head = head_of(bars, width as i32);
    let frames = frames(width as i32, height as i32, head);
    for (pair, left) in frames.windows(2).zip(bars) {
        if let Some(opened) = left.opened {
            draw_link(area, &pair[0], &pair[1], opened, theme)?;
        }
    }
    for (bar, frame) in bars.iter().zip(&frames) {
        draw_bar(area, bar, frame, theme)?;
    }
    for (pair, bar) in frames.windows(2).zip(&bars[1..]) {
        if let Some(bracket) = &bar.bracket {
            draw_bracket(area, bracket, pair[1], pair[1].left - pair[0].right, theme)?;
        }
    }
    area.present()
}

/// The segment at a position in a drawing of this size: the numbers of the bar and of the segment.
pub fn hit(bars: &[Bar; 3], size: (u32, u32), (x, y): (f64, f64)) -> Option<(usize, usize)> {
    let (width, height) = (size.0 as i32, size.1 as i32);
    let frames = frames(width, height, head_of(bars, width));
    let (x, y) = (x as i32, y as i32);
    let bar = frames.iter().position(|f| (f.left..f.right).contains(&x))?;
    let mut below = 0.0;
    let segment = bars[bar].segments.iter().position(|segment| {
        let (bottom, top) = (frames[bar].y(below), frames[bar].y(below + segment.ratio));
        below += segment.ratio;
        (top..bottom).contains(&y)
    })?;
    Some((bar, segment))
}

fn head_of(bars: &[Bar; 3], width: i32) -> i32 {
    let column = width / 3 - 8;
    if bars.iter().all(|bar| fits(&bar.subtitle, column)) {
        HEAD_PX
    } else {
        TITLE_PX
    }
}

/// Position of a bar, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
}

impl Frame {
    /// The height of a ratio from the bottom.
    fn y(&self, ratio: f64) -> i32 {
        let height = f64::from(self.bottom - self.top);
        self.bottom - (height * ratio.clamp(0.0, 1.0)).round() as i32
    }

    fn width(&self) -> i32 {
        self.right - self.left
    }
}

/// The first bar stands at the left edge and the last one at the right.
fn frames(width: i32, height: i32, head: i32) -> [Frame; 3] {
    let bar = (width * 22 / 100).clamp(40, 230).min(width / 3);
    let place = |left: i32| Frame {
        left,
        right: left + bar,
        top: head,
        bottom: (height - 2).max(head + 1),
    };
    [
        place(0),
        place((width - bar) / 2),
        place((width - bar - 1).max(0)),
    ]
}

/// Draws the link from a part of one bar to the next bar, which expands it.
fn draw_link<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    from: &Frame,
    to: &Frame,
    (low, high): (f64, f64),
    theme: Theme,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let upper = [(from.right, from.y(high)), (to.left, to.top)];
    let lower = [(from.right, from.y(low)), (to.left, to.bottom)];
    let wedge = vec![upper[0], upper[1], lower[1], lower[0]];
    area.draw(&Polygon::new(wedge, rgb(theme.muted).mix(0.10).filled()))?;
    for line in [upper, lower] {
        area.draw(&PathElement::new(
            line.to_vec(),
            rgb(theme.muted).mix(0.6).stroke_width(1),
        ))?;
    }
    Ok(())
}

/// Draws the bracket of a bar's lowest segments at its left, where there are so many pixels to the next bar.
fn draw_bracket<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    bracket: &Bracket,
    frame: Frame,
    room_px: i32,
    theme: Theme,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let (top, bottom) = (frame.y(bracket.ratio), frame.bottom);
    let (near, far) = (frame.left - 4, frame.left - 9);
    if room_px < 14 || bottom <= top {
        return Ok(());
    }
    let shape = vec![(near, top), (far, top), (far, bottom), (near, bottom)];
    area.draw(&PathElement::new(shape, rgb(theme.ink).stroke_width(2)))?;
    let full = format!("{} {}", bracket.label, bracket.text);
    // Bold is wider.
    let room = (room_px - 18) * 9 / 10;
    let Some(text) = [&full, &bracket.text]
        .into_iter()
        .find(|text| fits(text, room))
    else {
        return Ok(());
    };
    let style = text_style(FONT_PX, FontStyle::Bold, theme.ink, HPos::Right);
    let middle = ((top + bottom) / 2).min(bottom - FONT_PX as i32 / 2);
    area.draw(&Text::new(text.as_str(), (far - 5, middle), style))
}

fn draw_bar<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    bar: &Bar,
    frame: &Frame,
    theme: Theme,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    let corners = [(frame.left, frame.top), (frame.right, frame.bottom)];
    area.draw(&Rectangle::new(corners, rgb(theme.surface).filled()))?;
    let mut below = 0.0;
    for segment in &bar.segments {
        let (bottom, top) = (frame.y(below), frame.y(below + segment.ratio));
        below += segment.ratio;
        if top < bottom {
            let corners = [(frame.left, top), (frame.right, bottom)];
            let color = paint(segment, bar.faint, theme);
            area.draw(&Rectangle::new(corners, rgb(color).filled()))?;
            // A line in the page's colour separates similar neighbours.
            if bottom - top > 3 && top > frame.top {
                let edge = vec![(frame.left, top), (frame.right, top)];
                area.draw(&PathElement::new(edge, rgb(theme.surface).stroke_width(1)))?;
            }
            let label = (segment.label.as_str(), bar.text(segment));
            draw_label(area, label, frame, (top, bottom), ink_on(color))?;
        }
    }
    area.draw(&Rectangle::new(corners, rgb(theme.empty).stroke_width(1)))?;

    // Titles stay within the drawing at both edges.
    let (width, _) = area.dim_in_pixel();
    let (x, anchor) = if frame.left == 0 {
        (0, HPos::Left)
    } else if frame.right >= width as i32 - 1 {
        (frame.right, HPos::Right)
    } else {
        ((frame.left + frame.right) / 2, HPos::Center)
    };
    let title = text_style(FONT_PX + 1, FontStyle::Bold, theme.ink, anchor);
    area.draw(&Text::new(bar.title.as_str(), (x, 8), title))?;
    if frame.top >= HEAD_PX {
        let subtitle = text_style(FONT_PX - 1, FontStyle::Normal, theme.muted, anchor);
        area.draw(&Text::new(bar.subtitle.as_str(), (x, 26), subtitle))?;
    }
    Ok(())
}

/// Writes as much text as fits into a segment: name and share, the share alone, or nothing.
fn draw_label<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    (name, share): (&str, String),
    frame: &Frame,
    (top, bottom): (i32, i32),
    ink: Rgb,
) -> Result<(), DrawingAreaErrorKind<DB::ErrorType>> {
    if bottom - top < LABEL_MIN_PX {
        return Ok(());
    }
    let full = format!("{name} {share}");
    let label = if fits(&full, frame.width() - 8) {
        full
    } else if fits(&share, frame.width() - 4) {
        share
    } else {
        return Ok(());
    };
    let middle = ((frame.left + frame.right) / 2, (top + bottom) / 2);
    let style = text_style(FONT_PX, FontStyle::Normal, ink, HPos::Center);
    area.draw(&Text::new(label, middle, style))
}

fn fits(text: &str, width_px: i32) -> bool {
    text_width_px(text) <= f64::from(width_px)
}

/// The colour of a segment; pale in a faint bar.
fn paint(segment: &Segment, faint: bool, theme: Theme) -> Rgb {
    let color = segment.color.unwrap_or(theme.empty);
    if !faint {
        return color;
    }
    let mix = |channel: u8, ground: u8| ((u16::from(channel) + 3 * u16::from(ground)) / 4) as u8;
    Rgb(
        mix(color.0, theme.surface.0),
        mix(color.1, theme.surface.1),
        mix(color.2, theme.surface.2),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::Basis;
    use crate::fixture;
    use crate::views::now::model::bars;

    fn drawn(size: (u32, u32)) -> String {
        let bars = bars(
            &fixture::info(),
            &fixture::snapshot(1),
            "rx_softirq",
            Basis::Host,
        );
        svg(&bars, Theme::LIGHT, size).unwrap()
    }

    /// The value of an attribute in each element of this name, as a number.
    fn numbers(svg: &str, element: &str, attribute: &str) -> Vec<i32> {
        svg.split(&format!("<{element} "))
            .skip(1)
            .filter_map(|piece| {
                piece
                    .split_once('>')?
                    .0
                    .split_once(&format!("{attribute}=\""))
            })
            .filter_map(|(_, rest)| rest.split('"').next()?.parse().ok())
            .collect()
    }

    /// Heights of the rectangles of this colour.
    fn heights(svg: &str, color: &str) -> Vec<i32> {
        svg.split("<rect ")
            .skip(1)
            .filter(|piece| piece.contains(&format!("fill=\"{color}\"")))
            .flat_map(|piece| numbers(&format!("<rect {piece}"), "rect", "height"))
            .collect()
    }

    fn color_of(slug: &str) -> String {
        let index = metrics_common::component::index_of(slug).unwrap();
        fixture::info().components[index].color.to_uppercase()
    }

    #[test]
    fn heights_are_in_proportion_to_the_ratios() {
        let svg = drawn((1200, 344));
        // 300 pixels of bar below the titles: RX softirq is half of the kernel,
        // local delivery three quarters of RX softirq, driver poll the rest.
        assert_eq!(heights(&svg, &color_of("rx_softirq")), [150]);
        assert_eq!(heights(&svg, &color_of("local_delivery_v4")), [225]);
        assert_eq!(heights(&svg, &color_of("driver_poll")), [75]);
        assert_eq!(heights(&svg, &color_of("tx_syscall")), [30]);
        assert_eq!(
            heights(&svg, &color_of("rx_syscall")),
            Vec::<i32>::new(),
            "0 draws nothing"
        );
    }

    #[test]
    fn a_pointer_finds_the_segment_under_it() {
        let bars = bars(
            &fixture::info(),
            &fixture::snapshot(1),
            "rx_softirq",
            Basis::Host,
        );
        let found = |x, y| {
            let (bar, segment) = hit(&bars, (1200, 344), (x, y))?;
            Some(bars[bar].segments[segment].key.as_str())
        };
        assert_eq!(found(1190.0, 300.0), Some("driver_poll"));
        assert_eq!(found(1190.0, 100.0), Some("local_delivery_v4"));
        assert_eq!(found(10.0, 50.0), Some("idle"));
        assert_eq!(found(300.0, 200.0), None, "between two bars");
        assert_eq!(found(10.0, 10.0), None, "above them");
    }

    #[test]
    fn a_bracket_says_how_much_of_the_kernel_is_networking_in_all() {
        let wide = drawn((1200, 344));
        assert!(wide.contains("Networking 12.0 %"), "{wide}");
        let narrow = drawn((320, 280));
        assert!(!narrow.contains("Networking 12.0 %"));
    }

    #[test]
    fn wide_bars_carry_names_and_narrow_ones_only_shares() {
        let wide = drawn((1200, 344));
        assert!(wide.contains("Local delivery v4 7.5 %") && wide.contains("of this host"));
        let narrow = drawn((320, 280));
        assert!(narrow.contains("7.5 %") && !narrow.contains("Local delivery v4"));
        assert!(!narrow.contains("of this host"), "no room for subtitles");
        assert!(narrow.contains("RX softirq"), "the titles stay");
    }

    #[test]
    fn nothing_leaves_the_drawing_whatever_its_size() {
        for (width, height) in [(240, 120), (320, 280), (1200, 344), (4000, 340), (7, 7)] {
            let svg = drawn((width, height));
            for (attribute, limit) in [("x", width), ("y", height)] {
                for value in numbers(&svg, "rect", attribute) {
                    assert!(
                        (0..=limit.max(50) as i32).contains(&value),
                        "{attribute} {value}"
                    );
                }
            }
            assert!(numbers(&svg, "rect", "height").iter().all(|&h| h >= 0));
            assert!(numbers(&svg, "rect", "width").iter().all(|&w| w >= 0));
        }
    }

    #[test]
    fn both_links_are_drawn_and_none_without_a_stretch_to_unfold() {
        let mut bars = bars(
            &fixture::info(),
            &fixture::snapshot(1),
            "rx_softirq",
            Basis::Host,
        );
        let links = |bars: &[Bar; 3]| {
            let svg = svg(bars, Theme::DARK, (1200, 344)).unwrap();
            (svg.matches("<polygon").count(), svg)
        };
        assert_eq!(links(&bars).0, 2);
        bars[1].opened = None;
        assert_eq!(links(&bars).0, 1);
    }

    #[test]
    fn text_in_a_bar_keeps_a_readable_contrast_on_every_colour() {
        let contrast = |a: f64, b: f64| (a.max(b) + 0.05) / (a.min(b) + 0.05);
        for component in fixture::info().components {
            for faint in [false, true] {
                for theme in [Theme::LIGHT, Theme::DARK] {
                    let mut bars = bars(
                        &fixture::info(),
                        &fixture::snapshot(1),
                        "rx_softirq",
                        Basis::Host,
                    );
                    let mut segment = bars[0].segments.remove(0);
                    segment.color = Some(Rgb::parse(&component.color));
                    let ground = paint(&segment, faint, theme);
                    let found = contrast(ground.luminance(), ink_on(ground).luminance());
                    assert!(found >= 4.5, "{}: {found}", component.slug);
                }
            }
        }
    }

    #[test]
    fn labels_cannot_become_markup() {
        let mut info = fixture::info();
        for component in &mut info.components {
            component.label = "</text><script>".to_owned();
        }
        let bars = bars(&info, &fixture::snapshot(1), "rx_softirq", Basis::Host);
        let svg = svg(&bars, Theme::LIGHT, (1200, 344)).unwrap();
        assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;"));
    }
}
