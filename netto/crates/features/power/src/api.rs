//! Networking's power as JSON, or why it is not known.

use metrics_common::{Info, Snapshot, ZonePower};
use netto_questions::api::{Api, Object, reason};
use serde::Serialize;

/// What is shown of power.
pub const API: Api = Api {
    snapshot: Some(write),
    ..Api::SECTION
};

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum PowerView<'a> {
    Measured {
        host_watts: f64,
        network_watts: f64,
        network_energy_joules: f64,
        zones: &'a [ZonePower],
    },
    Unavailable {
        unavailable: &'a str,
    },
}

fn write(info: &Info, snapshot: &Snapshot, object: &mut Object) {
    let view = match &snapshot.sections.power {
        Some(power) => PowerView::Measured {
            host_watts: power.host_watts,
            network_watts: power.network_watts,
            network_energy_joules: power.network_energy_joules,
            zones: &power.zones,
        },
        None => PowerView::Unavailable {
            unavailable: reason(&info.power),
        },
    };
    object.member("power", &view);
}

#[cfg(test)]
mod tests {
    use metrics_common::Power;
    use metrics_common::fixture::{measured as snapshot, without_xdp as info};

    use super::*;

    fn shown(info: &Info, snapshot: &Snapshot) -> serde_json::Value {
        let mut object = Object::default();
        write(info, snapshot, &mut object);
        let shown: serde_json::Value = serde_json::from_slice(&object.end().unwrap()).unwrap();
        shown["power"].clone()
    }

    #[test]
    fn power_is_given_or_explained() {
        let info = info();
        let mut snapshot = snapshot(1);
        assert_eq!(
            shown(&info, &snapshot),
            serde_json::json!({"unavailable": "no RAPL"})
        );
        snapshot.sections.power = Some(Power {
            host_watts: 40.0,
            network_watts: 10.0,
            network_energy_joules: 5.0,
            zones: vec![ZonePower {
                zone: "package-0".to_owned(),
                energy_joules: 20.0,
            }],
        });
        let power = &shown(&info, &snapshot);
        assert_eq!(power["network_watts"], 10.0);
        assert_eq!(power["zones"][0]["zone"], "package-0");
    }
}
