//! Which functions of this kernel each component's rules name: what makes a component
//! available, and what `netto list` shows.

use metrics_common::COMPONENTS;

use super::rules::{Patterns, matches};
use super::symbols::Symbol;

/// By component: the kernel functions that its rules match. Rules by position
/// alone (`*`) name none, and BPF programs are no functions of the kernel.
#[derive(Debug, Clone)]
pub struct FoundSymbols(Vec<Vec<String>>);

/// Finds them, symbol by symbol.
pub(super) struct Finding {
    /// By pattern: the components that have a rule for it.
    components: Vec<Vec<usize>>,
    found: Vec<Vec<String>>,
}

impl Finding {
    /// Nothing yet, by these patterns.
    pub(super) fn new(patterns: &Patterns) -> Self {
        let mut components = vec![Vec::new(); patterns.len()];
        for (row, component) in COMPONENTS.iter().enumerate() {
            for rule in component.kind.rules() {
                if let Some(number) = patterns.number(rule.frame) {
                    components[usize::from(number)].push(row);
                }
            }
        }
        Finding {
            components,
            found: vec![Vec::new(); COMPONENTS.len()],
        }
    }

    /// Looks at one more function of the kernel, which matches these patterns.
    pub(super) fn note(&mut self, symbol: Symbol<'_>, set: &[u16]) {
        if symbol.is_bpf {
            return;
        }
        for &row in set
            .iter()
            .flat_map(|number| &self.components[usize::from(*number)])
        {
            let names = &mut self.found[row];
            // Several rules of a row may match.
            if names.last().is_none_or(|last| last != symbol.name) {
                names.push(symbol.name.to_owned());
            }
        }
    }

    /// All that was found.
    pub(super) fn all(mut self) -> FoundSymbols {
        for names in &mut self.found {
            names.sort_unstable();
            names.dedup();
        }
        FoundSymbols(self.found)
    }
}

impl FoundSymbols {
    /// Of this component (index in the table), sorted.
    pub fn of(&self, component: usize) -> &[String] {
        self.0.get(component).map_or(&[], Vec::as_slice)
    }

    /// The same, told apart: those that a rule names in full, and for each pattern of
    /// its rules how many of the others it matches.
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
        // One pattern may stand in several rules, under different callers.
        patterns.sort_unstable();
        patterns.dedup();
        let counts = patterns.into_iter().map(count);
        (named, counts.filter(|(_, count)| *count > 0).collect())
    }

    /// By component: whether this kernel has a function that its rules name.
    pub fn availability(&self) -> Vec<bool> {
        self.0.iter().map(|names| !names.is_empty()).collect()
    }
}
