//! The section `owners` as it travels and lies in logs, and whether what came that way makes sense.

use serde::{Deserialize, Serialize};

use super::{Caused, Owner, OwnerBasis, Owners, Taken};
use crate::component::COMPONENTS;
use crate::packed::{self, Damaged, Packed};

/// Rows of [`Owners::caused`], pairs of [`Owners::taken`] and owners that a message may have; one
/// with more is damaged.
const MOST_ROWS: usize = 1 << 14;
/// Values that a message may have in all.
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
    #[serde(default)]
    pub(super) irq_pressure_ns: Vec<Option<u64>>,
}

impl OwnersWire {
    /// An interval for the wire; nothing is lost.
    pub(super) fn of(owners: &Owners) -> OwnersWire {
        let rows = owners.caused.iter();
        OwnersWire {
            owners: owners.owners.clone(),
            rows: rows.clone().map(|row| (row.owner, row.component)).collect(),
            caused: packed::pack(rows.map(|row| Some(row.cpu_ns.as_slice()))),
            taken: owners
                .taken
                .iter()
                .map(|taken| (taken.cause, taken.payer, taken.ns))
                .collect(),
            basis: owners.basis.clone(),
            irq_pressure_ns: owners.irq_pressure_ns.clone(),
        }
    }

    /// The inverse of [`OwnersWire::of`], of an interval with so many CPUs.
    ///
    /// # Errors
    /// If it has other columns, or names what is not there.
    pub(super) fn read(self, cpus: usize) -> Result<Owners, Damaged> {
        let table =
            packed::unpack_within(&self.caused, MOST_ROWS, (MOST_ROWS * cpus).min(MOST_VALUES))?;
        if table.len() != self.rows.len() {
            return Err(Damaged);
        }
        let rows = self.rows.into_iter().zip(table);
        let caused = rows.map(|((owner, component), cpu_ns)| match cpu_ns {
            Some(cpu_ns) if cpu_ns.len() == cpus => Ok(Caused {
                owner,
                component,
                cpu_ns,
            }),
            _ => Err(Damaged),
        });
        let taken = self.taken.into_iter();
        let owners = Owners {
            caused: caused.collect::<Result<_, Damaged>>()?,
            taken: taken
                .map(|(cause, payer, ns)| Taken { cause, payer, ns })
                .collect(),
            basis: self.basis,
            irq_pressure_ns: self.irq_pressure_ns,
            owners: self.owners,
        };
        match owners.is_whole() {
            true => Ok(owners),
            false => Err(Damaged),
        }
    }
}

impl Owners {
    /// Whether every number that names a place or a row names one.
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
            && self.basis.len() <= rows as usize + 64
    }
}
