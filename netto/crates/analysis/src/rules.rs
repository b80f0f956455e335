//! Matches rules of the component table with kernel functions: name patterns, and precedence among
//! several matching rules.

use metrics_common::Rule;
use metrics_common::component::{BOUNDARIES, PACKET_MET, SHARED_CALLS};
use metrics_common::ownership::{self, ANY, specificity};
use rustc_hash::FxHashMap;

use super::symbols::{Symbol, program_name};

/// A rule of a component, with its patterns as numbers.
#[derive(Debug, Clone)]
pub(super) struct NumberedRule {
    component: u8,
    /// `None`: any function.
    frame: Option<u16>,
    specificity: i8,
    has_caller: bool,
    /// Whether any caller matches.
    any_caller: bool,
    /// By number of a caller's pattern: its precedence.
    callers: FxHashMap<u16, i8>,
}

impl NumberedRule {
    /// Whether it matches a function with these patterns, for some caller.
    pub(super) fn claims(&self, frame: &[u16]) -> bool {
        self.frame.is_none_or(|pattern| frame.contains(&pattern))
    }

    /// Its precedence for a caller with these patterns; `None` if it does not match.
    fn of_caller(&self, caller: &[u16]) -> Option<i8> {
        if !self.has_caller {
            return Some(-1);
        }
        let any = self.any_caller.then_some(specificity(ANY));
        let named = caller
            .iter()
            .filter_map(|pattern| self.callers.get(pattern));
        named.copied().max().max(any)
    }
}

/// The component of the rule with the highest precedence for a caller with these patterns, among
/// rules that all match the function.
pub(super) fn best(rules: &[&NumberedRule], caller: &[u16]) -> Option<u8> {
    rules
        .iter()
        .filter_map(|rule| {
            let caller = rule.of_caller(caller)?;
            Some(((rule.specificity, caller), rule.component))
        })
        .max_by_key(|(specificity, _)| *specificity)
        .map(|(_, component)| component)
}

/// Whether a symbol matches a pattern other than `*`.
pub(super) fn matches(pattern: &str, symbol: Symbol<'_>) -> bool {
    let name = if symbol.is_bpf {
        program_name(symbol.name)
    } else {
        symbol.name
    };
    ownership::matches(pattern, name, symbol.is_bpf)
}

/// All distinct patterns of the rules, numbered; `*` needs no number.
pub(super) struct Patterns {
    all: Vec<&'static str>,
    numbers: FxHashMap<&'static str, u16>,
    /// Full names are looked up by hash. A partial pattern is tried only where its first two bytes
    /// occur: a kernel has too many symbols to try each pattern on each.
    names: FxHashMap<&'static str, u16>,
    beginnings: Pairs,
    insides: Pairs,
    endings: Vec<u16>,
    /// Patterns of BPF programs.
    programs: Vec<u16>,
}

/// Patterns by two bytes that they contain.
struct Pairs {
    /// A bit for every possible pair.
    are_there: Vec<u64>,
    by_pair: FxHashMap<u16, Vec<u16>>,
}

impl Pairs {
    fn new() -> Self {
        Pairs {
            are_there: vec![0; (1 << 16) / 64],
            by_pair: FxHashMap::default(),
        }
    }

    fn add(&mut self, [first, second]: [u8; 2], pattern: u16) {
        let pair = u16::from_be_bytes([first, second]);
        self.are_there[usize::from(pair / 64)] |= 1 << (pair % 64);
        self.by_pair.entry(pair).or_default().push(pattern);
    }

    /// The patterns to try at this pair.
    fn at(&self, pair: [u8; 2]) -> &[u16] {
        let pair = u16::from_be_bytes(pair);
        match self.are_there[usize::from(pair / 64)] >> (pair % 64) & 1 {
            0 => &[],
            _ => self.by_pair.get(&pair).map_or(&[], Vec::as_slice),
        }
    }
}

impl Patterns {
    /// From these rules, context boundaries and shared calls.
    pub(super) fn of<'a>(rules: impl Iterator<Item = &'a Rule>) -> Self {
        let shared = SHARED_CALLS.iter().flat_map(|(_, calls)| *calls);
        let mut all: Vec<&'static str> = rules
            .flat_map(|rule| std::iter::once(&rule.frame).chain(rule.under))
            .chain(BOUNDARIES)
            .chain(PACKET_MET)
            .chain(shared)
            .copied()
            .filter(|pattern| *pattern != ANY)
            .collect();
        all.sort_unstable();
        all.dedup();
        let mut patterns = Patterns {
            numbers: all.iter().copied().zip(0..).collect(),
            names: FxHashMap::default(),
            beginnings: Pairs::new(),
            insides: Pairs::new(),
            endings: Vec::new(),
            programs: Vec::new(),
            all: Vec::new(),
        };
        for (pattern, number) in all.iter().copied().zip(0..) {
            let inner = pattern.trim_matches('*');
            let part = inner.as_bytes().first_chunk::<2>().copied();
            match (pattern.starts_with('*'), pattern.ends_with('*'), part) {
                _ if pattern.starts_with("[bpf]") => patterns.programs.push(number),
                (false, false, _) => _ = patterns.names.insert(pattern, number),
                (false, true, Some(pair)) => patterns.beginnings.add(pair, number),
                (true, true, Some(pair)) => patterns.insides.add(pair, number),
                _ => patterns.endings.push(number),
            }
        }
        patterns.all = all;
        patterns
    }

    /// Translates a rule's patterns to numbers.
    pub(super) fn numbered(&self, component: usize, rule: &Rule) -> NumberedRule {
        let number = |pattern: &str| self.numbers.get(pattern).copied();
        let callers = rule.under.iter();
        NumberedRule {
            component: component as u8,
            frame: number(rule.frame),
            specificity: specificity(rule.frame),
            has_caller: !rule.under.is_empty(),
            any_caller: rule.under.contains(&ANY),
            callers: callers
                .filter_map(|pattern| Some((number(pattern)?, specificity(pattern))))
                .collect(),
        }
    }

    /// Puts the numbers of the patterns that this symbol matches into `set`, ascending.
    pub(super) fn matching(&self, symbol: Symbol<'_>, set: &mut Vec<u16>) {
        set.clear();
        let holds = |number: &&u16| matches(self.all[usize::from(**number)], symbol);
        if symbol.is_bpf {
            set.extend(self.programs.iter().filter(holds));
            return;
        }
        let name = symbol.name.as_bytes();
        if let Some(pair) = name.first_chunk::<2>() {
            set.extend(self.beginnings.at(*pair).iter().filter(holds));
        }
        for pair in name.windows(2) {
            let [first, second] = pair else { break };
            set.extend(self.insides.at([*first, *second]).iter().filter(holds));
        }
        set.extend(self.endings.iter().filter(holds));
        set.extend(self.names.get(symbol.name));
        if set.len() > 1 {
            // A pair that occurs twice in a name gives duplicates.
            set.sort_unstable();
            set.dedup();
        }
    }

    /// Whether this pattern is in a set of numbers; `*` is in every set.
    pub(super) fn contains(&self, set: &[u16], pattern: &str) -> bool {
        let number = self.numbers.get(pattern);
        pattern == ANY || number.is_some_and(|number| set.contains(number))
    }

    /// Number of patterns.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The number of a pattern of one of the rules.
    pub(super) fn number(&self, pattern: &str) -> Option<u16> {
        self.numbers.get(pattern).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_common::COMPONENTS;
    use proptest::prelude::*;

    fn all() -> Patterns {
        let rules = COMPONENTS
            .iter()
            .flat_map(|component| component.kind.rules());
        Patterns::of(rules)
    }

    proptest! {
        /// Names made of pieces of patterns, or of anything.
        #[test]
        fn whatever_finds_patterns_quickly_finds_those_that_match(
            name in "(tcp_|__ip6_|inet_|x|_clean|napi|poll|xdp|_handle_frame|gro_flush|handle_softirqs|[a-z_.]{0,3}){0,4}",
            is_bpf in any::<bool>(),
        ) {
            let patterns = all();
            let symbol = Symbol { name: &name, is_bpf };
            let expected = (0..patterns.len() as u16)
                .filter(|number| matches(patterns.all[usize::from(*number)], symbol));
            let expected: Vec<u16> = expected.collect();
            let mut found = vec![7];
            patterns.matching(symbol, &mut found);
            prop_assert_eq!(found, expected);
        }
    }
}
