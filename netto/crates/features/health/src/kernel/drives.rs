//! Drives that tell of themselves: wear, errors and temperature of NVMe drives by their log page, of ATA
//! drives without moving parts by their statistics, and temperatures of others by hwmon.
//!
//! A drive may take its time to answer: this is for a thread that only reads.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use metrics_common::sections::{DriveHealth, MOST_OF_HEALTH, MissingFigure};
use netto_sys::files::{read, read_number};
use netto_sys::system::Roots;
use netto_sys::{ata, nvme};

use crate::analysis::ata::{ERRORS, SOLID_STATE, Statistics, TEMPERATURE, attributes};
use crate::analysis::smart;

/// Time between two readings.
pub(crate) const EVERY_NS: u64 = 180_000_000_000;

/// What was read at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) drives: Vec<DriveHealth>,
    pub(crate) missing: Vec<MissingFigure>,
}

/// Reads all of it now, on a thread of its own; ATA drives are asked if `asks_ata`.
pub(crate) fn read_all(roots: &Roots, asks_ata: bool) -> Reading {
    read_from(roots, Path::new("/dev"), asks_ata)
}

fn read_from(roots: &Roots, devices: &Path, asks_ata: bool) -> Reading {
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
    for name in names_of_ata(roots) {
        if !asks_ata {
            reasons.push(format!("{name}: ATA drives are asked with --score-ata"));
            continue;
        }
        match ata_drive(&devices.join(&name), &name) {
            Ok(drive) => reading.drives.push(drive),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                reasons.push(format!(
                    "{name}: the kernel asks for CAP_SYS_RAWIO ({error})"
                ));
            }
            Err(error) => reasons.push(format!("{name}: {error}")),
        }
    }
    for sensor in sensors(roots) {
        let place = reading
            .drives
            .iter()
            .position(|drive| drive.name == sensor.name);
        let place = place.unwrap_or_else(|| {
            reading.drives.push(DriveHealth {
                name: sensor.name,
                ..DriveHealth::default()
            });
            reading.drives.len() - 1
        });
        let drive = &mut reading.drives[place];
        drive.celsius = drive.celsius.or(sensor.celsius);
        drive.warning_celsius = sensor.warning_celsius.or(drive.warning_celsius);
    }
    // One that tells nothing is among the reasons.
    reading
        .drives
        .retain(|drive| drive.wear_percent.is_some() || drive.celsius.is_some());
    reading.drives.truncate(MOST_OF_HEALTH);
    if reading
        .drives
        .iter()
        .all(|drive| drive.wear_percent.is_none())
    {
        let none = "no NVMe drive and no ATA SSD is here; other drives are not asked".to_owned();
        reading.missing.push(MissingFigure {
            figure: "wear".to_owned(),
            reason: if reasons.is_empty() {
                none
            } else {
                reasons.join("; ")
            },
        });
    }
    if reading.drives.iter().all(|drive| drive.celsius.is_none()) {
        reading.missing.push(MissingFigure {
            figure: "temperature".to_owned(),
            reason: "no drive has a sensor here".to_owned(),
        });
    }
    reading
}

/// ATA drives without moving parts: others have no wear, and asking would keep them from resting.
fn names_of_ata(roots: &Roots) -> Vec<String> {
    let folder = roots.sys_root.join("block");
    let is_meant = |name: &String| {
        let device = folder.join(name);
        let is_ata = read(&device.join("device/vendor")).is_ok_and(|vendor| vendor.trim() == "ATA");
        is_ata && read_number(&device.join("queue/rotational")).is_ok_and(|number| number == 0)
    };
    names_in(&folder).into_iter().filter(is_meant).collect()
}

/// By its statistics, which are standard; if it has none, by its maker's attributes.
fn ata_drive(device: &Path, name: &str) -> io::Result<DriveHealth> {
    let page = |number| match ata::statistics(device, number) {
        Ok(page) => Ok(Some(page)),
        // It has no such page.
        Err(error) if error.raw_os_error().is_none() => Ok(None),
        Err(error) => Err(error),
    };
    let statistics = Statistics {
        solid_state: page(SOLID_STATE)?,
        errors: page(ERRORS)?,
        temperature: page(TEMPERATURE)?,
    };
    let drive = statistics.health(name);
    if drive.wear_percent.is_some() {
        return Ok(drive);
    }
    Ok(attributes(name, &ata::smart_data(device)?))
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
        let reading = read_from(&roots, dir.path(), true);
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
    fn of_ata_drives_only_those_without_moving_parts_are_asked_and_only_who_wants_that() {
        let (dir, roots) = tree(&[
            ("sys/block/sda/device/vendor", "ATA     \n"),
            ("sys/block/sda/queue/rotational", "0\n"),
            ("sys/block/sdb/device/vendor", "ATA     \n"),
            ("sys/block/sdb/queue/rotational", "1\n"),
            ("sys/block/sdc/device/vendor", "QEMU\n"),
            ("sys/block/sdc/queue/rotational", "0\n"),
        ]);
        let reason = |asks_ata| {
            let reading = read_from(&roots, dir.path(), asks_ata);
            reading.missing[0].reason.clone()
        };
        assert_eq!(reason(false), "sda: ATA drives are asked with --score-ata");
        assert!(
            reason(true).starts_with("sda: No such file"),
            "{}",
            reason(true)
        );
    }

    #[test]
    fn a_host_without_drives_says_so() {
        let reading = read_from(&tree(&[]).1, Path::new("/nowhere"), true);
        let figures: Vec<&str> = reading
            .missing
            .iter()
            .map(|missing| &*missing.figure)
            .collect();
        assert_eq!(
            (figures, reading.drives.len()),
            (vec!["wear", "temperature"], 0)
        );
    }
}
