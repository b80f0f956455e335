//! What netto itself costs, as JSON.

use metrics_common::{CostliestCpu, Info, InstrumentCost, OwnCost, OwnPart, Snapshot};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// [`OwnCost`] with its parts under their names.
#[derive(Debug, Serialize)]
pub(super) struct OwnView<'a> {
    user_ns: u64,
    system_ns: u64,
    resident_bytes: u64,
    analysis_ns: u64,
    /// What all known parts took from all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    taken_ns: Option<u64>,
    /// That as a share of the CPU time that all CPUs had in the interval, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    share_ratio: Option<f64>,
    /// The CPU that has paid most over the last ten seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    costliest: Option<CostliestCpu>,
    /// What that may be; absent if it is not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_overhead_ratio: Option<f64>,
    parts: Parts<'a>,
    /// Stack samples per second that each CPU is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    sampling_hz: Option<&'a [u64]>,
    instruments: &'a [InstrumentCost],
}

impl<'a> OwnView<'a> {
    pub(super) fn new(info: &Info, snapshot: &Snapshot, own: &'a OwnCost) -> Self {
        let capacity_ns = snapshot.capacity_ns();
        let taken_ns = own.taken_total_ns();
        OwnView {
            user_ns: own.user_ns,
            system_ns: own.system_ns,
            resident_bytes: own.resident_bytes,
            analysis_ns: own.analysis_ns,
            taken_ns,
            share_ratio: taken_ns
                .filter(|_| capacity_ns > 0)
                .map(|ns| ns as f64 / capacity_ns as f64),
            costliest: own.costliest,
            max_overhead_ratio: info.max_overhead_ratio,
            parts: Parts(own),
            sampling_hz: own.sampling_hz.as_deref(),
            instruments: &own.instruments,
        }
    }
}

/// The rows under their slugs, in order.
#[derive(Debug)]
struct Parts<'a>(&'a OwnCost);

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum PartView<'a> {
    Known {
        instrument: &'static str,
        cpu_ns: &'a [u64],
        total_ns: u64,
    },
    Unavailable {
        unavailable: &'static str,
    },
}

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let own = self.0;
        let mut map = serializer.serialize_map(Some(OwnPart::ALL.len()))?;
        for part in OwnPart::ALL {
            let view = match own.part_ns(part).zip(own.part_total_ns(part)) {
                Some((cpu_ns, total_ns)) => PartView::Known {
                    instrument: part.instrument(),
                    cpu_ns,
                    total_ns,
                },
                None => PartView::Unavailable {
                    unavailable: "not known in this interval",
                },
            };
            map.serialize_entry(part.slug(), &view)?;
        }
        map.end()
    }
}
