//! Owners of a component's time, as lines on a terminal. Pure.

use metrics_common::{Info, Snapshot};
use netto_questions::api::absence;
use netto_questions::line::{Line, Value};

/// Most owners with a line; the others share one.
const MOST_OWNERS: usize = 50;
/// Owners have no colours of their own.
const COLOR: (u8, u8, u8) = (0x5b, 0x8f, 0xb9);

/// The owners of this component, the largest first; if they are not measured, one line with the
/// reason.
pub fn lines(info: &Info, sum: &Snapshot, component: usize) -> Vec<Line> {
    let Some(owners) = &sum.sections.owners else {
        let reason = absence(info, "owners").unwrap_or("not measured in this interval");
        return vec![Line::new("", "Owners", COLOR, Err(reason.to_owned()))];
    };
    let owners = owners.of_component(component).largest(MOST_OWNERS);
    let intervals = owners.intervals().accounts;
    let known = owners.owners.iter().zip(owners.totals_ns()).zip(intervals);
    known
        .filter(|((_, ns), _)| *ns > 0)
        .enumerate()
        .map(|(place, ((owner, ns), intervals))| {
            let value = Value::of(sum, ns, intervals.caused_interval_ns);
            let label = owner.label();
            Line::new(format!("{place} {label}"), label, COLOR, Ok(value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;
    use metrics_common::sections::Caused;
    use metrics_common::{
        Availability, InstrumentInfo, Owner, OwnerKind, Owners, Sections, fixture,
    };

    use super::*;

    #[test]
    fn owners_stand_with_their_share_of_the_component_or_the_reason_why_not() {
        let mut info = fixture::info();
        let gro = index_of("gro").unwrap();
        let mut snapshot = Snapshot {
            interval_ns: 1_000,
            cpus: vec![0, 1],
            ..Snapshot::default()
        };
        info.instruments = vec![InstrumentInfo {
            name: "owners".to_owned(),
            availability: Availability::missing("off"),
        }];
        let absent = lines(&info, &snapshot, gro);
        assert_eq!(absent[0].value, Err("off".to_owned()));
        let mut owners = Owners::default();
        let owner = owners.place_of(&Owner::single(OwnerKind::Nobody));
        for component in [gro, index_of("send_copy").unwrap()] {
            owners.caused.push(Caused {
                owner,
                component: component as u32,
                cpu_ns: vec![100, 100],
            });
        }
        snapshot.sections = Sections {
            owners: Some(owners),
            ..Sections::default()
        };
        let [line] = &lines(&info, &snapshot, gro)[..] else {
            panic!("one owner");
        };
        let value = line.value.as_ref().unwrap();
        assert_eq!((line.label.as_str(), value.ns), ("no owner", 200));
        assert!((value.cpus - 0.2).abs() < 1e-9 && (value.ratio - 0.1).abs() < 1e-9);
    }
}
