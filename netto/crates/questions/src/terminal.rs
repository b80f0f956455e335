//! Text on a terminal of some width: lines end between words.

use std::io;

/// A command of the shell, which stays whole so that it can be copied, begins like this.
const COMMAND: &str = "  try   ";
/// What is left of a line beside its first column is at least so wide.
const NARROWEST: usize = 24;

/// Columns of the terminal that standard output is; `None` if it is none.
pub fn columns() -> Option<usize> {
    let size = terminal_size::terminal_size_of(io::stdout());
    size.map(|(width, _)| usize::from(width.0))
}

/// The text with lines that end between words where those of a terminal of this width would end within
/// them. What goes on is below where its column begins.
pub fn wrapped(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns.filter(|columns| *columns >= NARROWEST) else {
        return text.to_owned();
    };
    let lines: Vec<String> = text.split('\n').map(|line| folded(line, columns)).collect();
    lines.join("\n")
}

fn folded(line: &str, columns: usize) -> String {
    let mut rest: Vec<char> = line.chars().collect();
    if rest.len() <= columns || line.starts_with(COMMAND) {
        return line.to_owned();
    }
    let indent = column(&rest, columns);
    let mut text = String::new();
    while rest.len() > columns {
        // A space at the end of the terminal's line is not seen.
        let space = rest[..=columns].iter().rposition(|c| *c == ' ');
        // A word that is longer than a line is broken, as the terminal does.
        let (end, next) = match space {
            Some(at) if at > indent => (at, at + 1),
            _ => (columns, columns),
        };
        let shown: String = rest[..end].iter().collect();
        text.push_str(shown.trim_end());
        text.push('\n');
        let begin = rest[next..].iter().position(|c| *c != ' ');
        let Some(begin) = begin else {
            return text.trim_end().to_owned();
        };
        let spaces = std::iter::repeat_n(' ', indent);
        rest = spaces.chain(rest[next + begin..].iter().copied()).collect();
    }
    text.extend(rest);
    text
}

/// Where the last column of a line begins whose first line has room for it; a column has two spaces before
/// it, or is the begin.
fn column(line: &[char], columns: usize) -> usize {
    let widest = columns - NARROWEST;
    let begins = (1..line.len()).filter(|at| {
        let before = &line[..*at];
        line[*at] != ' ' && (before.ends_with(&[' ', ' ']) || before.iter().all(|c| *c == ' '))
    });
    begins.take_while(|at| *at <= widest).last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words_and_go_on_below_their_column() {
        let text = "  send CPUs                      not measured: an fentry probe of the kernel failed\nshort";
        let shown = wrapped(text, Some(60));
        let expected = "  send CPUs                      not measured: an fentry\n\
                        \x20                                probe of the kernel failed\nshort";
        assert_eq!(shown, expected);
        assert_eq!(wrapped(text, None), text);
        let sentence = "one two three four five six seven eight";
        assert_eq!(
            wrapped(sentence, Some(24)),
            "one two three four five\nsix seven eight"
        );
        assert_eq!(
            wrapped(sentence, Some(23)),
            sentence,
            "too narrow for anything"
        );
    }

    #[test]
    fn commands_stay_whole_and_words_that_are_longer_than_a_line_are_not_lost() {
        let command = "  try   sysctl -w net.core.busy_poll=0 net.core.busy_read=0";
        assert_eq!(wrapped(command, Some(30)), command);
        let long = format!("a {} b", "x".repeat(50));
        let shown = wrapped(&long, Some(30));
        assert_eq!(shown.replace(['\n', ' '], "").len(), 52, "{shown}");
        assert!(
            shown.lines().all(|line| line.chars().count() <= 30),
            "{shown}"
        );
    }
}
