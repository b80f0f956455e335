//! The RAPL zones below `/sys/class/powercap` and their counters.

use std::fs;
use std::path::Path;

use anyhow::anyhow;

use super::analysis::Zone;
use netto_sys::files::{read, read_number, short_line};
use netto_sys::system::Roots;

/// Every RAPL zone with its counter.
///
/// # Errors
/// Why there is none, or none can be read.
pub fn zones(roots: &Roots) -> anyhow::Result<Vec<Zone>> {
    let base = roots.sys_root.join("class/powercap");
    let mut zones = Vec::new();
    let mut refused = None;
    let entries = fs::read_dir(&base).map_err(|_| {
        anyhow!(
            "this machine has no RAPL energy counters ({} is absent)",
            base.display()
        )
    })?;
    for entry in entries.flatten() {
        let file_name = entry.file_name().to_string_lossy().into_owned();
        // `intel-rapl:0` is a package (also of AMD), `intel-rapl:0:1` a part of it.
        // `intel-rapl-mmio:0` is the same package again.
        let Some(numbers) = file_name.strip_prefix("intel-rapl:") else {
            continue;
        };
        let path = entry.path();
        let zone = zone_name(&base, &path, numbers).and_then(|name| {
            Ok(Zone {
                name,
                energy_uj: read_number(&path.join("energy_uj"))?,
                max_energy_uj: read_number(&path.join("max_energy_range_uj"))?,
            })
        });
        match zone {
            Ok(zone) => zones.push(zone),
            Err(error) => refused = Some(error),
        }
    }
    zones.sort_by(|a, b| a.name.cmp(&b.name));
    // Zones are identified by name, so only one of two with the same name is used.
    zones.dedup_by(|a, b| a.name == b.name);
    match (zones.is_empty(), refused) {
        (false, _) => Ok(zones),
        (true, Some(error)) => Err(error.context(
            "the RAPL energy counters cannot be read; run as root or with CAP_DAC_READ_SEARCH",
        )),
        (true, None) => Err(anyhow!(
            "this machine has no RAPL energy counters (no zone in {})",
            base.display()
        )),
    }
}
fn zone_name(base: &Path, path: &Path, numbers: &str) -> anyhow::Result<String> {
    let name_in = |folder: &Path| {
        let path = folder.join("name");
        let text = read(&path)?;
        short_line(&text).ok_or_else(|| anyhow!("{} holds no name", path.display()))
    };
    let name = name_in(path)?;
    match numbers.split_once(':') {
        None => Ok(name),
        Some((package, _)) => {
            let parent = name_in(&base.join(format!("intel-rapl:{package}")))?;
            Ok(format!("{parent}/{name}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::analysis::{CpuTime, Energy};
    use netto_sys::system::testing::tree;

    proptest! {
        #[test]
        fn no_text_in_any_file_makes_the_reader_panic(text in "[-0-9,]{0,40}|.{0,60}") {
            let files = ["name", "energy_uj", "max_energy_range_uj"]
                .map(|file| format!("sys/class/powercap/intel-rapl:0/{file}"));
            let files: Vec<(&str, &str)> = files.iter().map(|path| (path.as_str(), text.as_str())).collect();
            let (_dir, roots) = tree(&files);
            if let Ok(found) = zones(&roots) {
                let mut energy = Energy::default();
                energy.advance(&found, 1, CpuTime::default());
                energy.advance(&found, 1, CpuTime::default());
            }
        }
    }

    #[test]
    fn of_two_zones_with_one_name_one_is_followed() {
        let zone = |number: u32, file: &str, text: &str| {
            let path = format!("sys/class/powercap/intel-rapl:{number}/{file}");
            (path, text.to_owned())
        };
        let files: Vec<(String, String)> = (0..2)
            .flat_map(|number| {
                let (name, uj, most) = ("name", "energy_uj", "max_energy_range_uj");
                let reading = if number == 0 { "1" } else { "9000000" };
                [
                    zone(number, name, "package-0\n"),
                    zone(number, uj, reading),
                    zone(number, most, "10000000"),
                ]
            })
            .collect();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let (_dir, roots) = tree(&files);
        assert_eq!(zones(&roots).unwrap().len(), 1);
    }

    /// A made-up two-socket server; there is no RAPL on the machines that test this.
    #[test]
    fn rapl_zones_are_named_with_their_package_and_mmio_twins_are_left_out() {
        let zone = |dir: &str, name: &str, uj: &str| {
            [
                ("name", name),
                ("energy_uj", uj),
                ("max_energy_range_uj", "262143328850"),
            ]
            .map(|(file, text)| {
                (
                    format!("sys/class/powercap/{dir}/{file}"),
                    format!("{text}\n"),
                )
            })
        };
        let files: Vec<(String, String)> = [
            zone("intel-rapl:0", "package-0", "11"),
            zone("intel-rapl:0:0", "dram", "12"),
            zone("intel-rapl:1", "package-1", "13"),
            zone("intel-rapl-mmio:0", "package-0", "11"),
        ]
        .concat();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(p, t)| (p.as_str(), t.as_str()))
            .collect();
        let (_dir, roots) = tree(&files);
        let found = zones(&roots).unwrap();
        let seen: Vec<(&str, u64)> = found
            .iter()
            .map(|z| (z.name.as_str(), z.energy_uj))
            .collect();
        assert_eq!(
            seen,
            [("package-0", 11), ("package-0/dram", 12), ("package-1", 13)]
        );
    }

    #[test]
    fn no_rapl_and_unreadable_rapl_are_different_reasons() {
        let (_dir, roots) = tree(&[]);
        assert!(zones(&roots).unwrap_err().to_string().contains("no RAPL"));
        let (_dir, roots) = tree(&[("sys/class/powercap/intel-rapl:0/name", "package-0\n")]);
        assert!(
            zones(&roots)
                .unwrap_err()
                .to_string()
                .contains("CAP_DAC_READ_SEARCH")
        );
    }
}
