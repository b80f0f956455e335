//! Formats figures for a terminal, and text that others wrote so that no terminal obeys it. Pure.

use std::borrow::Cow;
use std::fmt::Write as _;

pub use metrics_common::text::{count, percent, percent_number, shortened};

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

/// Whether a terminal may obey this character instead of showing it: control characters, which move
/// the cursor or set colours, and marks that change the direction of text or are invisible.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Text of others without what a terminal would obey.
pub fn plain(text: &str) -> String {
    let shown = |character: char| {
        if is_hidden(character) {
            '\u{fffd}'
        } else {
            character
        }
    };
    text.chars().map(shown).collect()
}

/// A name of others as the value of a label: what a terminal would obey stands as `\u{1b}`, and names
/// that differ stay different. A line's end stays: formats of labels have their own way to write it.
pub fn visible(name: &str) -> Cow<'_, str> {
    const ESCAPE: &str = "\\u{";
    let is_obeyed = |character| is_hidden(character) && character != '\n';
    if !name.contains(is_obeyed) && !name.contains(ESCAPE) {
        return Cow::Borrowed(name);
    }
    let mut text = String::with_capacity(2 * name.len());
    for (at, character) in name.char_indices() {
        if is_obeyed(character) || name[at..].starts_with(ESCAPE) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{ESCAPE}{:x}}}", u32::from(character));
        } else {
            text.push(character);
        }
    }
    Cow::Owned(text)
}

/// JSON of the same meaning in which a terminal obeys nothing. Outside of strings, JSON has none of
/// these characters but line ends.
pub fn visible_json(json: Vec<u8>) -> Vec<u8> {
    let is_usual = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
    if json.iter().all(is_usual) {
        return json;
    }
    let Ok(text) = str::from_utf8(&json) else {
        return json;
    };
    let mut visible = Vec::with_capacity(json.len());
    for character in text.chars() {
        if is_hidden(character) && character != '\n' {
            for unit in character.encode_utf16(&mut [0; 2]) {
                visible.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
            }
        } else {
            visible.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    visible
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What tells a terminal to clear the screen, ends a line, turns text around, and hides.
    const HOSTILE: [&str; 5] = [
        "\u{1b}[2J",
        "a\u{9b}2Jb",
        "a\u{202e}b",
        "\u{e0041}\u{200b}",
        "a\nb\u{7f}",
    ];

    #[test]
    fn no_terminal_obeys_what_others_wrote() {
        for text in HOSTILE {
            assert!(!plain(text).contains(is_hidden), "{text:?}");
            assert!(
                !visible(text).replace('\n', "").contains(is_hidden),
                "{text:?}"
            );
            let json = serde_json::to_vec(text).unwrap();
            let shown = String::from_utf8(visible_json(json)).unwrap();
            assert!(!shown.contains(is_hidden), "{text:?}");
            let meant: String = serde_json::from_str(&shown).unwrap();
            assert_eq!(meant, text);
        }
        assert_eq!(visible("\u{1b}[2J"), "\\u{1b}[2J");
        for usual in ["eth0", "Straße 7", "日本", "dev-disk-by\\x2dlabel"] {
            assert_eq!(
                (visible(usual), plain(usual)),
                (usual.into(), usual.to_owned())
            );
        }
    }

    #[test]
    fn names_that_differ_stay_different() {
        let names = ["\u{1b}", "\\u{1b}", "\\u{5c}u{1b}", "\\\\u{1b}"];
        let labels: std::collections::BTreeSet<_> = names.map(visible).into();
        assert_eq!(labels.len(), names.len(), "{labels:?}");
    }

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
