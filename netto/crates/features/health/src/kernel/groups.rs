//! Names of control groups (version 2) by their numbers. What was found once is kept.

use std::collections::HashMap;
use std::path::PathBuf;

use netto_sys::cgroups::{self, Handles};
use netto_sys::system::Roots;

/// Most names that are kept in mind.
const MOST: usize = 4_096;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Names {
    /// `None` if control groups are not mounted, or the kernel refuses to find one by its number.
    found_by: Option<(Handles, PathBuf)>,
    known: HashMap<u64, String>,
}

impl Names {
    /// Nothing was asked yet.
    pub(crate) fn new(roots: &Roots) -> Self {
        let mount = cgroups::mount(roots).ok().flatten();
        Names {
            found_by: mount.and_then(|mount| Some((Handles::new(&mount)?, mount))),
            known: HashMap::new(),
        }
    }

    /// The path of a group below the mount; its number, where that is not to be had.
    pub(crate) fn of(&mut self, number: u64) -> String {
        if self.known.len() > MOST {
            self.known.clear();
        }
        let found_by = &self.found_by;
        let name = self.known.entry(number).or_insert_with(|| {
            let found = found_by.as_ref();
            let path = found.and_then(|(handles, mount)| handles.path(number, mount));
            path.map_or_else(
                || format!("group {number}"),
                |path| String::from_utf8_lossy(&path).into_owned(),
            )
        });
        name.clone()
    }
}

#[cfg(test)]
mod tests {
    use netto_sys::system::testing::tree;

    use super::*;

    #[test]
    fn without_a_hierarchy_a_group_has_its_number() {
        let (_dir, roots) = tree(&[]);
        let mut names = Names::new(&roots);
        assert_eq!([names.of(7), names.of(7)], ["group 7", "group 7"]);
    }
}
