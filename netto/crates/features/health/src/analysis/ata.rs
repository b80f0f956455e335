//! What an ATA drive tells of itself: its device statistics, which are standard (ACS-3 and later), or the
//! attributes of its SMART data, which are its maker's.

use metrics_common::sections::DriveHealth;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 512;
/// The pages of the device statistics with what a score needs.
pub(crate) const ERRORS: u8 = 4;
pub(crate) const TEMPERATURE: u8 = 5;
pub(crate) const SOLID_STATE: u8 = 7;
/// The attributes by which makers tell how much of a drive's life is left, as a value from 100 on
/// downwards: media wearout, life left, lifetime remaining, wear leveling.
const LIFE_LEFT: [u8; 4] = [233, 231, 202, 177];
const REPORTED_ERRORS: u8 = 187;
const CELSIUS: u8 = 194;
/// The first attribute, and the length of each.
const FIRST: usize = 2;
const ATTRIBUTE_BYTES: usize = 12;
const ATTRIBUTES: usize = 30;

/// Pages of the device statistics, those that the drive has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Statistics {
    pub(crate) errors: Option<[u8; PAGE_BYTES]>,
    pub(crate) temperature: Option<[u8; PAGE_BYTES]>,
    pub(crate) solid_state: Option<[u8; PAGE_BYTES]>,
}

impl Statistics {
    /// The health in the pages.
    pub(crate) fn health(&self, name: &str) -> DriveHealth {
        let statistic_of =
            |page: &Option<[u8; PAGE_BYTES]>, number, at| statistic(page.as_ref()?, number, at);
        let celsius = |at| {
            Some(i64::from(
                statistic_of(&self.temperature, TEMPERATURE, at)? as u8 as i8,
            ))
        };
        DriveHealth {
            name: name.to_owned(),
            wear_percent: statistic_of(&self.solid_state, SOLID_STATE, 8).map(|word| word & 0xff),
            media_errors: statistic_of(&self.errors, ERRORS, 8).map(|word| word & 0xffff_ffff),
            celsius: celsius(8),
            warning_celsius: celsius(88),
        }
    }
}

/// The statistic at an offset of a page: its value, if the drive has it and says that it is valid.
fn statistic(page: &[u8; PAGE_BYTES], number: u8, at: usize) -> Option<u64> {
    const IS_SUPPORTED_AND_VALID: u64 = 0b11 << 62;
    let word = u64::from_le_bytes(page[at..at + 8].try_into().ok()?);
    let is_there = word & IS_SUPPORTED_AND_VALID == IS_SUPPORTED_AND_VALID;
    (page[2] == number && is_there).then_some(word & ((1 << 56) - 1))
}

/// The health in SMART data, as far as makers agree.
pub(crate) fn attributes(name: &str, data: &[u8; PAGE_BYTES]) -> DriveHealth {
    let all = data[FIRST..].chunks_exact(ATTRIBUTE_BYTES).take(ATTRIBUTES);
    let attribute = |id: u8| all.clone().find(|attribute| attribute[0] == id);
    let raw = |id: u8| {
        let raw = attribute(id)?[5..11].iter().rev();
        Some(raw.fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    let left = LIFE_LEFT.iter().filter_map(|id| Some(attribute(*id)?[3]));
    // More than 100 is another scale.
    let left = left.filter(|left| (1..=100).contains(left));
    DriveHealth {
        name: name.to_owned(),
        wear_percent: left.map(|left| 100 - u64::from(left)).next(),
        media_errors: raw(REPORTED_ERRORS),
        // Above the lowest byte some have the least and the most.
        celsius: raw(CELSIUS).map(|raw| i64::from(raw as u8 as i8)),
        warning_celsius: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page as the standard lays it out, with these statistics; not one that was recorded.
    fn page(number: u8, statistics: &[(usize, u64)]) -> [u8; PAGE_BYTES] {
        let mut page = [0; PAGE_BYTES];
        (page[0], page[2]) = (1, number);
        for (at, word) in statistics {
            page[*at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        page
    }

    const VALID: u64 = 0xc0 << 56;

    #[test]
    fn statistics_stand_where_the_standard_says_and_invalid_ones_are_absent() {
        let statistics = Statistics {
            errors: Some(page(ERRORS, &[(8, VALID | 7), (16, VALID | 900)])),
            temperature: Some(page(TEMPERATURE, &[(8, VALID | 0xfb), (88, VALID | 70)])),
            solid_state: Some(page(SOLID_STATE, &[(8, VALID | 103)])),
        };
        let health = statistics.health("sda");
        assert_eq!(
            (health.wear_percent, health.media_errors),
            (Some(103), Some(7))
        );
        assert_eq!(
            (health.celsius, health.warning_celsius),
            (Some(-5), Some(70))
        );
        let statistics = Statistics {
            // Supported, but not valid; and another page than was asked for.
            solid_state: Some(page(SOLID_STATE, &[(8, 0x80 << 56 | 3)])),
            temperature: Some(page(ERRORS, &[(8, VALID | 30)])),
            errors: None,
        };
        let none = DriveHealth {
            name: "sdb".to_owned(),
            ..DriveHealth::default()
        };
        assert_eq!(statistics.health("sdb"), none);
    }

    /// SMART data with these attributes: number, value, raw value.
    fn data(attributes: &[(u8, u8, u64)]) -> [u8; PAGE_BYTES] {
        let mut data = [0; PAGE_BYTES];
        let places = data[FIRST..].chunks_exact_mut(ATTRIBUTE_BYTES);
        for (place, (id, value, raw)) in places.zip(attributes) {
            (place[0], place[3], place[4]) = (*id, *value, *value);
            place[5..11].copy_from_slice(&raw.to_le_bytes()[..6]);
        }
        data
    }

    #[test]
    fn attributes_tell_what_is_left_of_a_life() {
        let of_samsung = data(&[(9, 98, 9_000), (177, 96, 168), (187, 100, 2), (194, 69, 31)]);
        let drive = attributes("sda", &of_samsung);
        assert_eq!((drive.wear_percent, drive.media_errors), (Some(4), Some(2)));
        assert_eq!((drive.celsius, drive.warning_celsius), (Some(31), None));
        // The lowest byte is the temperature now, above it the least and the most.
        let of_others = data(&[(233, 88, 0), (177, 1, 0), (194, 100, 0x0035_0012_0021)]);
        let drive = attributes("sda", &of_others);
        assert_eq!((drive.wear_percent, drive.celsius), (Some(12), Some(33)));
        let none = attributes("sda", &data(&[(231, 0, 0), (233, 200, 0)]));
        assert_eq!((none.wear_percent, none.celsius), (None, None));
    }
}
