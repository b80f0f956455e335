//! What block devices are, by `/sys`: their class, what is stacked on what, and which disk a
//! partition is of. What was read once is kept.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use netto_sys::files::{read, read_number};
use netto_sys::system::Roots;

use crate::analysis::devices::{Listed, Number};

/// Most devices that are kept in mind.
const MOST: usize = 4_096;

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Devices {
    roots: Roots,
    /// Of the score; empty: all that are not stacked on others.
    chosen: Vec<String>,
    classes: HashMap<(Number, String), Option<String>>,
    disks: HashMap<Number, Option<String>>,
}

impl Devices {
    /// Nothing was read yet.
    pub(crate) fn new(roots: &Roots, chosen: &[String]) -> Self {
        Devices {
            roots: roots.clone(),
            chosen: chosen.to_vec(),
            classes: HashMap::new(),
            disks: HashMap::new(),
        }
    }

    /// Which of the chosen devices are not in this list.
    pub(crate) fn absent<'a>(&'a self, listed: &'a [Listed]) -> impl Iterator<Item = &'a str> {
        let chosen = self.chosen.iter().map(String::as_str);
        chosen.filter(|name| !listed.iter().any(|device| device.name == **name))
    }

    /// Takes up devices that are new.
    pub(crate) fn learn(&mut self, listed: &[Listed]) {
        if self.classes.len() > MOST {
            self.classes.clear();
        }
        for device in listed {
            let key = (device.number, device.name.clone());
            if !self.classes.contains_key(&key) {
                let class = self.read_class(&device.name);
                self.classes.insert(key, class);
            }
        }
    }

    /// The class of a device that the score is about.
    pub(crate) fn class(&self, device: &Listed) -> Option<String> {
        let class = self
            .classes
            .get(&(device.number, device.name.clone()))?
            .clone()?;
        let is_meant = if self.chosen.is_empty() {
            // What is stacked on another device would be counted twice.
            !matches!(&*class, "stacked" | "loop")
        } else {
            self.chosen.contains(&device.name)
        };
        is_meant.then_some(class)
    }

    /// Whether programs are to tell this device apart: the score is about it, or about files on it.
    pub(crate) fn is_wanted(&mut self, device: &Listed) -> bool {
        self.class(device).is_some()
            || !self.chosen.is_empty() && self.has_chosen_files(device.number)
    }

    /// Whether files on this device count: it, or the disk that it is a part of, is chosen.
    pub(crate) fn has_chosen_files(&mut self, number: Number) -> bool {
        if self.chosen.is_empty() {
            return true;
        }
        if self.disks.len() > MOST {
            self.disks.clear();
        }
        let roots = &self.roots;
        let disk = self.disks.entry(number).or_insert_with(|| {
            let path = roots.sys_root.join("dev/block").join(number.path());
            let path = fs::canonicalize(path).ok()?;
            let of_disk = if path.join("partition").exists() {
                path.parent()?
            } else {
                &*path
            };
            Some(of_disk.file_name()?.to_str()?.to_owned())
        });
        disk.as_ref().is_some_and(|disk| self.chosen.contains(disk))
    }

    /// `None` of partitions, and of memory that looks like a device.
    fn read_class(&self, name: &str) -> Option<String> {
        // A slash in a name is an exclamation mark in /sys.
        let path = self
            .roots
            .sys_root
            .join("block")
            .join(name.replace('/', "!"));
        if !path.is_dir() || name.starts_with("ram") || name.starts_with("zram") {
            return None;
        }
        Some(class_of(&path, name).to_owned())
    }
}

fn class_of(path: &Path, name: &str) -> &'static str {
    let slaves = fs::read_dir(path.join("slaves"));
    let is_stacked = slaves.is_ok_and(|mut slaves| slaves.next().is_some());
    let driver = fs::read_link(path.join("device/driver")).unwrap_or_default();
    let is_of = |driver_name: &str| driver.ends_with(driver_name);
    let is_rotational = read_number(&path.join("queue/rotational")).is_ok_and(|number| number == 1);
    let vendor = read(&path.join("device/vendor")).unwrap_or_default();
    match () {
        () if name.starts_with("loop") => "loop",
        () if is_stacked => "stacked",
        () if name.starts_with("nvme") => "nvme",
        // What it says of rotation is the hypervisor's word.
        () if is_of("virtio_blk") || is_of("xen_blkfront") || vendor.trim() == "QEMU" => "virtual",
        () if is_rotational => "rotational",
        () => "ssd",
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use netto_sys::system::testing::tree;

    use super::*;
    use crate::analysis::devices::parse;

    const LIST: &str = "8 0 sda 0 0 0 0 0 0 0 0 0 0 0\n8 1 sda1 0 0 0 0 0 0 0 0 0 0 0\n\
        7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n259 0 nvme0n1 0 0 0 0 0 0 0 0 0 0 0\n\
        253 0 dm-0 0 0 0 0 0 0 0 0 0 0 0\n252 0 zram0 0 0 0 0 0 0 0 0 0 0 0\n";

    fn host() -> (tempfile::TempDir, Roots) {
        let (dir, roots) = tree(&[
            ("sys/block/sda/queue/rotational", "1\n"),
            ("sys/block/loop0/queue/rotational", "0\n"),
            ("sys/block/nvme0n1/queue/rotational", "0\n"),
            ("sys/block/dm-0/slaves/sda/size", ""),
            ("sys/block/zram0/size", "1\n"),
            ("sys/devices/sda/sda1/partition", "1\n"),
            ("sys/dev/block/empty", ""),
        ]);
        let at = |path: &str| dir.path().join("sys").join(path);
        symlink(at("devices/sda/sda1"), at("dev/block/8:1")).unwrap();
        (dir, roots)
    }

    fn classes(chosen: &[&str]) -> Vec<Option<String>> {
        let (_dir, roots) = host();
        let chosen: Vec<String> = chosen.iter().map(|name| (*name).to_owned()).collect();
        let mut devices = Devices::new(&roots, &chosen);
        let listed = parse(LIST);
        devices.learn(&listed);
        listed.iter().map(|device| devices.class(device)).collect()
    }

    #[test]
    fn disks_have_a_class_and_nothing_is_counted_twice() {
        let all = classes(&[]);
        let all: Vec<Option<&str>> = all.iter().map(Option::as_deref).collect();
        assert_eq!(
            all,
            [Some("rotational"), None, None, Some("nvme"), None, None]
        );
        let chosen = classes(&["loop0", "dm-0"]);
        assert_eq!(chosen[2].as_deref(), Some("loop"));
        assert_eq!(
            (chosen[0].as_deref(), chosen[4].as_deref()),
            (None, Some("stacked"))
        );
    }

    #[test]
    fn files_of_a_partition_are_its_disks() {
        let (_dir, roots) = host();
        let mut devices = Devices::new(&roots, &["sda".to_owned()]);
        assert!(devices.has_chosen_files(Number::of(8, 1)));
        assert!(!devices.has_chosen_files(Number::of(9, 0)));
        let listed = parse(LIST);
        devices.learn(&listed);
        let wanted = listed.iter().filter(|device| devices.is_wanted(device));
        let wanted: Vec<&str> = wanted.map(|device| &*device.name).collect();
        assert_eq!(wanted, ["sda", "sda1"]);
        assert!(Devices::new(&roots, &[]).has_chosen_files(Number::of(9, 0)));
        assert_eq!(devices.absent(&parse(LIST)).count(), 0);
        assert_eq!(devices.absent(&[]).collect::<Vec<_>>(), ["sda"]);
    }
}
