//! A snapshot as JSON, for people, scripts and tests.
//!
//! The wire format is made for programs: rows by position, absent rows as null. Here every value
//! has a name, and absent values say why: each feature arranges its own section; a section without
//! such an arrangement is written as it is.

use metrics_common::sections::{Section, Visitor};
use metrics_common::{Info, Snapshot};
use netto_questions::api::{Api, Object, Refusal};

/// How a feature shows its section, with the section's name.
pub type FeatureApi = (&'static str, Api);

/// The response of `/api/v1/snapshot`.
///
/// # Errors
/// If it cannot be written.
pub fn snapshot(
    features: &[FeatureApi],
    info: &Info,
    snapshot: &Snapshot,
) -> Result<Vec<u8>, Refusal> {
    let mut object = Object::default();
    object.member("sequence", &snapshot.sequence);
    object.member("time_unix_ns", &snapshot.time_unix_ns);
    object.member("interval_ns", &snapshot.interval_ns);
    // Numbers of the CPUs: the columns of every array below.
    object.member("cpus", &snapshot.cpus);
    for write in features.iter().filter_map(|(_, api)| api.snapshot) {
        write(info, snapshot, &mut object);
    }
    let Ok(()) = snapshot.sections.visit(&mut Others {
        features,
        object: &mut object,
    });
    object.end()
}

/// Writes the sections that no feature arranges, each under its own name.
struct Others<'a> {
    features: &'a [FeatureApi],
    object: &'a mut Object,
}

impl Visitor for Others<'_> {
    type Error = std::convert::Infallible;

    fn visit<T: Section>(&mut self, name: &'static str, section: &T) -> Result<(), Self::Error> {
        let is_arranged = |(feature, api): &FeatureApi| *feature == name && api.snapshot.is_some();
        if !self.features.iter().any(is_arranged) {
            self.object.member(name, section);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture::{info, measured};
    use serde_json::{Value, json};

    use super::*;

    fn shown(features: &[FeatureApi]) -> Value {
        let text = snapshot(features, &info(), &measured(7)).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    #[test]
    fn a_section_that_nobody_has_arranged_stands_under_its_own_name() {
        let all = shown(&[("own", Api::SECTION)]);
        assert_eq!(all["sequence"], 7);
        assert_eq!(all["own"]["resident_bytes"], 20 << 20);
        assert_eq!(all["modes"]["host"]["user_ns"], 2);
        assert!(all.get("power").is_none(), "it is absent");
    }

    #[test]
    fn a_section_stands_only_as_its_feature_arranges_it() {
        let section = Api {
            snapshot: Some(|_, _, object| object.member("cost_of_netto", &1)),
            ..Api::SECTION
        };
        let all = shown(&[("own", section)]);
        assert_eq!(all["cost_of_netto"], json!(1));
        assert!(all.get("own").is_none() && all.get("modes").is_some());
    }
}
