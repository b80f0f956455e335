//! Kernel symbols: extracts address ranges of the functions that the classifier needs from the text
//! of `/proc/kallsyms`.
//!
//! A kernel has some 200,000 symbols, and the classifier needs a few hundred. Only their ranges and
//! the starts of all functions are kept; names are looked up when they are read. Opens no files.

use std::io::BufRead;

use memchr::{memchr, memrchr};
use rustc_hash::FxHashMap;

use self::line::fields;

mod line;

/// Longest plausible function: those of kernels have some ten thousand bytes.
const LONGEST_FUNCTION_BYTES: u64 = 256 << 10;

/// Why the kernel's symbols cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SymbolError {
    /// Every address is zero: the kernel hides them from this process.
    #[error(
        "the kernel hides its symbol addresses from this process; run as root or with CAP_SYSLOG, \
         and with sysctl kernel.kptr_restrict below 2"
    )]
    Hidden,
    /// The list has no function.
    #[error("the kernel's symbol list is empty; is this kernel built with CONFIG_KALLSYMS?")]
    Empty,
    /// A line that is not `address type name [module]`.
    #[error("line {line} of the kernel's symbol list is malformed: {text:?}")]
    Malformed {
        /// Number of the line, from 1.
        line: usize,
        /// The line, shortened.
        text: String,
    },
    /// Reading failed.
    #[error("cannot read the kernel's symbol list: {0}")]
    Io(#[from] std::io::Error),
}

/// A function or BPF program in the kernel's symbol list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Name without compiler suffixes.
    pub name: &'a str,
    /// Whether it is a BPF program (or a dispatcher or trampoline of one).
    pub is_bpf: bool,
}

impl<'a> Symbol<'a> {
    /// Of a name and its module in brackets, as the list of symbols has them.
    fn new(name: &'a str, module: Option<&str>) -> Self {
        let is_bpf = module == Some("[bpf]")
            || name.starts_with("bpf_dispatcher_")
            || name.starts_with("bpf_trampoline_");
        Symbol {
            name: normalise(name),
            is_bpf,
        }
    }

    /// As users see it: `[bpf] name` for a BPF program.
    fn shown(&self) -> String {
        if !self.is_bpf {
            return self.name.to_owned();
        }
        let named = format!("[bpf] {}", program_name(self.name));
        named.trim_end().to_owned()
    }
}

/// Addresses `[start, end)` of a selected symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range<T> {
    /// First address.
    pub start: u64,
    /// First address of the next symbol.
    pub end: u64,
    /// The caller's value for the symbol.
    pub value: T,
}

/// Sorted, disjoint address ranges of the selected symbols, and the starts of all functions.
#[derive(Debug, Clone, Default)]
pub struct Ranges<T> {
    wanted: Vec<Range<T>>,
    starts: Vec<u64>,
}

impl<T: Copy> Ranges<T> {
    /// The value of the symbol at this address.
    pub fn find(&self, address: u64) -> Option<T> {
        let after = self.wanted.partition_point(|range| range.start <= address);
        let range = self.wanted.get(after.checked_sub(1)?)?;
        (address < range.end).then_some(range.value)
    }

    /// Start of the function that contains this address; `None` before the first, and far behind
    /// any (code that was loaded after the list was read).
    pub fn start_of(&self, address: u64) -> Option<u64> {
        let after = self.starts.partition_point(|start| *start <= address);
        let start = *self.starts.get(after.checked_sub(1)?)?;
        (address - start < LONGEST_FUNCTION_BYTES).then_some(start)
    }

    /// Every range, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &Range<T>> {
        self.wanted.iter()
    }
}

/// Removes all compiler suffixes of a function's name: `.constprop.0`, `.isra.0`, `.part.1`,
/// `.cold`, `.llvm.123`.
pub fn normalise(name: &str) -> &str {
    let mut name = name;
    while let Some((head, last)) = at_last_dot(name) {
        let is_number = !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit());
        let is_suffix = matches!(last, "constprop" | "isra" | "part" | "cold" | "llvm");
        if head.is_empty() || !(is_number || is_suffix) {
            break;
        }
        name = head;
    }
    name
}

fn at_last_dot(name: &str) -> Option<(&str, &str)> {
    let dot = memrchr(b'.', name.as_bytes())?;
    Some((&name[..dot], &name[dot + 1..]))
}

/// Reads a symbol list and keeps the ranges of the functions for which `wanted` returns a value.
///
/// # Errors
/// See [`SymbolError`].
pub fn parse<T>(
    text: impl BufRead,
    mut wanted: impl FnMut(Symbol<'_>) -> Option<T>,
) -> Result<Ranges<T>, SymbolError> {
    let mut starts: Vec<u64> = Vec::new();
    let mut found: Vec<(u64, T)> = Vec::new();
    let mut functions = 0_usize;
    each_function(text, |address, symbol| {
        functions += 1;
        if address == 0 {
            return;
        }
        starts.push(address);
        if let Some(value) = wanted(symbol) {
            found.push((address, value));
        }
    })?;
    if functions == 0 {
        return Err(SymbolError::Empty);
    }
    if starts.is_empty() {
        return Err(SymbolError::Hidden);
    }
    starts.sort_unstable();
    starts.dedup();
    starts.shrink_to_fit();
    // Of several names for one address, the first selected one wins.
    found.sort_by_key(|(start, _)| *start);
    found.dedup_by_key(|(start, _)| *start);
    let wanted = found
        .into_iter()
        .map(|(start, value)| {
            let end = starts
                .get(starts.partition_point(|&s| s <= start))
                .copied()
                .unwrap_or(u64::MAX);
            Range { start, end, value }
        })
        .collect();
    Ok(Ranges { wanted, starts })
}

/// Reads a symbol list and gives each of these functions, identified by its start, its name: `[bpf]
/// name` for a BPF program. Functions that are no longer in the list keep their name.
///
/// # Errors
/// See [`SymbolError`].
pub fn name(
    text: impl BufRead,
    names: &mut FxHashMap<u64, Option<String>>,
) -> Result<(), SymbolError> {
    each_function(text, |address, symbol| {
        if let Some(name @ None) = names.get_mut(&address) {
            *name = Some(symbol.shown());
        }
    })
}

/// The name that [`name`] gives a function, from what the kernel prints for its address by `%ps`:
/// `ip_rcv`, `nf_hook_slow [nf]`, or a number where there is no function.
pub fn printed(text: &str) -> Option<String> {
    let (name, module) = match text.split_once(' ') {
        Some((name, module)) => (name, Some(module)),
        None => (text, None),
    };
    let is_none = name.is_empty() || name.starts_with("0x");
    (!is_none).then(|| Symbol::new(name, module).shown())
}

/// `bpf_prog_6deef7357e7b4530_count` without prefix and hash.
pub(super) fn program_name(symbol: &str) -> &str {
    match symbol.strip_prefix("bpf_prog_") {
        Some(rest) => rest.split_once('_').map_or("", |(_tag, name)| name),
        None => symbol,
    }
}

/// Calls `each` for every function of a symbol list with its address, which is 0 if hidden.
fn each_function(
    mut text: impl BufRead,
    mut each: impl FnMut(u64, Symbol<'_>),
) -> Result<(), SymbolError> {
    let mut number = 0;
    // The part of a line in the previous buffer.
    let mut begun: Vec<u8> = Vec::new();
    loop {
        let read = text.fill_buf()?;
        let length = read.len();
        if length == 0 && begun.is_empty() {
            return Ok(());
        }
        let mut rest = read;
        while let Some(end) = memchr(b'\n', rest) {
            number += 1;
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if begun.is_empty() {
                read_line(line, number, &mut each)?;
            } else {
                begun.extend_from_slice(line);
                read_line(&begun, number, &mut each)?;
                begun.clear();
            }
            rest = after;
        }
        begun.extend_from_slice(rest);
        if length == 0 {
            // The last line without a newline.
            return read_line(&begun, number + 1, &mut each);
        }
        text.consume(length);
    }
}

fn read_line(
    line: &[u8],
    number: usize,
    each: &mut impl FnMut(u64, Symbol<'_>),
) -> Result<(), SymbolError> {
    let fields = fields(line).ok_or_else(|| SymbolError::Malformed {
        line: number,
        text: String::from_utf8_lossy(line)
            .trim_end()
            .chars()
            .take(80)
            .collect(),
    })?;
    let (address, kind, name, module) = fields;
    // `__pfx_` is the padding before a function.
    if !matches!(kind, b't' | b'T' | b'w' | b'W') || name.starts_with("__pfx_") {
        return Ok(());
    }
    each(address, Symbol::new(name, module));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str) -> Result<Ranges<String>, SymbolError> {
        parse(text.as_bytes(), |s| Some(s.name.to_owned()))
    }

    #[test]
    fn functions_are_named_by_where_they_start_and_programs_as_such() {
        let text = "1000 T ip_rcv.part.0\n1800 t bpf_prog_6deef7357e7b4530_count_it\t[bpf]\n\
                    1900 t bpf_prog_6deef7357e7b4530\t[bpf]\n2000 T other\n";
        let mut names: FxHashMap<u64, Option<String>> = [0x1000, 0x1800, 0x1900, 0x7000]
            .map(|start| (start, None))
            .into_iter()
            .collect();
        name(text.as_bytes(), &mut names).unwrap();
        let found = |start: u64| names[&start].as_deref();
        assert_eq!(found(0x1000), Some("ip_rcv"));
        assert_eq!(found(0x1800), Some("[bpf] count_it"));
        assert_eq!(found(0x1900), Some("[bpf]"));
        assert_eq!(found(0x7000), None, "gone");
        for (text, shown) in [
            ("ip_rcv.part.0", Some("ip_rcv")),
            ("nf_hook_slow [nf]", Some("nf_hook_slow")),
            (
                "bpf_prog_6deef7357e7b4530_count_it [bpf]",
                Some("[bpf] count_it"),
            ),
            ("bpf_prog_6deef7357e7b4530 [bpf]", Some("[bpf]")),
            ("0xffffffffc0001000", None),
            ("", None),
        ] {
            assert_eq!(printed(text).as_deref(), shown, "printed: {text}");
        }
        let ranges = parse(text.as_bytes(), |_| Some(())).unwrap();
        assert_eq!(ranges.start_of(0x17ff), Some(0x1000));
        assert_eq!(ranges.start_of(0xfff), None);
        assert_eq!(
            ranges.start_of(0x2000 + (1 << 20)),
            None,
            "nothing is so long"
        );
    }

    #[test]
    fn compilers_suffixes_are_stripped_and_nothing_else() {
        for (name, normal) in [
            ("net_rx_action", "net_rx_action"),
            (
                "__netif_receive_skb_core.constprop.0",
                "__netif_receive_skb_core",
            ),
            ("ip6_rcv_finish_core.isra.0", "ip6_rcv_finish_core"),
            ("br_nf_forward_ip.part.0", "br_nf_forward_ip"),
            ("foo.isra.0.cold", "foo"),
            ("foo.part.0.constprop.12", "foo"),
            ("foo.llvm.1234567", "foo"),
            ("weird.name", "weird.name"),
            (".cold", ".cold"),
        ] {
            assert_eq!(normalise(name), normal, "{name}");
        }
    }

    #[test]
    fn a_function_reaches_to_the_next_symbol_whether_that_is_wanted_or_not() {
        let text = "1000 T a\n1010 t __pfx_b\n1020 t b\n1030 T c\n1040 D data\n2000 t d\t[mod]\n";
        let ranges = parse(text.as_bytes(), |s| {
            (s.name != "c").then(|| s.name.to_owned())
        })
        .unwrap();
        let find = |address| {
            ranges
                .wanted
                .iter()
                .find(|r| r.start <= address && address < r.end)
                .map(|r| r.value.as_str())
        };
        assert_eq!(find(0x0fff), None);
        assert_eq!(find(0x1000), Some("a"));
        assert_eq!(
            find(0x101f),
            Some("a"),
            "padding belongs to the function before it"
        );
        assert_eq!(find(0x1020), Some("b"));
        assert_eq!(find(0x1030), None, "c was not asked for");
        assert_eq!(find(0x2fff), Some("d"));
    }

    #[test]
    fn modules_and_cold_halves_stand_anywhere_in_the_list() {
        let ranges = parse(
            "2000 t veth_poll\t[veth]\n1000 t x\n1500 t veth_poll.cold\n1800 t y\n".as_bytes(),
            |s| (s.name == "veth_poll").then_some(7),
        )
        .unwrap();
        assert_eq!(
            [0x1000, 0x1500, 0x17ff, 0x1800, 0x2001].map(|a| ranges.find(a)),
            [None, Some(7), Some(7), None, Some(7)]
        );
    }

    #[test]
    fn bpf_programs_are_recognised_by_their_module() {
        let text = "1000 t bpf_prog_6deef7357e7b4530_x\t[bpf]\n1100 t bpf_dispatcher_xdp\t[bpf]\n1200 T bpf_prog_load\n";
        let ranges = parse(text.as_bytes(), |s| Some(s.is_bpf)).unwrap();
        assert_eq!(
            [0x1000, 0x1100, 0x1200].map(|a| ranges.find(a)),
            [Some(true), Some(true), Some(false)]
        );
    }

    #[test]
    fn hidden_addresses_are_told_from_an_empty_list() {
        assert!(matches!(
            all("0000000000000000 T a\n0000000000000000 t b\n"),
            Err(SymbolError::Hidden)
        ));
        assert!(matches!(all(""), Err(SymbolError::Empty)));
        assert!(matches!(
            all("0000000000000000 D only_data\n"),
            Err(SymbolError::Empty)
        ));
    }

    #[test]
    fn a_malformed_line_is_named() {
        let error = all("1000 T a\nnonsense\n").unwrap_err();
        assert!(
            error.to_string().contains("line 2") && error.to_string().contains("nonsense"),
            "{error}"
        );
    }

    #[test]
    fn a_line_may_stand_in_two_readings() {
        let text =
            "ffffffff81000010 t one\nffffffff81000020 t two\t[veth]\nffffffff81000030 T three";
        for bytes in 1..text.len() {
            let read = std::io::BufReader::with_capacity(bytes, text.as_bytes());
            let mut found = Vec::new();
            each_function(read, |address, symbol| {
                found.push((address, symbol.name.to_owned()));
            })
            .unwrap();
            let expected = [(0x10, "one"), (0x20, "two"), (0x30, "three")];
            let expected = expected.map(|(at, name)| (0xffff_ffff_8100_0000 + at, name.to_owned()));
            assert_eq!(found, expected, "{bytes} bytes at a time");
        }
    }

    proptest! {
        #[test]
        fn no_input_makes_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(bytes.as_slice(), |s| Some(s.is_bpf));
        }

        #[test]
        fn every_address_of_a_kept_function_is_found(mut starts in proptest::collection::btree_set(1_u64..u64::MAX, 1..50)) {
            let text: String = starts.iter().map(|s| format!("{s:x} t f{s}\n")).collect();
            let ranges = parse(text.as_bytes(), |s| s.name[1..].parse::<u64>().ok()).unwrap();
            let mut previous = None;
            while let Some(start) = starts.pop_first() {
                prop_assert_eq!(ranges.find(start), Some(start));
                prop_assert_eq!(ranges.find(start - 1), previous);
                previous = Some(start);
            }
        }
    }
}
