//! What a file of Rust names: the modules of its crate, and words. Pure.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// A parsed file without its tests.
pub struct Code(syn::File);

/// Parses a file.
///
/// # Errors
/// Where it is no Rust.
pub fn parse(text: &str) -> Result<Code, syn::Error> {
    let mut file = syn::parse_file(text)?;
    file.items.retain(|item| !is_test(item));
    Ok(Code(file))
}

fn is_test(item: &Item) -> bool {
    let attributes: &[Attribute] = match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    };
    let is_for_tests = |attribute: &Attribute| {
        let condition = attribute.meta.to_token_stream().to_string();
        attribute.path().is_ident("cfg") && condition.contains("test")
    };
    attributes.iter().any(is_for_tests)
}

impl Code {
    /// The paths in its own crate that it names, from the crate's root; `module` is its own.
    pub fn paths(&self, module: &[String]) -> Vec<Vec<String>> {
        let mut visitor = Paths {
            module: module.to_vec(),
            found: Vec::new(),
        };
        visitor.visit_file(&self.0);
        visitor.found
    }

    /// All of its tokens.
    pub fn tokens(&self) -> TokenStream {
        self.0.to_token_stream()
    }

    /// Its identifiers and the text of its literals, without documentation.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        collect(self.tokens(), &mut words);
        words
    }
}

struct Paths {
    module: Vec<String>,
    found: Vec<Vec<String>>,
}

impl Paths {
    fn add(&mut self, path: &[String]) {
        let mut base = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.module.clone(),
            _ => return,
        };
        let mut rest = path;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => drop(base.pop()),
                _ => break,
            }
            rest = others;
        }
        base.extend(rest.iter().cloned());
        self.found.push(base);
    }

    fn add_tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.add_tree(&with(path.ident.to_string()), &path.tree),
            UseTree::Name(name) => self.add(&with(name.ident.to_string())),
            UseTree::Rename(name) => self.add(&with(name.ident.to_string())),
            UseTree::Glob(_) => self.add(before),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.add_tree(before, tree);
                }
            }
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.add_tree(&[], &item.tree);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        self.add(&names);
        visit::visit_path(self, path);
    }
}

fn collect(tokens: TokenStream, words: &mut Vec<String>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) => words.push(ident.to_string()),
            TokenTree::Literal(literal) => words.push(literal.to_string()),
            TokenTree::Group(group) => collect(group.stream(), words),
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                let is_documentation = |group: &TokenTree| {
                    let text = group.to_string();
                    text.trim_start_matches(['[', ' ']).starts_with("doc")
                };
                if let Some(TokenTree::Punct(_)) = tokens.peek() {
                    tokens.next();
                }
                tokens.next_if(is_documentation);
            }
            TokenTree::Punct(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_however_they_are_written_and_not_in_tests() {
        let text = "use crate::{x::Y, b::{self, D}};\nuse super::e::F;\nuse other::z;\n\
                    fn f() { self::g(); crate::h::i() }\n\
                    #[cfg(test)]\nmod tests { use crate::t; }";
        let module = ["p".to_owned(), "own".to_owned()];
        let found = parse(text).unwrap().paths(&module);
        let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
        assert_eq!(
            found,
            ["x::Y", "b::self", "b::D", "p::e::F", "p::own::g", "h::i"]
        );
    }

    #[test]
    fn words_are_names_and_literals_and_not_documentation() {
        let text = "//! inner\n/// outer\nfn name() { \"text\"; } // comment";
        let words = parse(text).unwrap().words();
        assert_eq!(words, ["fn", "name", "\"text\""]);
    }
}
