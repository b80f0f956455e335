//! A colour as every view uses it. Pure.

/// For a colour that cannot be read.
const UNKNOWN_COLOR: Rgb = Rgb(0x80, 0x80, 0x80);

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
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * linear(self.0) + 0.7152 * linear(self.1) + 0.0722 * linear(self.2)
    }
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
}
