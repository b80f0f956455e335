//! Which functions of this kernel each component's rules name: what makes a component
//! available, and what `netto list` shows.

use metrics_common::COMPONENTS;

use super::rules::matches;
use super::symbols::Symbol;

/// By component: the kernel functions that its rules match. Rules by position
/// alone (`*`) name none, and BPF programs are no functions of the kernel.
#[derive(Debug, Clone)]
pub struct FoundSymbols(Vec<Vec<String>>);

impl Default for FoundSymbols {
    fn default() -> Self {
        FoundSymbols(vec![Vec::new(); COMPONENTS.len()])
    }
}

impl FoundSymbols {
    /// Looks at one more function of the kernel.
    pub(super) fn note(&mut self, symbol: Symbol<'_>) {
        if symbol.is_bpf {
            return;
        }
        for (names, row) in self.0.iter_mut().zip(COMPONENTS) {
            let matched = row
                .kind
                .rules()
                .iter()
                .any(|rule| rule.frame != "*" && matches(rule.frame, symbol));
            if let (true, Err(at)) = (
                matched,
                names.binary_search_by(|n| n.as_str().cmp(symbol.name)),
            ) {
                names.insert(at, symbol.name.to_owned());
            }
        }
    }

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
