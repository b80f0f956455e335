//! Shared by all drawings: the theme, an SVG document to draw into, and text. Knows pixels and
//! colours, but not the content.

use std::fmt;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::{DrawingArea, DrawingBackend, IntoDrawingArea, RGBColor, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, FontStyle, IntoFont, TextStyle};

use crate::color::Rgb;

/// Colours that depend on the light or dark theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    pub(crate) ink: Rgb,
    pub(crate) muted: Rgb,
    pub(crate) empty: Rgb,
    pub(crate) surface: Rgb,
}

impl Theme {
    /// For a light page.
    pub const LIGHT: Theme = Theme {
        ink: Rgb(0x1b, 0x23, 0x2c),
        muted: Rgb(0x5a, 0x66, 0x73),
        empty: Rgb(0xd5, 0xdb, 0xe2),
        surface: Rgb(0xff, 0xff, 0xff),
    };
    /// For a dark page.
    pub const DARK: Theme = Theme {
        ink: Rgb(0xe6, 0xea, 0xef),
        muted: Rgb(0x9a, 0xa5, 0xb1),
        empty: Rgb(0x33, 0x3c, 0x46),
        surface: Rgb(0x1a, 0x1f, 0x26),
    };
}

/// The drawing failed on this backend.
#[derive(Debug)]
pub struct PlotError(pub(crate) String);

impl fmt::Display for PlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot draw: {}", self.0)
    }
}

impl std::error::Error for PlotError {}

pub(crate) const FONT_PX: u32 = 12;
/// Average width of a character of the system's sans-serif font, as a share of its size.
const CHARACTER_EM: f64 = 0.58;

/// About the width of a text of [`FONT_PX`], pixels.
pub(crate) fn text_width_px(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER_EM * f64::from(FONT_PX)
}

/// The factor from plotters' font sizes to pixels of SVG.
const SVG_FONT_SCALE: f64 = 1.24;
/// An area of SVG to draw into.
pub(crate) type SvgArea<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// The error of drawing into it.
type SvgError<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

/// Draws into an SVG document of this size in pixels.
pub(crate) fn document(
    size: (u32, u32),
    draw: impl for<'a> FnOnce(&SvgArea<'a>) -> Result<(), SvgError<'a>>,
) -> Result<String, PlotError> {
    let mut document = String::new();
    let area = SVGBackend::with_string(&mut document, size).into_drawing_area();
    draw(&area).map_err(|error| PlotError(error.to_string()))?;
    drop(area);
    Ok(document)
}

pub(crate) fn rgb(color: Rgb) -> RGBColor {
    RGBColor(color.0, color.1, color.2)
}

/// Black or white, whichever is more readable on this colour.
pub(crate) fn ink_on(background: Rgb) -> Rgb {
    // At this luminance both have the same contrast by WCAG's formula.
    if background.luminance() > 0.179 {
        Rgb(0, 0, 0)
    } else {
        Rgb(0xff, 0xff, 0xff)
    }
}

pub(crate) fn text_style(
    px: u32,
    style: FontStyle,
    color: Rgb,
    anchor: HPos,
) -> TextStyle<'static> {
    let size = f64::from(px) * SVG_FONT_SCALE;
    TextStyle {
        font: (FontFamily::SansSerif, size).into_font().style(style),
        color: rgb(color).to_backend_color(),
        pos: Pos::new(anchor, VPos::Center),
    }
}
