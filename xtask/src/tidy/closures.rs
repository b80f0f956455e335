//! What closures call the thing that they take. Pure: a path and tokens in, findings out.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

use super::{Finding, is_mark};

/// Names that say nothing of the thing.
const NAMELESS: &[&str] = &["own", "it"];
/// Words before a closure.
const BEFORE: &[&str] = &["move", "return", "else", "in", "break"];

/// A parameter of a closure says what it is. Those in macros are found too, which is why this looks
/// at tokens.
pub fn check(path: &str, code: TokenStream) -> Vec<Finding> {
    let mut names = Vec::new();
    collect(code, &mut names);
    let finding = |name: Ident| {
        let message = format!("|{name}|: a closure names the thing that it takes");
        Finding::new(path, name.span().start().line, message)
    };
    names.into_iter().map(finding).collect()
}

fn collect(tokens: TokenStream, names: &mut Vec<Ident>) {
    let mut before = None;
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        if is_bar(&token) && begins_closure(before.as_ref()) {
            let parameters: Vec<TokenTree> = tokens.by_ref().take_while(|t| !is_bar(t)).collect();
            for parameter in parameters.split(|token| is_mark(token, ',')) {
                // A type follows a colon, a default is no name.
                let pattern = parameter.split(|token| is_mark(token, ':')).next();
                bound(pattern.unwrap_or_default().iter().cloned(), names);
            }
            before = None;
            continue;
        }
        if let TokenTree::Group(group) = &token {
            collect(group.stream(), names);
        }
        before = Some(token);
    }
}

/// The names of a pattern that say nothing. A field's name in braces is another matter.
fn bound(pattern: impl Iterator<Item = TokenTree>, names: &mut Vec<Ident>) {
    for token in pattern {
        match token {
            TokenTree::Ident(name) if NAMELESS.iter().any(|word| name == word) => names.push(name),
            TokenTree::Group(group) if group.delimiter() != Delimiter::Brace => {
                bound(group.stream().into_iter(), names);
            }
            _ => {}
        }
    }
}

/// Whether a bar after this token begins a closure; after a value it is an operator, or one of several
/// patterns.
fn begins_closure(before: Option<&TokenTree>) -> bool {
    match before {
        None => true,
        Some(TokenTree::Punct(mark)) => !"|?".contains(mark.as_char()),
        Some(TokenTree::Ident(word)) => BEFORE.iter().any(|before| word == before),
        Some(_) => false,
    }
}

fn is_bar(token: &TokenTree) -> bool {
    is_mark(token, '|')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let found = check("x.rs", text.parse().unwrap());
        found.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn parameters_that_say_nothing_are_found_wherever_they_stand() {
        let text = "fn f() {\n\
                    a.map(|own| own.b);\n\
                    let c = |own: &Row| own.d;\n\
                    a.map(move |(own, e), _| e);\n\
                    assert!(a.all(|&it| it > 0));\n\
                    let curried = |row| |it| row + it;\n\
                    a.map(|mut own: Vec<Row>| own.pop()).any(|g| g.any(|[own, _]| *own))\n\
                    }";
        assert_eq!(lines(text), [2, 3, 4, 5, 6, 7, 7]);
    }

    #[test]
    fn fields_operators_patterns_types_and_bodies_are_no_parameters() {
        let text = "fn own(own: Row) {\n\
                    a.map(|row| row.own);\n\
                    a.map(|Row { own, .. }| own);\n\
                    let b = c | own | d;\n\
                    if let Some(1 | own) = e? | own | f {}\n\
                    let g = || own;\n\
                    let h = |row: own::Row| own;\n\
                    // |own|\n\
                    \"|it|\"\n\
                    }";
        assert!(lines(text).is_empty(), "{:?}", lines(text));
    }
}
