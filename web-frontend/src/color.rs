//! A colour as every view uses it. Pure.

/// For a colour that cannot be read.
const UNKNOWN_COLOR: Rgb = Rgb(0x80, 0x80, 0x80);

/// Heat maps: from 0 to the maximum, by ascending contrast to the page; distinguishable by lightness alone, so
/// that no colour blindness confuses them.
const HEAT_LIGHT: [Rgb; 7] = [
    Rgb(0xf1, 0xf4, 0xf7),
    Rgb(0xfd, 0xe3, 0xb8),
    Rgb(0xfb, 0xb8, 0x6d),
    Rgb(0xee, 0x7f, 0x43),
    Rgb(0xcb, 0x47, 0x39),
    Rgb(0x93, 0x1f, 0x4b),
    Rgb(0x43, 0x0a, 0x47),
];
const HEAT_DARK: [Rgb; 7] = [
    Rgb(0x20, 0x26, 0x2e),
    Rgb(0x45, 0x22, 0x5f),
    Rgb(0x80, 0x2c, 0x6c),
    Rgb(0xbd, 0x3e, 0x58),
    Rgb(0xec, 0x6f, 0x38),
    Rgb(0xfb, 0xb2, 0x2f),
    Rgb(0xfc, 0xff, 0xa4),
];

/// A colour, red, green and blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl Rgb {
    /// Reads `#rrggbb`; grey if it is anything else.
    pub fn parse(text: &str) -> Self {
        let channel = |from: usize| {
            let digits = text.get(from..from + 2)?;
            u8::from_str_radix(digits, 16).ok()
        };
        if text.len() != 7 || !text.starts_with('#') {
            return UNKNOWN_COLOR;
        }
        match (channel(1), channel(3), channel(5)) {
            (Some(red), Some(green), Some(blue)) => Rgb(red, green, blue),
            _ => UNKNOWN_COLOR,
        }
    }

    /// `#rrggbb`.
    pub fn css(self) -> String {
        format!("#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }

    /// Relative luminance from 0 to 1, as WCAG 2 defines it.
    pub fn luminance(self) -> f64 {
        let linear = |channel: u8| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.040_45 {
                value / 12.92
            } else {
                // To the power of 2.4: `powf` is a kilobyte of the page.
                (2.4 * ((value + 0.055) / 1.055).ln()).exp()
            }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }
}

/// The colour of a value from 0 to 1 of the scale.
pub fn heat(part: f64, dark: bool) -> Rgb {
    let stops = if dark { HEAT_DARK } else { HEAT_LIGHT };
    let at = part.clamp(0.0, 1.0) * (stops.len() - 1) as f64;
    let below = (at.floor() as usize).min(stops.len() - 2);
    let mix = |from: u8, to: u8| {
        let share = at - below as f64;
        (f64::from(from) + (f64::from(to) - f64::from(from)) * share).round() as u8
    };
    let (from, to) = (stops[below], stops[below + 1]);
    Rgb(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_read_or_grey() {
        assert_eq!(Rgb::parse("#3b6fd4"), Rgb(0x3b, 0x6f, 0xd4));
        assert_eq!(Rgb::parse("#3B6FD4").css(), "#3b6fd4");
        for odd in ["", "#", "3b6fd4f", "#3b6fd", "#gg0000", "#äää", "red\"><b>"] {
            assert_eq!(Rgb::parse(odd), UNKNOWN_COLOR, "{odd}");
        }
    }

    #[test]
    fn lightness_alone_tells_the_shares_apart() {
        for dark in [false, true] {
            let steps = (0..=20).map(|at| heat(f64::from(at) / 20.0, dark).luminance());
            let lights: Vec<f64> = steps.collect();
            let rises = lights.is_sorted_by(|a, b| a < b);
            let falls = lights.is_sorted_by(|a, b| a > b);
            assert!(if dark { rises } else { falls }, "{lights:?}");
        }
    }
}
