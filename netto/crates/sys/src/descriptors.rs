//! The limit and the number of this process's open files.

use std::fs;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit to the hard limit, and returns the resulting limit.
///
/// The usual soft limit of 1024 is for programs that use `select`, which netto does not.
pub fn raise_limit() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return u64::MAX;
    };
    if setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok() {
        hard
    } else {
        soft
    }
}

/// Number of open files; `None` if `/proc` does not tell.
pub fn open_now() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    // One of them is the folder itself.
    Some((entries.count() as u64).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_opened_counts() {
        // Other tests of this process open and close files, so many are opened.
        let before = open_now().unwrap();
        let files: Vec<_> = (0..200)
            .map(|_| fs::File::open("/dev/null").unwrap())
            .collect();
        assert!(open_now().unwrap() >= before + 100);
        drop(files);
    }

    #[test]
    fn the_limit_is_as_high_as_it_may_be() {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        assert!((soft..=hard).contains(&raise_limit()));
    }
}
