//! Formats figures for a terminal. Pure.

pub use metrics_common::text::{count, percent, percent_number};

/// A number of CPUs.
pub fn cpus(count: f64) -> String {
    if count <= 0.0 {
        "0".to_owned()
    } else if count < 0.0005 {
        "<0.001".to_owned()
    } else if count < 9.995 {
        format!("{count:.3}")
    } else {
        format!("{count:.1}")
    }
}

/// Energy in a suitable unit.
pub fn energy(joules: f64) -> String {
    match joules {
        none if none <= 0.0 => "0 J".to_owned(),
        little if little < 1e3 => format!("{little:.1} J"),
        some if some < 3.6e6 => format!("{:.2} Wh", some / 3_600.0),
        much => format!("{:.2} kWh", much / 3.6e6),
    }
}

/// A count and the noun in the right number.
pub fn counted(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// Lines for a terminal: what others wrote may be among them.
pub fn plain_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(plain).collect();
    lines.join("\n")
}

/// Text of others without control characters, which could move the cursor or set colours.
pub fn plain(text: &str) -> String {
    let shown = |character: char| match character.is_control() {
        true => '\u{fffd}',
        false => character,
    };
    text.chars().map(shown).collect()
}

/// A name in at most so many columns: of a longer one the beginning.
pub fn shortened(name: &str, columns: usize) -> String {
    if name.chars().count() <= columns {
        return name.to_owned();
    }
    let cut: String = name.chars().take(columns.saturating_sub(1)).collect();
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_and_next_to_nothing_read_differently() {
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.00001), "<0.01 %");
        assert_eq!(percent(0.0012), "0.12 %");
        assert_eq!(percent(0.1234), "12.3 %");
        assert_eq!(percent(f64::NAN), "0 %");
        assert_eq!((cpus(0.0), energy(0.0)), ("0".to_owned(), "0 J".to_owned()));
        assert_eq!(cpus(0.0001), "<0.001");
        assert_eq!(cpus(12.34), "12.3");
        assert_eq!(energy(3.6e6), "1.00 kWh");
        assert_eq!(counted(1, "gap", "gaps"), "1 gap");
        assert_eq!(counted(12_345, "gap", "gaps"), "12\u{202f}345 gaps");
    }

    #[test]
    fn a_hostile_name_moves_no_cursor() {
        assert_eq!(plain("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(plain_lines("a\x1b[2J\nb\n"), "a\u{fffd}[2J\nb\n");
    }
}
