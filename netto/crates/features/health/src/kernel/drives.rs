//! Drives that tell of themselves: wear, errors and temperature of NVMe drives by their log page, and
//! temperatures of others by hwmon.
//!
//! A drive may take its time to answer: this is for a thread that only reads.

use std::fs;
use std::path::{Path, PathBuf};

use metrics_common::sections::{DriveHealth, MOST_OF_HEALTH, MissingFigure};
use netto_sys::files::{read, read_number};
use netto_sys::nvme;
use netto_sys::system::Roots;

use crate::analysis::smart;

/// Time between two readings.
pub(crate) const EVERY_NS: u64 = 180_000_000_000;

/// What was read at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) drives: Vec<DriveHealth>,
    pub(crate) missing: Vec<MissingFigure>,
}

/// Reads all of it now, on a thread of its own.
pub(crate) fn read_all(roots: &Roots) -> Reading {
    read_from(roots, Path::new("/dev"))
}

fn read_from(roots: &Roots, devices: &Path) -> Reading {
    let mut reading = Reading::default();
    let mut reasons = Vec::new();
    for name in names_in(&roots.sys_root.join("class/nvme")) {
        let drive = match nvme::smart_log(&devices.join(&name)) {
            Ok(page) => smart::parse(&name, &page),
            Err(error) => {
                reasons.push(format!("{name}: {error}"));
                DriveHealth {
                    name,
                    ..DriveHealth::default()
                }
            }
        };
        reading.drives.push(drive);
    }
    for sensor in sensors(roots) {
        let place = reading
            .drives
            .iter()
            .position(|own| own.name == sensor.name);
        let place = place.unwrap_or_else(|| {
            reading.drives.push(DriveHealth {
                name: sensor.name,
                ..DriveHealth::default()
            });
            reading.drives.len() - 1
        });
        let drive = &mut reading.drives[place];
        drive.celsius = drive.celsius.or(sensor.celsius);
        drive.warning_celsius = sensor.warning_celsius;
    }
    // One that tells nothing is among the reasons.
    reading
        .drives
        .retain(|own| own.wear_percent.is_some() || own.celsius.is_some());
    reading.drives.truncate(MOST_OF_HEALTH);
    if reading.drives.iter().all(|own| own.wear_percent.is_none()) {
        let none = "no NVMe drive is here; ATA and SCSI drives are not asked".to_owned();
        reading.missing.push(MissingFigure {
            figure: "wear".to_owned(),
            reason: match reasons.is_empty() {
                true => none,
                false => reasons.join("; "),
            },
        });
    }
    if reading.drives.iter().all(|own| own.celsius.is_none()) {
        reading.missing.push(MissingFigure {
            figure: "temperature".to_owned(),
            reason: "no drive has a sensor here".to_owned(),
        });
    }
    reading
}

/// The names in a folder, in order.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.take(MOST_OF_HEALTH).collect();
    names.sort();
    names
}

/// Temperatures of drives, by their drivers (`nvme`) or `drivetemp`.
fn sensors(roots: &Roots) -> impl Iterator<Item = DriveHealth> {
    let folder = roots.sys_root.join("class/hwmon");
    let all = names_in(&folder)
        .into_iter()
        .map(move |name| folder.join(name));
    all.filter_map(|path| {
        let kind = read(&path.join("name")).ok()?;
        let device = fs::canonicalize(path.join("device")).ok()?;
        let name = match kind.trim() {
            "nvme" => device.file_name()?.to_str()?.to_owned(),
            "drivetemp" => names_in(&device.join("block")).into_iter().next()?,
            _ => return None,
        };
        let celsius = |file: PathBuf| Some((read_number(&file).ok()? / 1_000) as i64);
        Some(DriveHealth {
            name,
            celsius: celsius(path.join("temp1_input")),
            warning_celsius: celsius(path.join("temp1_max")),
            ..DriveHealth::default()
        })
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use netto_sys::system::testing::tree;

    use super::*;

    #[test]
    fn a_drive_without_answer_has_a_reason_and_a_sensor_its_drive() {
        let (dir, roots) = tree(&[
            ("sys/class/nvme/nvme0/size", ""),
            ("sys/class/hwmon/hwmon0/name", "drivetemp\n"),
            ("sys/class/hwmon/hwmon0/temp1_input", "43000\n"),
            ("sys/class/hwmon/hwmon0/temp1_max", "60000\n"),
            ("sys/class/hwmon/hwmon1/name", "acpitz\n"),
            ("sys/devices/ata1/block/sda/size", "1\n"),
        ]);
        let device = dir.path().join("sys/class/hwmon/hwmon0/device");
        symlink(dir.path().join("sys/devices/ata1"), device).unwrap();
        let reading = read_from(&roots, dir.path());
        let [sda] = &reading.drives[..] else {
            panic!("{reading:?}");
        };
        assert_eq!(
            (&*sda.name, sda.celsius, sda.warning_celsius),
            ("sda", Some(43), Some(60))
        );
        assert_eq!(reading.missing[0].figure, "wear");
        assert!(
            reading.missing[0].reason.starts_with("nvme0: "),
            "{reading:?}"
        );
    }

    #[test]
    fn a_host_without_drives_says_so() {
        let reading = read_from(&tree(&[]).1, Path::new("/nowhere"));
        let figures: Vec<&str> = reading.missing.iter().map(|own| &*own.figure).collect();
        assert_eq!(
            (figures, reading.drives.len()),
            (vec!["wear", "temperature"], 0)
        );
    }
}
