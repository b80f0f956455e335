//! Decodes bytes escaped as numbers, as in names of the kernel and systemd, and escapes unusual
//! names. Pure.

use std::fmt::Write as _;

/// Longest name shown, bytes.
pub const LONGEST_SHOWN_BYTES: usize = 256;
/// Bytes kept of the beginning of a longer one; the rest is its end, which tells more.
const BEGINNING_BYTES: usize = 96;
/// Stands for its middle.
pub const ELLIPSIS: &str = "…";

/// Decodes a text in which a byte may be written as `mark` followed by `digits` digits of this
/// radix; other text stays as it is.
pub fn unescaped(text: &[u8], mark: &[u8], digits: usize, radix: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let number = rest
            .strip_prefix(mark)
            .and_then(|rest| rest.get(..digits))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, radix).ok());
        match number {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[mark.len() + digits..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// Bytes as a text that is safe for terminals and pages: invalid bytes, control characters and
/// marks that change the text's direction become `\xff`, a backslash is doubled. Different short
/// names stay different; a long one loses its middle.
pub fn shown(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    // Positions at which the text may be cut.
    let mut ends = Vec::with_capacity(bytes.len() + 1);
    ends.push(0);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if is_confusing(c) => {
                    push_escaped(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut text, &mut ends);
                }
                c => text.push(c),
            }
            ends.push(text.len());
        }
        push_escaped(chunk.invalid(), &mut text, &mut ends);
    }
    cut(text, &ends)
}

fn push_escaped(bytes: &[u8], text: &mut String, ends: &mut Vec<usize>) {
    for byte in bytes {
        // Writing to a text cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
        ends.push(text.len());
    }
}

/// Control characters, and invisible characters that change how others look.
pub fn is_confusing(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// The text without its middle if it is too long, cut at two of these ascending positions.
fn cut(text: String, ends: &[usize]) -> String {
    if text.len() <= LONGEST_SHOWN_BYTES {
        return text;
    }
    let from = text.len() - (LONGEST_SHOWN_BYTES - BEGINNING_BYTES - ELLIPSIS.len());
    let until = ends[..ends.partition_point(|end| *end <= BEGINNING_BYTES)].last();
    let from = ends.get(ends.partition_point(|end| *end < from));
    let beginning = &text[..until.copied().unwrap_or(0)];
    let end = &text[from.copied().unwrap_or(text.len())..];
    format!("{beginning}{ELLIPSIS}{end}")
}
