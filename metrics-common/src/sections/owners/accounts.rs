//! Sums by owner: the account of each, the largest with the others as one, and the largest
//! interruption.

use std::cmp::Reverse;

use serde::Serialize;

use super::{Caused, Interruption, Owner, OwnerFlow, OwnerKind, Owners};
use crate::component::{COMPONENTS, Kind, Source, index_of};
use crate::sort::sort_by_key;

/// CPU time that an owner caused and paid, nanoseconds over all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Account {
    /// Time that it caused, in tasks and softirqs, whoever paid, nanoseconds over all CPUs.
    pub caused_ns: u64,
    /// The part of it in softirqs and interrupts.
    pub softirq_ns: u64,
    /// Softirq time that it caused and others paid for, without idle CPUs and kernel threads, which
    /// lose nothing.
    pub made_others_pay_ns: u64,
    /// Softirq time that others caused and it paid for.
    pub others_took_ns: u64,
    /// Time that softirqs and interrupts of networking stole from its running tasks, whoever caused
    /// it: what the kernel's `irq.pressure` has of networking. 0 of idle CPUs and kernel threads.
    pub stalled_ns: u64,
}

impl Account {
    /// The order of owners: the time caused, plus the time paid for others.
    pub fn weight_ns(&self) -> u64 {
        self.caused_ns.saturating_add(self.others_took_ns)
    }
}

/// The event of networking that contains a component; for other components, their outermost whole.
pub fn event_of(mut component: usize) -> usize {
    loop {
        let parent = COMPONENTS.get(component).and_then(|row| row.parent);
        match parent.filter(|parent| *parent != "network") {
            Some(parent) => match index_of(parent) {
                Some(parent) => component = parent,
                None => return component,
            },
            None => return component,
        }
    }
}

/// Whether an event runs in softirqs or interrupts, on top of a task.
pub fn is_softirq(event: usize) -> bool {
    let kind = COMPONENTS.get(event).map(|row| row.kind);
    matches!(
        kind,
        Some(
            Kind::Timed(Source::Softirq(_) | Source::NicInterrupt, _)
                | Kind::Carved(Source::Softirq(_), _)
        )
    )
}

impl OwnerKind {
    /// Whether the payer loses time: not so an idle CPU or a kernel thread.
    pub fn loses(self) -> bool {
        !matches!(self, OwnerKind::Idle | OwnerKind::Kernel)
    }

    /// The order of kinds in lists, before the time: special kinds are last.
    fn class(self) -> u8 {
        match self {
            OwnerKind::Cgroup | OwnerKind::Process | OwnerKind::Interface | OwnerKind::Nobody => 0,
            OwnerKind::Other => 1,
            OwnerKind::Forgotten => 2,
            OwnerKind::Unknown => 3,
            OwnerKind::Idle => 4,
            OwnerKind::Kernel => 5,
        }
    }
}

impl Owners {
    /// The account of each owner, by its index.
    pub fn accounts(&self) -> Vec<Account> {
        let mut accounts = vec![Account::default(); self.owners.len()];
        for caused in &self.caused {
            let Some(account) = accounts.get_mut(caused.owner as usize) else {
                continue;
            };
            let ns = sum(&caused.cpu_ns);
            account.caused_ns = account.caused_ns.saturating_add(ns);
            if is_softirq(event_of(caused.component as usize)) {
                account.softirq_ns = account.softirq_ns.saturating_add(ns);
            }
        }
        for taken in &self.taken {
            let payer = taken.payer as usize;
            let loses = self
                .owners
                .get(payer)
                .is_some_and(|owner| owner.kind.loses());
            if let Some(account) = accounts.get_mut(payer).filter(|_| loses) {
                account.stalled_ns = account.stalled_ns.saturating_add(taken.ns);
            }
            if taken.cause == taken.payer {
                continue;
            }
            if let Some(account) = accounts.get_mut(payer) {
                account.others_took_ns = account.others_took_ns.saturating_add(taken.ns);
            }
            if let Some(account) = accounts.get_mut(taken.cause as usize).filter(|_| loses) {
                account.made_others_pay_ns = account.made_others_pay_ns.saturating_add(taken.ns);
            }
        }
        accounts
    }

    /// The largest owners by [`Account::weight_ns`], in descending order, followed by the special
    /// kinds. All others are one, [`OwnerKind::Other`]; no time is lost.
    pub fn largest(&self, limit: usize) -> Owners {
        let accounts = self.accounts();
        let mut order: Vec<usize> = (0..self.owners.len()).collect();
        let rank = |&at: &usize| {
            (
                self.owners[at].kind.class(),
                Reverse(accounts[at].weight_ns()),
            )
        };
        sort_by_key(&mut order, rank);
        let mut largest = Owners {
            basis: self.basis.clone(),
            ..Owners::default()
        };
        let (mut taken_in, mut moved) = (0, vec![None; self.owners.len()]);
        for &at in &order {
            let owner = &self.owners[at];
            let is_single = owner.kind.is_single();
            if is_single || taken_in < limit {
                taken_in += usize::from(!is_single);
                moved[at] = Some(largest.push(owner.clone()) as u32);
            }
        }
        for (at, &place) in moved.iter().enumerate() {
            let pressure = self.irq_pressure_ns.get(at).copied().flatten();
            if let Some(kept_ns) =
                place.and_then(|place| largest.irq_pressure_ns.get_mut(place as usize))
            {
                *kept_ns = pressure;
            }
        }
        if moved.contains(&None) {
            // Among the special kinds, after the owners.
            let other = largest.place_of(&Owner::single(OwnerKind::Other));
            moved
                .iter_mut()
                .for_each(|place| *place = place.or(Some(other)));
        }
        let place = |at: u32| moved.get(at as usize).copied().flatten();
        largest.caused = self
            .caused
            .iter()
            .filter_map(|caused| {
                Some(Caused {
                    owner: place(caused.owner)?,
                    ..caused.clone()
                })
            })
            .collect();
        largest.taken = self
            .taken
            .iter()
            .filter_map(|taken| {
                Some(Interruption {
                    cause: place(taken.cause)?,
                    payer: place(taken.payer)?,
                    ns: taken.ns,
                })
            })
            .collect();
        largest.samples = self.samples.as_ref().map(|samples| samples.renamed(place));
        let has_a_line = |flow: &OwnerFlow| Some((place(flow.owner)?, flow.clone()));
        let flows = self.flows.iter().filter_map(has_a_line);
        largest.flows = flows
            .filter(|(owner, _)| largest.owners[*owner as usize].kind != OwnerKind::Other)
            .map(|(owner, flow)| OwnerFlow { owner, ..flow })
            .collect();
        largest.join_alike();
        largest
    }

    /// The largest interruption between two different owners with names.
    pub fn largest_pair(&self) -> Option<Interruption> {
        let is_named = |place: u32| {
            let owner = self.owners.get(place as usize);
            owner.is_some_and(|owner| !owner.kind.is_single())
        };
        let pairs = self.taken.iter().filter(|taken| {
            taken.ns > 0
                && taken.cause != taken.payer
                && is_named(taken.cause)
                && is_named(taken.payer)
        });
        pairs.max_by_key(|taken| taken.ns).copied()
    }

    /// The same of one component and its parts only; interruptions stay as they are.
    pub fn of_component(&self, component: usize) -> Owners {
        let mut owners = self.clone();
        owners
            .caused
            .retain(|caused| super::is_within(caused.component as usize, component));
        owners
    }
}

fn sum(values: &[u64]) -> u64 {
    values
        .iter()
        .fold(0, |sum: u64, value| sum.saturating_add(*value))
}
