//! What an NVMe drive tells of itself: its log page of SMART and health, by the NVMe specification.

use metrics_common::sections::DriveHealth;

/// Bytes of the log page (identifier 02h).
pub(crate) const LOG_BYTES: usize = 512;

/// The health in a log page. Temperatures are in kelvins; 0 says that there is none.
pub(crate) fn parse(name: &str, page: &[u8; LOG_BYTES]) -> DriveHealth {
    // Counters have 128 bits.
    let media_errors = u128::from_le_bytes(std::array::from_fn(|at| page[160 + at]));
    let kelvin = u16::from_le_bytes([page[1], page[2]]);
    DriveHealth {
        name: name.to_owned(),
        wear_percent: Some(u64::from(page[5])),
        media_errors: Some(u64::try_from(media_errors).unwrap_or(u64::MAX)),
        celsius: (kelvin > 0).then(|| i64::from(kelvin) - 273),
        warning_celsius: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page as the specification lays it out; not one that was recorded.
    fn page(kelvin: u16, used: u8, media_errors: u128) -> [u8; LOG_BYTES] {
        let mut page = [0; LOG_BYTES];
        page[1..3].copy_from_slice(&kelvin.to_le_bytes());
        (page[3], page[4], page[5]) = (100, 10, used);
        // Data units read are before it, the number of error log entries behind it.
        page[32..48].fill(0xff);
        page[160..176].copy_from_slice(&media_errors.to_le_bytes());
        page[176..192].fill(0xff);
        page
    }

    #[test]
    fn wear_errors_and_temperature_stand_where_the_specification_says() {
        let drive = parse("nvme0", &page(318, 103, 7));
        assert_eq!(
            (drive.wear_percent, drive.media_errors, drive.celsius),
            (Some(103), Some(7), Some(45))
        );
        let drive = parse("nvme1", &page(0, 0, u128::MAX));
        assert_eq!((drive.media_errors, drive.celsius), (Some(u64::MAX), None));
    }
}
