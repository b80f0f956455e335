//! Finds the mount point of a file system in a process's `mountinfo`. Pure.

use super::escapes::unescaped;

/// The mount point of control groups of version 2; preferably one of the hierarchy's root, and one
/// below `below`.
pub fn cgroup2_mount(mountinfo: &[u8], below: &[u8]) -> Option<Vec<u8>> {
    best_mount(mountinfo, below, |kind, _| kind == b"cgroup2")
}

/// The same of the cpusets of version 1.
pub fn cpuset_mount(mountinfo: &[u8], below: &[u8]) -> Option<Vec<u8>> {
    best_mount(mountinfo, below, |kind, options| {
        let mut options = options.split(|c| *c == b',');
        kind == b"cgroup" && options.any(|option| option == b"cpuset")
    })
}

/// The best mount whose type and options are meant.
fn best_mount(
    mountinfo: &[u8],
    below: &[u8],
    is_meant: impl Fn(&[u8], &[u8]) -> bool,
) -> Option<Vec<u8>> {
    let mounts = mountinfo.split(|c| *c == b'\n').filter_map(|line| {
        let words: Vec<&[u8]> = line.split(|c| *c == b' ').collect();
        let end_of_options = words.iter().position(|word| *word == b"-")?;
        let kind = words.get(end_of_options + 1)?;
        let options = words.get(end_of_options + 3).copied().unwrap_or_default();
        if !is_meant(kind, options) {
            return None;
        }
        let (root, point) = (*words.get(3)?, without_octal(words.get(4)?));
        Some((root == b"/", is_below(&point, below), point))
    });
    // The first of equal ones: `max_by_key` would give the last.
    let mut best: Option<(bool, bool, Vec<u8>)> = None;
    for mount in mounts {
        if best
            .as_ref()
            .is_none_or(|best| (mount.0, mount.1) > (best.0, best.1))
        {
            best = Some(mount);
        }
    }
    best.map(|(_, _, point)| point)
}

fn is_below(path: &[u8], folder: &[u8]) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Decodes the kernel's escapes (`\040`, a blank).
fn without_octal(word: &[u8]) -> Vec<u8> {
    unescaped(word, b"\\", 3, 8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn groups_of_the_second_version_are_found_where_they_are_mounted() {
        let hybrid = b"31 23 0:28 / /s/fs/cgroup rw - tmpfs tmpfs rw\n\
            32 31 0:29 / /s/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
            41 31 0:38 / /s/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(
            cgroup2_mount(hybrid, b"/s").unwrap(),
            b"/s/fs/cgroup/unified"
        );
        assert_eq!(cpuset_mount(hybrid, b"/s"), None);
        let cpusets = b"33 31 0:30 / /s/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset,noprefix\n";
        assert_eq!(
            cpuset_mount(cpusets, b"/s").unwrap(),
            b"/s/fs/cgroup/cpuset"
        );
        let several = b"1 2 0:3 /../.. /s/fs/cgroup rw - cgroup2 cgroup rw\n\
            1 2 0:3 / /other rw - cgroup2 cgroup rw\n\
            1 2 0:3 / /host/s/fs\\040x/cgroup rw - cgroup2 cgroup rw\n\
            1 2 0:3 / /host/s/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(
            cgroup2_mount(several, b"/host/s").unwrap(),
            b"/host/s/fs x/cgroup"
        );
        assert_eq!(cgroup2_mount(several, b"/s").unwrap(), b"/other");
        assert_eq!(
            cgroup2_mount(b"32 31 0:29 / /cpu rw - cgroup cgroup rw,cpu\n", b"/s"),
            None
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = (cgroup2_mount(&text, b"/s"), cpuset_mount(&text, b"/s"));
            let with_words = [b"1 1 0:1 / \\", text.as_slice(), b" - cgroup2 "].concat();
            let _ = cgroup2_mount(&with_words, b"");
            let with_words = [b"1 1 0:1 / /a - cgroup c ", text.as_slice()].concat();
            let _ = cpuset_mount(&with_words, b"");
        }
    }
}
