//! A bool is asked by `if`, never by `match`. Pure.
//!
//! This reads tokens, not expressions, so that code inside macros counts too.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{Finding, is_mark};

/// Every `match` whose arms are exactly `true` and `false`.
pub fn check(path: &str, code: TokenStream) -> Vec<Finding> {
    let mut lines = Vec::new();
    collect(code, &mut lines);
    let message = "a bool is asked by `if`, not by `match`";
    let findings = lines.into_iter();
    findings
        .map(|line| Finding::new(path, line, message))
        .collect()
}

/// The lines where such arms begin.
fn collect(tokens: TokenStream, lines: &mut Vec<usize>) {
    for token in tokens {
        let TokenTree::Group(group) = token else {
            continue;
        };
        if group.delimiter() == Delimiter::Brace && is_about_a_bool(group.stream()) {
            lines.push(group.span_open().start().line);
        }
        collect(group.stream(), lines);
    }
}

/// Whether the inside of braces is the two arms `true` and `false`. Only a `match` has such.
fn is_about_a_bool(inside: TokenStream) -> bool {
    let mut patterns = patterns(inside);
    patterns.sort();
    patterns == ["false", "true"]
}

/// The patterns of arms, with their guards. What is no arm gives patterns that mean nothing.
fn patterns(inside: TokenStream) -> Vec<String> {
    let mut tokens = inside.into_iter().peekable();
    let mut patterns = Vec::new();
    while tokens.peek().is_some() {
        let mut pattern = Vec::new();
        for token in tokens.by_ref() {
            if is_mark(&token, '>') && pattern.last().is_some_and(|last| is_mark(last, '=')) {
                pattern.pop();
                break;
            }
            pattern.push(token);
        }
        patterns.push(TokenStream::from_iter(pattern).to_string());
        let is_block = |token: &TokenTree| matches!(token, TokenTree::Group(block) if block.delimiter() == Delimiter::Brace);
        if tokens.next_if(is_block).is_some() {
            tokens.next_if(|token| is_mark(token, ','));
        } else {
            tokens.by_ref().find(|token| is_mark(token, ','));
        }
    }
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        let findings = check("x.rs", text.parse().unwrap());
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_match_on_a_bool_is_found_in_either_order_and_in_a_macro() {
        assert_eq!(
            found("fn f() {\n match a {\n true => b, false => c,\n } }"),
            [2]
        );
        assert_eq!(found("fn f() { match a() { false => {} true => b } }"), [1]);
        assert_eq!(
            found("m! {\n fn f() {\n match a {\n true => { b(c, d) }\n false => (e, f) } } }"),
            [3]
        );
        let nested =
            "fn f() { match a {\n true => match b {\n true => c, false => d },\n _ => e } }";
        assert_eq!(found(nested), [2]);
    }

    #[test]
    fn other_patterns_and_guards_are_none() {
        let others = [
            "true if b => c, true => d, false => e",
            "true => b, _ => c",
            "Some(true) => b, Some(false) => c, None => d",
            "(true, _) => b, (false, _) => c",
            "\"true\" => b, \"false\" => c",
        ];
        for arms in others {
            let text = format!("fn f() {{ match a {{ {arms} }} }}");
            assert_eq!(found(&text), Vec::<usize>::new(), "{arms}");
        }
        let other = "enum E { A }\nfn f() { if a >= b { c } else { d } }";
        assert_eq!(found(other), Vec::<usize>::new());
    }
}
