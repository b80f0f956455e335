//! The compact form of snapshots, for pages: what each owner caused is a sum of all CPUs, which is all
//! that a page shows of it, and was most of a message of many CPUs. What no page reads is left out. Pure.

use crate::snapshot::Snapshot;

/// The compact form of a snapshot.
pub fn compact(snapshot: &Snapshot) -> Snapshot {
    let mut compact = snapshot.clone();
    if let Some(owners) = &mut compact.sections.owners {
        owners.sum_over_cpus();
    }
    #[cfg(not(target_arch = "wasm32"))]
    {
        compact.sections.health = None;
    }
    compact
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{self, ServerMessage};
    use crate::sections::{Caused, Owner, OwnerKind, Owners, Sections};

    #[test]
    fn a_page_gets_nothing_that_it_does_not_read() {
        let mut snapshot = Snapshot::default();
        snapshot.sections.health = Some(crate::fixture::health());
        assert_eq!(compact(&snapshot), Snapshot::default());
    }

    #[test]
    fn a_page_gets_what_each_owner_caused_on_all_cpus_together() {
        let group = Owner {
            id: 7,
            ..Owner::single(OwnerKind::Cgroup)
        };
        let owners = Owners {
            owners: vec![group],
            caused: vec![Caused {
                owner: 0,
                component: 1,
                cpu_ns: (0..128).map(|cpu| cpu * 1_003).collect(),
            }],
            irq_pressure_ns: vec![None],
            ..Owners::default()
        };
        let snapshot = |sequence| Snapshot {
            sequence,
            interval_ns: 500_000_000,
            cpus: (0..128).collect(),
            sections: Sections {
                owners: Some(owners.clone()),
                ..Sections::default()
            },
            ..Snapshot::default()
        };
        let read = |sequence| {
            let bytes = codec::encode_snapshot(&compact(&snapshot(sequence))).unwrap();
            let full = codec::encode_snapshot(&snapshot(sequence)).unwrap();
            assert!(bytes.len() + 200 < full.len());
            match codec::decode(&bytes).unwrap() {
                ServerMessage::Snapshot(snapshot) => *snapshot,
                other => panic!("{other:?}"),
            }
        };
        let (mut sum, later) = (read(1), read(2));
        assert_eq!(
            sum.sections.owners.as_ref().unwrap().accounts(),
            owners.accounts()
        );
        sum.add(&later);
        let twice: Vec<u64> = owners
            .accounts()
            .iter()
            .map(|account| 2 * account.caused_ns)
            .collect();
        let summed = sum.sections.owners.unwrap().accounts();
        let summed: Vec<u64> = summed.iter().map(|account| account.caused_ns).collect();
        assert_eq!(summed, twice);
    }
}
