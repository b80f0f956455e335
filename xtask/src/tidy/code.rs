//! Tells Rust's and C's code apart from comments and strings, line by line.
//!
//! No parser: just enough of a lexer that a rule about code does not trip over
//! a comment that explains it. Pure.

/// The text with some of its parts blanked out; every line keeps its place.
#[derive(Debug)]
pub struct Views {
    /// Neither comments nor what stands inside string literals.
    pub code: String,
    /// String literals only, between their quotes (raw ones without).
    pub strings: String,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Code,
    LineComment,
    BlockComment(usize),
    Text { hashes: Option<usize> },
}

/// Splits a Rust or C text.
pub fn views(text: &str) -> Views {
    let chars: Vec<char> = text.chars().collect();
    let mut views = Views {
        code: String::with_capacity(text.len()),
        strings: String::with_capacity(text.len()),
    };
    let mut state = State::Code;
    let mut at = 0;
    while at < chars.len() {
        let (next, length, shown) = step(state, &chars, at);
        for &c in &chars[at..at + length] {
            let blank = if c == '\n' { '\n' } else { ' ' };
            views
                .code
                .push(if shown == Shown::Code { c } else { blank });
            views
                .strings
                .push(if shown == Shown::Text { c } else { blank });
        }
        state = next;
        at += length;
    }
    views
}

#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Code,
    Text,
    Nowhere,
}

/// What follows at `at`: the next state, how many characters belong together, and where they show.
fn step(state: State, chars: &[char], at: usize) -> (State, usize, Shown) {
    let c = chars[at];
    let next = chars.get(at + 1).copied();
    match state {
        State::Code => match (c, next) {
            ('/', Some('/')) => (State::LineComment, 2, Shown::Nowhere),
            ('/', Some('*')) => (State::BlockComment(1), 2, Shown::Nowhere),
            ('"', _) => (State::Text { hashes: None }, 1, Shown::Text),
            ('r', Some('"' | '#')) if !follows_word(chars, at) => raw_string(chars, at),
            ('\'', _) => (State::Code, character(chars, at), Shown::Code),
            _ => (State::Code, 1, Shown::Code),
        },
        State::LineComment if c == '\n' => (State::Code, 1, Shown::Nowhere),
        State::LineComment => (state, 1, Shown::Nowhere),
        State::BlockComment(depth) => match (c, next) {
            ('*', Some('/')) if depth == 1 => (State::Code, 2, Shown::Nowhere),
            ('*', Some('/')) => (State::BlockComment(depth - 1), 2, Shown::Nowhere),
            ('/', Some('*')) => (State::BlockComment(depth + 1), 2, Shown::Nowhere),
            _ => (state, 1, Shown::Nowhere),
        },
        State::Text { hashes: None } => match (c, next) {
            ('\\', Some(_)) => (state, 2, Shown::Text),
            ('"', _) => (State::Code, 1, Shown::Text),
            _ => (state, 1, Shown::Text),
        },
        State::Text {
            hashes: Some(count),
        } => {
            let closes =
                c == '"' && chars[at + 1..].iter().take_while(|&&h| h == '#').count() >= count;
            if closes {
                (State::Code, 1 + count, Shown::Nowhere)
            } else {
                (state, 1, Shown::Text)
            }
        }
    }
}

/// Whether the character belongs to a word that began before it; the `b` of
/// `br"…"` is none.
fn follows_word(chars: &[char], at: usize) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    match at.checked_sub(1) {
        Some(before) if chars[before] == 'b' => follows_word(chars, before),
        Some(before) => is_part(chars[before]),
        None => false,
    }
}

/// `r"`, `r#"`…: a raw string; or `r#name`, which is code.
fn raw_string(chars: &[char], at: usize) -> (State, usize, Shown) {
    let hashes = chars[at + 1..].iter().take_while(|&&h| h == '#').count();
    if chars.get(at + 1 + hashes) == Some(&'"') {
        (
            State::Text {
                hashes: Some(hashes),
            },
            hashes + 2,
            Shown::Nowhere,
        )
    } else {
        (State::Code, 1, Shown::Code)
    }
}

/// Length of a character literal, or 1 for the quote of a lifetime.
fn character(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), Some(_)) => chars[at + 3..]
            .iter()
            .take(10)
            .position(|&c| c == '\'')
            .map_or(1, |end| end + 4),
        (Some(_), Some('\'')) => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        views(text).code
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        let text = "a // unsafe\nb /* unsafe /* x */ unsafe */ c \"unsafe \\\" unsafe\" d";
        let code = code(text);
        assert!(!code.contains("unsafe"), "{code}");
        for word in ["a", "b", "c", "d"] {
            assert!(code.contains(word), "{word} in {code}");
        }
    }

    #[test]
    fn raw_strings_end_where_they_end() {
        let code = code("x(r#\"unsafe \" \"# , r\"\\\", br\"unsafe\") unsafe");
        assert_eq!(code.matches("unsafe").count(), 1, "{code}");
        assert!(code.ends_with("unsafe"));
    }

    #[test]
    fn a_quote_character_opens_no_string_and_a_lifetime_no_character() {
        assert!(code("let q = '\"'; unsafe").contains("unsafe"));
        assert!(code("fn f<'a>(x: &'a str) { unsafe }").contains("unsafe"));
        assert!(code("let q = '\\''; unsafe").contains("unsafe"));
    }

    #[test]
    fn lines_keep_their_numbers() {
        let text = "a\n/* b\n c */ d\n\"e\nf\" g\n";
        assert_eq!(code(text).lines().count(), text.lines().count());
        assert!(code(text).lines().nth(4).unwrap().contains('g'));
    }

    #[test]
    fn strings_are_seen_between_their_quotes() {
        assert_eq!(
            views("open(\"/proc/stat\") // \"/sys\"").strings.trim(),
            "\"/proc/stat\""
        );
    }
}
