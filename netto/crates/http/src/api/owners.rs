//! Whose networking's CPU time was, as JSON: components by their slugs, owners with their names.

use metrics_common::sections::{Caused, OwnerBasis, Taken};
use metrics_common::{Info, Owner, Owners};
use serde::Serialize;

/// [`Owners`] with what each caused beside its name.
#[derive(Debug, Serialize)]
pub(super) struct OwnersView<'a> {
    owners: Vec<OwnerView<'a>>,
    taken: &'a [Taken],
    basis: Vec<BasisView<'a>>,
}

#[derive(Debug, Serialize)]
struct OwnerView<'a> {
    label: String,
    #[serde(flatten)]
    owner: &'a Owner,
    irq_pressure_ns: Option<u64>,
    caused: Vec<CausedView<'a>>,
}

/// What an owner caused of a component.
#[derive(Debug, Serialize)]
struct CausedView<'a> {
    component: &'a str,
    cpu_ns: &'a [u64],
    total_ns: u64,
}

/// How the owners of an event were found, under its slug; see [`OwnerBasis`].
#[derive(Debug, Serialize)]
pub(crate) struct BasisView<'a> {
    event: &'a str,
    task_ns: u64,
    socket_ns: u64,
    interface_ns: u64,
    proportion_ns: u64,
    nothing_ns: u64,
}

impl<'a> BasisView<'a> {
    pub(crate) fn of(info: &'a Info, basis: &OwnerBasis) -> Self {
        BasisView {
            event: slug(info, basis.component as usize),
            task_ns: basis.task_ns,
            socket_ns: basis.socket_ns,
            interface_ns: basis.interface_ns,
            proportion_ns: basis.proportion_ns,
            nothing_ns: basis.nothing_ns,
        }
    }
}

/// The slug of a component; empty if there is no such row.
pub(crate) fn slug(info: &Info, component: usize) -> &str {
    let component = info.components.get(component);
    component.map_or("", |component| &component.slug)
}

impl<'a> OwnersView<'a> {
    pub(super) fn new(info: &'a Info, owners: &'a Owners) -> Self {
        let caused = |caused: &'a Caused| CausedView {
            component: slug(info, caused.component as usize),
            cpu_ns: &caused.cpu_ns,
            total_ns: caused.cpu_ns.iter().sum(),
        };
        let views = owners.owners.iter().enumerate().map(|(place, owner)| {
            let own = owners.caused.iter();
            let own = own.filter(|caused| caused.owner as usize == place);
            OwnerView {
                label: owner.label(),
                owner,
                irq_pressure_ns: owners.irq_pressure_ns.get(place).copied().flatten(),
                caused: own.map(caused).collect(),
            }
        });
        OwnersView {
            owners: views.collect(),
            taken: &owners.taken,
            basis: owners
                .basis
                .iter()
                .map(|basis| BasisView::of(info, basis))
                .collect(),
        }
    }
}
