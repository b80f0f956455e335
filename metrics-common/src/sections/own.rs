//! netto's own cost: the daemon's process, and the time that netto takes from each CPU.

use serde::{Deserialize, Serialize};

use super::columns::{Columns, Rows};
use super::recorded::Recorded;
use super::section::Section;
use crate::named;
use crate::packed::{self, Damaged, Packed};
use crate::rounding::{Carry, TIME_UNIT_NS, seven_digits};

named! {
    /// A part of netto's cost, in the order of the rows of [`OwnCost::taken_ns`].
    OwnPart:
    Softirqs "softirqs" "Softirqs" "Probes at the beginning and end of softirqs.";
    Sends "sends" "Sends" "Probes at the beginning and end of socket sends.";
    Receives "receives" "Receives" "Probes at the beginning and end of socket receives.";
    LocalIpc "local_ipc" "Local IPC" "Probes that tell sockets within the host from networking.";
    Switches "switches" "Context switches" "The probe at context switches.";
    Interrupts "interrupts" "Interrupts" "Probes that take interrupts out of what they interrupted.";
    Sampler "sampler" "Sampler" "Timer interrupts for samples, and the stacks taken in them.";
    Daemon "daemon" "Daemon" "netto's process: draining, analysis, and who reads the results.";
    Owners "owners" "Owners" "Probes that meet sockets and packets, to tell whose work softirqs do.";
    Drops "drops" "Drops" "The probe at dropped packets.";
    Traffic "traffic" "Traffic" "Probes at messages of sockets and at polls.";
    Latency "latency" "Latency" "Probes at the points where latencies of packets are taken.";
    Flows "flows" "Flows" "Programs at interfaces that count packets to their flows.";
    Health "health" "Health" "Probes at requests of block devices and at reads of files.";
}

impl OwnPart {
    /// The instrument that it belongs to; `daemon` if there is none.
    pub fn instrument(self) -> &'static str {
        match self {
            OwnPart::Softirqs | OwnPart::Sends | OwnPart::Receives | OwnPart::LocalIpc => "cost",
            OwnPart::Switches | OwnPart::Interrupts | OwnPart::Sampler => "cost",
            _ => self.slug(),
        }
    }
}

/// The CPU with the largest share of netto's cost.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostliestCpu {
    /// The kernel's number of the CPU.
    pub cpu: u32,
    /// netto's share of its time, 0 to 1.
    pub ratio: f64,
}

/// The cost of one instrument's analysis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InstrumentCost {
    /// The instrument, by its name in `/api/v1/info`.
    pub name: String,
    /// Time of its analysis in the interval, nanoseconds.
    pub analysis_ns: u64,
}

/// Most instruments of a sum: a damaged log could name any number.
const MOST_INSTRUMENTS: usize = 64;

/// What a sample costs a CPU that does nothing but networking: its own time, and what the load loses by it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SamplePrice {
    /// A sample by perf's clock.
    pub perf: Price,
    /// A sample by the scheduler's tick; absent where it takes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick: Option<Price>,
    /// Trials under this load that the price rests on; 0: it is what other hosts were found to lose.
    pub trials: u64,
}

/// A price and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Price {
    /// Expected, nanoseconds.
    pub ns: f64,
    /// Half the length of its 95 % interval, nanoseconds.
    pub half_width_ns: f64,
}

impl SamplePrice {
    /// To whole nanoseconds.
    fn round(&mut self) {
        for price in [Some(&mut self.perf), self.tick.as_mut()]
            .into_iter()
            .flatten()
        {
            price.ns = price.ns.round();
            price.half_width_ns = price.half_width_ns.round();
        }
    }
}

/// netto's own cost in the interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct OwnCost {
    /// The daemon's CPU time in user mode.
    pub user_ns: u64,
    /// The daemon's CPU time in the kernel.
    pub system_ns: u64,
    /// Resident memory now.
    pub resident_bytes: u64,
    /// Time to drain and analyse this interval.
    pub analysis_ns: u64,
    /// Time taken from each CPU, by part (rows: [`OwnPart::ALL`], columns:
    /// [`crate::Snapshot::cpus`]), nanoseconds: an estimate, preferably in steps of 10 µs, which
    /// pack well. A row is `None` if it is unknown.
    pub taken_ns: Rows<u64>,
    /// Current sampling rate of each CPU, samples per second; 0: not sampled. `None` if nothing
    /// is sampled.
    pub sampling_hz: Option<Vec<u64>>,
    /// The CPU with the highest cost over the last ten seconds, and its share of that time;
    /// `None` until known.
    pub costliest: Option<CostliestCpu>,
    /// What a sample costs; `None` if nothing is sampled, or not known.
    pub sample_price: Option<SamplePrice>,
    /// The analysis, by instrument.
    pub instruments: Vec<InstrumentCost>,
}

impl OwnCost {
    /// Time that a part took from each CPU, nanoseconds; `None` if unknown.
    pub fn part_ns(&self, part: OwnPart) -> Option<&[u64]> {
        self.taken_ns.get(part as usize)?.as_deref()
    }

    /// Time that a part took from all CPUs, nanoseconds; `None` if unknown.
    pub fn part_total_ns(&self, part: OwnPart) -> Option<u64> {
        Some(sum(self.part_ns(part)?.iter().copied()))
    }

    /// Time that all known parts took from one CPU, by its column, nanoseconds; `None` if none
    /// is known.
    pub fn cpu_taken_ns(&self, column: usize) -> Option<u64> {
        total(self.taken_ns.iter().flatten().map(|row| row.get(column)))
    }

    /// Time that all known parts took from all CPUs, nanoseconds; `None` if none is known.
    pub fn taken_total_ns(&self) -> Option<u64> {
        let known = OwnPart::ALL.map(|part| self.part_total_ns(part));
        total(known.iter().flatten().map(Some))
    }
}

fn sum(values: impl Iterator<Item = u64>) -> u64 {
    values.fold(0, u64::saturating_add)
}

/// The sum of the known values; `None` if there are none.
fn total<'a>(values: impl Iterator<Item = Option<&'a u64>>) -> Option<u64> {
    values
        .flatten()
        .copied()
        .reduce(|all, more| all.saturating_add(more))
}

/// [`OwnCost`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct OwnCostWire {
    user_ns: u64,
    system_ns: u64,
    resident_bytes: u64,
    analysis_ns: u64,
    taken_ns: Option<Packed>,
    /// One row.
    sampling_hz: Option<Packed>,
    costliest: Option<CostliestCpu>,
    instruments: Vec<InstrumentCost>,
    /// Absent in logs of older versions.
    #[serde(default)]
    sample_price: Option<SamplePrice>,
}

impl Section for OwnCost {
    type Wire = OwnCostWire;

    fn to_wire(&self) -> OwnCostWire {
        let rows = self.taken_ns.iter().map(Option::as_deref);
        let one = |row: &Vec<u64>| packed::pack(std::iter::once(Some(row.as_slice())));
        OwnCostWire {
            user_ns: self.user_ns,
            system_ns: self.system_ns,
            resident_bytes: self.resident_bytes,
            analysis_ns: self.analysis_ns,
            taken_ns: (!self.taken_ns.is_empty()).then(|| packed::pack(rows)),
            sampling_hz: self.sampling_hz.as_ref().map(one),
            costliest: self.costliest,
            instruments: self.instruments.clone(),
            sample_price: self.sample_price,
        }
    }

    fn from_wire(wire: OwnCostWire, cpus: usize) -> Result<Self, Damaged> {
        let unpack = |table: Option<Packed>| table.map(|table| packed::unpack(&table, cpus));
        let sampling_hz = match unpack(wire.sampling_hz).transpose()? {
            None => None,
            Some(mut rows) if rows.len() == 1 => rows.remove(0),
            Some(_) => return Err(Damaged),
        };
        Ok(OwnCost {
            user_ns: wire.user_ns,
            system_ns: wire.system_ns,
            resident_bytes: wire.resident_bytes,
            analysis_ns: wire.analysis_ns,
            taken_ns: unpack(wire.taken_ns).transpose()?.unwrap_or_default(),
            sampling_hz,
            costliest: wire.costliest,
            sample_price: wire.sample_price,
            instruments: wire.instruments,
        })
    }

    fn round(&mut self, carry: &mut Carry) {
        carry.round_rows("taken", &mut self.taken_ns, 5 * TIME_UNIT_NS);
        if let Some(costliest) = &mut self.costliest {
            costliest.ratio = seven_digits(costliest.ratio);
        }
        if let Some(price) = &mut self.sample_price {
            price.round();
        }
    }

    fn layout(&self) -> Vec<Vec<bool>> {
        let rows = self.taken_ns.iter().map(Option::is_some);
        vec![rows.collect(), vec![self.resident_bytes > 0]]
    }

    fn add(&mut self, later: &Self, columns: &Columns) {
        let OwnCost {
            user_ns,
            system_ns,
            resident_bytes,
            analysis_ns,
            taken_ns,
            sampling_hz,
            costliest,
            sample_price,
            instruments,
        } = self;
        *user_ns = user_ns.saturating_add(later.user_ns);
        *system_ns = system_ns.saturating_add(later.system_ns);
        *resident_bytes = later.resident_bytes;
        *analysis_ns = analysis_ns.saturating_add(later.analysis_ns);
        columns.add_rows(taken_ns, &later.taken_ns);
        *sampling_hz = later
            .sampling_hz
            .as_ref()
            .map(|later| columns.placed(later));
        *costliest = later.costliest;
        *sample_price = later.sample_price;
        for more in &later.instruments {
            let has_room = instruments.len() < MOST_INSTRUMENTS;
            match instruments
                .iter_mut()
                .find(|instrument| instrument.name == more.name)
            {
                Some(instrument) => {
                    instrument.analysis_ns = instrument.analysis_ns.saturating_add(more.analysis_ns)
                }
                None if has_room => instruments.push(more.clone()),
                None => {}
            }
        }
    }
}

/// Empty: only the present cost is shown.
impl Recorded for OwnCost {}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(taken_ns: Rows<u64>, sampling_hz: Option<Vec<u64>>) -> OwnCost {
        OwnCost {
            taken_ns,
            sampling_hz,
            ..OwnCost::default()
        }
    }

    #[test]
    fn what_no_part_knows_is_unknown_and_not_nothing() {
        let own_cost = of(vec![None; 8], None);
        assert_eq!(
            (own_cost.taken_total_ns(), own_cost.cpu_taken_ns(0)),
            (None, None)
        );
        let mut own_cost = of(vec![Some(vec![1, 2]), None], None);
        assert_eq!(own_cost.part_total_ns(OwnPart::Softirqs), Some(3));
        assert_eq!(own_cost.part_total_ns(OwnPart::Sends), None);
        assert_eq!(own_cost.part_total_ns(OwnPart::Daemon), None);
        own_cost.taken_ns[1] = Some(vec![0, 10]);
        assert_eq!(own_cost.taken_total_ns(), Some(13));
        assert_eq!(own_cost.cpu_taken_ns(1), Some(12));
        assert_eq!(own_cost.cpu_taken_ns(2), None);
    }

    #[test]
    fn times_add_up_and_rates_are_the_later_ones() {
        let mut sum = of(vec![Some(vec![5, 6])], Some(vec![1000, 1000]));
        sum.instruments = vec![cost_of("cost", 1)];
        let mut later = of(vec![Some(vec![10, 20])], Some(vec![250, 0]));
        later.instruments = vec![cost_of("power", 2), cost_of("cost", 3)];
        later.costliest = Some(CostliestCpu { cpu: 7, ratio: 0.5 });
        later.sample_price = Some(SamplePrice {
            perf: Price {
                ns: 480_000.0,
                half_width_ns: 900_000.0,
            },
            tick: None,
            trials: 0,
        });
        let columns = Columns::join(&mut vec![0, 1], &[1, 7]);
        sum.add(&later, &columns);
        assert_eq!(sum.taken_ns, [Some(vec![5, 16, 20])]);
        assert_eq!(sum.sampling_hz, Some(vec![0, 250, 0]));
        assert_eq!(sum.costliest, later.costliest);
        assert_eq!(sum.sample_price, later.sample_price);
        assert_eq!(sum.instruments, [cost_of("cost", 4), cost_of("power", 2)]);
        let host = sum.sum();
        assert_eq!(host.taken_ns, [Some(vec![41])]);
        assert_eq!(host.sampling_hz, Some(vec![250]));
    }

    #[test]
    fn a_sum_of_ever_other_instruments_does_not_grow_for_ever() {
        let mut sum = OwnCost::default();
        for number in 0..10_000 {
            let later = OwnCost {
                instruments: vec![cost_of(&number.to_string(), 1)],
                ..OwnCost::default()
            };
            sum.add(&later, &Columns::join(&mut vec![0], &[0]));
        }
        assert_eq!(sum.instruments.len(), MOST_INSTRUMENTS);
    }

    fn cost_of(name: &str, analysis_ns: u64) -> InstrumentCost {
        InstrumentCost {
            name: name.to_owned(),
            analysis_ns,
        }
    }

    #[test]
    fn every_part_stands_in_its_row_and_has_a_name_of_its_own() {
        for (row, part) in OwnPart::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, row);
            let same = |other: &OwnPart| other.slug() == part.slug();
            assert_eq!(OwnPart::ALL.iter().filter(|other| same(other)).count(), 1);
        }
    }
}
