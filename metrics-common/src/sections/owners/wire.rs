//! The encoding of the section `owners`, and the validation of decoded values.

use serde::{Deserialize, Serialize};

use super::{Caused, Interruption, Owner, OwnerBasis, OwnerFlow, Owners, Samples};
use crate::component::COMPONENTS;
use crate::packed::{self, Damaged, Packed};
use crate::sections::columns::Columns;
use crate::sections::section::Section;

/// Most rows of [`Owners::caused`], pairs of [`Owners::taken`] and owners of a message; one with
/// more is damaged.
const MOST_ROWS: usize = 1 << 14;
/// Most values of a message.
const MOST_VALUES: usize = 1 << 20;

/// [`Owners`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub struct OwnersWire {
    pub(super) owners: Vec<Owner>,
    /// Owner and component of each row of the table below.
    pub(super) rows: Vec<(u32, u32)>,
    pub(super) caused: Packed,
    pub(super) taken: Vec<(u32, u32, u64)>,
    pub(super) basis: Vec<OwnerBasis>,
    pub(super) irq_pressure_ns: Vec<Option<u64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) flows: Vec<OwnerFlow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) samples: Option<Samples>,
}

impl Section for Owners {
    type Wire = OwnersWire;

    fn to_wire(&self) -> OwnersWire {
        let rows = self.caused.iter();
        OwnersWire {
            owners: self.owners.clone(),
            rows: rows.clone().map(|row| (row.owner, row.component)).collect(),
            caused: packed::pack(rows.map(|row| Some(row.cpu_ns.as_slice()))),
            taken: self
                .taken
                .iter()
                .map(|taken| (taken.cause, taken.payer, taken.ns))
                .collect(),
            basis: self.basis.clone(),
            irq_pressure_ns: self.irq_pressure_ns.clone(),
            flows: self.flows.clone(),
            samples: self.samples.clone(),
        }
    }

    fn from_wire(wire: OwnersWire, cpus: usize) -> Result<Self, Damaged> {
        let table =
            packed::unpack_within(&wire.caused, MOST_ROWS, (MOST_ROWS * cpus).min(MOST_VALUES))?;
        if table.len() != wire.rows.len() {
            return Err(Damaged);
        }
        let rows = wire.rows.into_iter().zip(table);
        let caused = rows.map(|((owner, component), cpu_ns)| match cpu_ns {
            // One value is of all CPUs together.
            Some(cpu_ns) if cpu_ns.len() == cpus || cpu_ns.len() == 1 => Ok(Caused {
                owner,
                component,
                cpu_ns,
            }),
            _ => Err(Damaged),
        });
        let taken = wire.taken.into_iter();
        let owners = Owners {
            caused: caused.collect::<Result<_, Damaged>>()?,
            taken: taken
                .map(|(cause, payer, ns)| Interruption { cause, payer, ns })
                .collect(),
            basis: wire.basis,
            irq_pressure_ns: wire.irq_pressure_ns,
            flows: wire.flows,
            samples: wire.samples,
            owners: wire.owners,
        };
        if owners.is_whole() {
            Ok(owners)
        } else {
            Err(Damaged)
        }
    }

    fn add(&mut self, later: &Self, columns: &Columns) {
        self.add_interval(later, columns);
    }
}

impl Owners {
    /// Whether all indices are valid.
    pub(super) fn is_whole(&self) -> bool {
        let owners = self.owners.len() as u32;
        let rows = COMPONENTS.len() as u32;
        self.irq_pressure_ns.len() == self.owners.len()
            && self.owners.len() <= MOST_ROWS
            && self
                .caused
                .iter()
                .all(|caused| caused.owner < owners && caused.component < MOST_ROWS as u32)
            && self.taken.len() <= MOST_ROWS
            && self
                .taken
                .iter()
                .all(|taken| taken.cause < owners && taken.payer < owners)
            && self.flows.len() <= MOST_ROWS
            && self.flows.iter().all(|flow| flow.owner < owners)
            && self.basis.len() <= rows as usize + 64
    }
}
