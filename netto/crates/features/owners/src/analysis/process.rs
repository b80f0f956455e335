//! Parsers for files of one process, and of one control group. Pure.

/// Longest process name that the kernel keeps.
const LONGEST_COMM: usize = 15;

/// Name and start time of a process, from its `stat`: the name may hold anything, blanks and
/// brackets too; the start time is in ticks (`_SC_CLK_TCK`) since boot.
pub fn stat(text: &[u8]) -> Option<(&[u8], u64)> {
    let open = text.iter().position(|c| *c == b'(')?;
    let close = text.iter().rposition(|c| *c == b')')?;
    let comm = text.get(open + 1..close)?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    // The state is the third field, the start time the 22nd.
    let began = rest.split_ascii_whitespace().nth(22 - 3)?.parse().ok()?;
    Some((&comm[..comm.len().min(LONGEST_COMM)], began))
}

/// Path of the control group of version 2, from a process' `cgroup`. Empty if there is none.
pub fn cgroup(text: &[u8]) -> &[u8] {
    let mut lines = text.split(|c| *c == b'\n');
    // No name of a group has a line break in it (`cgroup_mkdir`).
    lines
        .find_map(|line| line.strip_prefix(b"0::"))
        .unwrap_or_default()
}

/// The name of an interface, padded with zero bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InterfaceName([u8; 16]);

impl InterfaceName {
    /// `None` if no interface can have it.
    pub fn new(name: &[u8]) -> Option<InterfaceName> {
        let mut bytes = [0; 16];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        (!name.is_empty()).then_some(InterfaceName(bytes))
    }
}

/// The TUN or TAP interface of a descriptor, from its `fdinfo` (`tun_chr_show_fdinfo`); `None` if it
/// has none yet.
pub fn tap(text: &[u8]) -> Option<InterfaceName> {
    let mut lines = text.split(|c| *c == b'\n');
    InterfaceName::new(lines.find_map(|line| line.strip_prefix(b"iff:\t"))?)
}

/// The number in `socket:[123]` or `net:[123]`.
pub fn inode(link: &[u8], kind: &str) -> Option<u64> {
    let number = link
        .strip_prefix(kind.as_bytes())?
        .strip_prefix(b":[")?
        .strip_suffix(b"]")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Time in which all tasks of a group were stalled, nanoseconds, from its `irq.pressure`
/// (`psi_show`).
pub fn full_pressure_ns(text: &str) -> Option<u64> {
    let full = text.lines().find_map(|line| line.strip_prefix("full "))?;
    let total = full
        .split(' ')
        .find_map(|word| word.strip_prefix("total="))?;
    total.parse::<u64>().ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIELDS: &str = "S 1 2 2 0 -1 4194560 5 0 0 0 1 2 0 0 20 0 1 0 4711 10 11 12";

    #[test]
    fn a_process_with_brackets_in_its_name_began_when_it_did() {
        let text = format!("17 (a) b (c) {FIELDS}\n");
        assert_eq!(stat(text.as_bytes()), Some((&b"a) b (c"[..], 4711)));
        let text = [b"17 (\xff\n) ", FIELDS.as_bytes()].concat();
        assert_eq!(stat(&text), Some((&b"\xff\n"[..], 4711)));
        let text = format!("17 (kworker/u8:3-events_unbound) {FIELDS}");
        assert_eq!(stat(text.as_bytes()).unwrap().0, b"kworker/u8:3-ev");
        for damaged in ["", "17", "17 (a) S 1", ") ("] {
            assert_eq!(stat(damaged.as_bytes()), None, "{damaged}");
        }
    }

    #[test]
    fn the_second_versions_group_is_found_among_the_firsts() {
        let text = b"4:memory:/first/0::/x\n0::/a.slice/b:c\xff\n";
        assert_eq!(cgroup(text), b"/a.slice/b:c\xff");
        assert_eq!(cgroup(b"4:memory:/\n"), b"");
    }

    #[test]
    fn links_say_which_socket_and_which_namespace() {
        assert_eq!(inode(b"socket:[123]", "socket"), Some(123));
        assert_eq!(inode(b"net:[4026531840]", "net"), Some(4_026_531_840));
        for other in ["pipe:[123]", "socket:[]", "socket:[1", "/dev/null", ""] {
            assert_eq!(inode(other.as_bytes(), "socket"), None, "{other}");
        }
    }

    #[test]
    fn a_descriptor_says_which_tap_it_is() {
        let text = b"pos:\t0\nflags:\t0104002\nmnt_id:\t15\nino:\t4\niff:\tvnet0\n";
        assert_eq!(tap(text), InterfaceName::new(b"vnet0"));
        for none in [
            &b"pos:\t0\niff:\t\n"[..],
            b"iff:\ta_name_of_more_than_sixteen",
            b"",
        ] {
            assert_eq!(tap(none), None);
        }
    }

    #[test]
    fn pressure_is_what_all_waited_in_nanoseconds() {
        let text = "full avg10=0.00 avg60=0.10 avg300=0.00 total=52\n";
        assert_eq!(full_pressure_ns(text), Some(52_000));
        let both = "some avg10=0.00 total=9\nfull avg10=0.00 total=7\n";
        assert_eq!(full_pressure_ns(both), Some(7_000));
        for none in [
            "",
            "some total=9\n",
            "full total=-1",
            "full total=18446744073709551615",
        ] {
            assert_eq!(full_pressure_ns(none), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_them_panic(text in proptest::collection::vec(any::<u8>(), 0..120), line in ".{0,80}") {
            let _ = (stat(&text), cgroup(&text), inode(&text, "net"), tap(&text));
            let _ = full_pressure_ns(&line);
            let with_brackets = [b"1 (", text.as_slice(), b") ", line.as_bytes()].concat();
            let _ = stat(&with_brackets);
        }
    }
}
