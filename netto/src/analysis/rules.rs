//! How a rule of the component table is matched with a kernel function: name
//! patterns, and which of several rules that hold is the more specific.

use metrics_common::Rule;
use metrics_common::component::{BOUNDARIES, SHARED_CALLS};
use rustc_hash::FxHashMap;

use super::symbols::{Symbol, program_name};

/// The component of the most specific of these rules, all of which hold for a
/// function, that also holds for its caller, of which `matches` knows the patterns.
pub(super) fn best(rules: &[(usize, Rule)], matches: impl Fn(&str) -> bool) -> Option<u8> {
    rules
        .iter()
        .filter_map(|(component, rule)| {
            let caller = if rule.under.is_empty() {
                -1
            } else {
                rule.under
                    .iter()
                    .filter(|pattern| matches(pattern))
                    .map(|pattern| specificity(pattern))
                    .max()?
            };
            Some(((specificity(rule.frame), caller), *component as u8))
        })
        .max_by_key(|(specificity, _)| *specificity)
        .map(|(_, component)| component)
}

/// A name is more specific than any BPF program, that than part of a name, that than anything.
fn specificity(pattern: &str) -> i8 {
    match pattern {
        "*" => 0,
        "[bpf]" => 2,
        _ if pattern.starts_with("[bpf]") => 3,
        _ if pattern.contains('*') => 1,
        _ => 3,
    }
}

/// Whether a symbol matches a pattern other than `*`.
pub(super) fn matches(pattern: &str, symbol: Symbol<'_>) -> bool {
    match pattern.strip_prefix("[bpf]") {
        Some("") => symbol.is_bpf,
        Some(program) => symbol.is_bpf && fits(program.trim_start(), program_name(symbol.name)),
        None => !symbol.is_bpf && fits(pattern, symbol.name),
    }
}

fn fits(pattern: &str, name: &str) -> bool {
    let inner = pattern.trim_matches('*');
    match (pattern.starts_with('*'), pattern.ends_with('*')) {
        (true, true) => name.contains(inner),
        (true, false) => name.ends_with(inner),
        (false, true) => name.starts_with(inner),
        (false, false) => name == pattern,
    }
}

/// Every distinct pattern of the rules, numbered; `*` needs no number.
pub(super) struct Patterns {
    all: Vec<&'static str>,
    /// Whole names are looked up, and beginnings tried only on symbols with the
    /// same first byte: a kernel has too many symbols to try each pattern on each.
    names: FxHashMap<&'static str, u16>,
    beginnings: FxHashMap<u8, Vec<u16>>,
    others: Vec<u16>,
}

impl Patterns {
    /// Of these rules, and of the names of the context boundaries and shared calls.
    pub(super) fn of<'a>(rules: impl Iterator<Item = &'a Rule>) -> Self {
        let shared = SHARED_CALLS.iter().flat_map(|(_, calls)| *calls);
        let mut all: Vec<&'static str> = rules
            .flat_map(|rule| std::iter::once(&rule.frame).chain(rule.under))
            .chain(BOUNDARIES)
            .chain(shared)
            .copied()
            .filter(|pattern| *pattern != "*")
            .collect();
        all.sort_unstable();
        all.dedup();
        let mut patterns = Patterns {
            names: FxHashMap::default(),
            beginnings: FxHashMap::default(),
            others: Vec::new(),
            all: Vec::new(),
        };
        for (index, pattern) in all.iter().enumerate() {
            let index = index as u16;
            match (specificity(pattern), pattern.as_bytes()) {
                (3, [first, ..]) if *first != b'[' => {
                    patterns.names.insert(pattern, index);
                }
                (1, [first, ..]) if *first != b'*' => {
                    patterns.beginnings.entry(*first).or_default().push(index)
                }
                _ => patterns.others.push(index),
            }
        }
        patterns.all = all;
        patterns
    }

    /// Numbers of the patterns that this symbol matches, ascending.
    pub(super) fn matching(&self, symbol: Symbol<'_>) -> Vec<u16> {
        let first = symbol.name.as_bytes().first();
        let beginnings = first
            .and_then(|first| self.beginnings.get(first))
            .into_iter()
            .flatten();
        let mut set: Vec<u16> = beginnings
            .chain(&self.others)
            .copied()
            .filter(|&index| matches(self.all[usize::from(index)], symbol))
            .collect();
        if !symbol.is_bpf {
            set.extend(self.names.get(symbol.name));
        }
        set.sort_unstable();
        set
    }

    /// Whether this pattern is in a set of numbers; `*` is in every set.
    pub(super) fn contains(&self, set: &[u16], pattern: &str) -> bool {
        pattern == "*"
            || set
                .iter()
                .any(|&index| self.all[usize::from(index)] == pattern)
    }
}
