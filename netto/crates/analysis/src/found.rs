//! The functions of this kernel that each component's rules name: they make a component available,
//! and `netto list` shows them.

use std::io::BufRead;

use metrics_common::COMPONENTS;

use super::rules::{Patterns, matches};
use super::symbols::{self, Symbol, SymbolError};

/// By pattern: the components with a rule for it.
pub(super) struct Named(Vec<Vec<usize>>);

impl Named {
    /// The components of these patterns.
    pub(super) fn by(patterns: &Patterns) -> Self {
        let mut components = vec![Vec::new(); patterns.len()];
        for (row, component) in COMPONENTS.iter().enumerate() {
            for rule in component.kind.rules() {
                if let Some(number) = patterns.number(rule.frame) {
                    components[usize::from(number)].push(row);
                }
            }
        }
        Named(components)
    }

    /// The components whose rules name a symbol that matches these patterns. A rule by position
    /// alone (`*`) names none, and BPF programs are not functions of the kernel.
    pub(super) fn rows(&self, symbol: Symbol<'_>, set: &[u16]) -> impl Iterator<Item = usize> {
        let set = if symbol.is_bpf { &[] } else { set };
        let rows = set.iter().flat_map(|number| &self.0[usize::from(*number)]);
        rows.copied()
    }
}

/// By component: the kernel functions that its rules name.
#[derive(Debug, Clone)]
pub struct FoundSymbols(Vec<Vec<String>>);

impl FoundSymbols {
    /// Reads them from the kernel's symbol list.
    ///
    /// # Errors
    /// See [`SymbolError`].
    pub fn read(kallsyms: impl BufRead) -> Result<Self, SymbolError> {
        let rules = COMPONENTS
            .iter()
            .flat_map(|component| component.kind.rules());
        let patterns = Patterns::of(rules);
        let named = Named::by(&patterns);
        let mut found: Vec<Vec<String>> = vec![Vec::new(); COMPONENTS.len()];
        let mut set = Vec::new();
        symbols::parse(kallsyms, |symbol| {
            patterns.matching(symbol, &mut set);
            for row in named.rows(symbol, &set) {
                found[row].push(symbol.name.to_owned());
            }
            None::<()>
        })?;
        for names in &mut found {
            names.sort_unstable();
            names.dedup();
        }
        Ok(FoundSymbols(found))
    }

    /// The functions of this component (index in the table), sorted.
    pub fn of(&self, component: usize) -> &[String] {
        self.0.get(component).map_or(&[], Vec::as_slice)
    }

    /// The functions that a rule names in full, and for each pattern of its rules the number of
    /// other functions that match it.
    pub fn by_rule(&self, component: usize) -> (Vec<&str>, Vec<(&'static str, usize)>) {
        let rules = COMPONENTS
            .get(component)
            .map_or(&[][..], |row| row.kind.rules());
        let (mut patterns, names): (Vec<_>, Vec<_>) = rules
            .iter()
            .map(|rule| rule.frame)
            .filter(|frame| *frame != "*")
            .partition(|frame| frame.contains('*'));
        let (named, others): (Vec<&str>, Vec<&str>) = self
            .of(component)
            .iter()
            .map(String::as_str)
            .partition(|name| names.contains(name));
        let is_bpf = false;
        let count = |pattern: &'static str| {
            let symbols = others.iter().map(|&name| Symbol { name, is_bpf });
            (pattern, symbols.filter(|s| matches(pattern, *s)).count())
        };
        // A pattern may occur in several rules, with different callers.
        patterns.sort_unstable();
        patterns.dedup();
        let counts = patterns.into_iter().map(count);
        (named, counts.filter(|(_, count)| *count > 0).collect())
    }
}
