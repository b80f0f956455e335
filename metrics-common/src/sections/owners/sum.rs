//! Adds the owners of a later interval to a sum: owners come and go, their number is bounded, and
//! no time is lost.

use std::collections::HashMap;

use super::{Caused, Identity, Interruption, MOST_OWNERS, Owner, OwnerFlow, OwnerKind, Owners};
use crate::component::COMPONENTS;
use crate::sections::columns::Columns;

impl Owners {
    /// Adds a later interval.
    pub(super) fn add_interval(&mut self, later: &Self, columns: &Columns) {
        let places = self.joined(later);
        self.add_caused(later, &places, columns);
        self.add_taken(later, &places);
        self.add_samples(later, &places);
        for more in &later.flows {
            self.add_flow(OwnerFlow {
                owner: places[more.owner as usize],
                ..more.clone()
            });
        }
        self.keep_largest_flows();
        self.add_basis(later);
        for (place, more) in places.iter().zip(&later.irq_pressure_ns) {
            if let (Some(sum), Some(more)) = (self.irq_pressure_ns.get_mut(*place as usize), more) {
                *sum = Some(sum.unwrap_or(0).saturating_add(*more));
            }
        }
    }

    /// Adds who took from whom in a later interval, and what that is known by.
    pub fn add_pairs(&mut self, later: &Self) {
        let places = self.joined(later);
        self.add_taken(later, &places);
        self.add_samples(later, &places);
        self.add_basis(later);
    }

    /// Makes the owners of a later interval known: the place of each.
    fn joined(&mut self, later: &Self) -> Vec<u32> {
        let known = self.owners.iter().enumerate();
        let mut known: HashMap<Identity<'_>, usize> = known
            .map(|(place, owner)| (owner.identity(), place))
            .collect();
        // Owners in both keep their index and take their newest name.
        let found: Vec<Option<usize>> = later
            .owners
            .iter()
            .map(|owner| known.remove(&owner.identity()))
            .collect();
        drop(known);
        let mut kept = vec![false; self.owners.len()];
        found.iter().flatten().for_each(|&place| kept[place] = true);
        for (owner, place) in later.owners.iter().zip(&found) {
            if let Some(place) = place {
                self.owners[*place].clone_from(owner);
            }
        }
        let new = found.iter().filter(|place| place.is_none()).count();
        if self.owners.len() + new > MOST_OWNERS {
            self.make_room(new, &kept);
        }
        self.places_of(&later.owners)
    }

    fn add_basis(&mut self, later: &Self) {
        for more in &later.basis {
            let mut rows = self.basis.iter();
            match rows.position(|row| row.component == more.component) {
                Some(place) => self.basis[place].add(more),
                None if self.basis.len() <= COMPONENTS.len() => self.basis.push(*more),
                None => {}
            }
        }
    }

    /// Makes room for this many more owners in a sum: forgets as many of those that are not `kept`,
    /// the first ones first.
    fn make_room(&mut self, more: usize, kept: &[bool]) {
        // One entry for the forgotten ones.
        let excess = (self.owners.len() + more + 1).saturating_sub(MOST_OWNERS);
        let is_removable = |&place: &usize| !kept[place] && !self.owners[place].kind.is_single();
        let mut is_gone = vec![false; self.owners.len()];
        (0..self.owners.len())
            .filter(is_removable)
            .take(excess)
            .for_each(|place| is_gone[place] = true);
        if !is_gone.contains(&true) {
            return;
        }
        let forgotten = self.place_of(&Owner::single(OwnerKind::Forgotten));
        is_gone.resize(self.owners.len(), false);
        let mut left = 0;
        let mut moved: Vec<Option<u32>> = Vec::with_capacity(is_gone.len());
        for &is_gone in &is_gone {
            moved.push((!is_gone).then_some(left));
            left += u32::from(!is_gone);
        }
        let forgotten = moved[forgotten as usize].unwrap_or(0);
        let renamed = |place: &mut u32| *place = moved[*place as usize].unwrap_or(forgotten);
        for caused in &mut self.caused {
            renamed(&mut caused.owner);
        }
        for taken in &mut self.taken {
            renamed(&mut taken.cause);
            renamed(&mut taken.payer);
        }
        let place = |place: u32| Some(moved.get(place as usize)?.unwrap_or(forgotten));
        self.samples = self.samples.as_ref().map(|samples| samples.renamed(place));
        self.flows.retain(|flow| !is_gone[flow.owner as usize]);
        for flow in &mut self.flows {
            renamed(&mut flow.owner);
        }
        let mut removed = is_gone.iter();
        self.owners.retain(|_| removed.next() == Some(&false));
        let mut removed = is_gone.iter();
        self.irq_pressure_ns
            .retain(|_| removed.next() == Some(&false));
        self.join_alike();
    }

    /// The indices of these owners, each added if missing; without room, the index of *forgotten*.
    fn places_of(&mut self, owners: &[Owner]) -> Vec<u32> {
        let known = self.owners.iter().zip(0..);
        let known: HashMap<Identity<'_>, u32> = known
            .map(|(owner, place)| (owner.identity(), place))
            .collect();
        let found = owners.iter().map(|owner| known.get(&owner.identity()));
        let found: Vec<Option<u32>> = found.map(|place| place.copied()).collect();
        let places = owners.iter().zip(found).map(|(owner, found)| match found {
            Some(place) => place,
            None if self.owners.len() < MOST_OWNERS => self.push(owner.clone()) as u32,
            None => self.place_of(&Owner::single(OwnerKind::Other)),
        });
        places.collect()
    }

    fn add_caused(&mut self, later: &Owners, places: &[u32], columns: &Columns) {
        let rows = self.caused.iter().enumerate();
        let mut rows: HashMap<(u32, u32), usize> = rows
            .map(|(row, caused)| ((caused.owner, caused.component), row))
            .collect();
        let mut is_met = vec![false; self.caused.len()];
        for more in &later.caused {
            let key = (places[more.owner as usize], more.component);
            let row = *rows.entry(key).or_insert(self.caused.len());
            if row == self.caused.len() {
                self.caused.push(Caused {
                    owner: key.0,
                    component: key.1,
                    cpu_ns: columns.placed(&more.cpu_ns),
                });
                is_met.push(true);
                continue;
            }
            // Columns move only once.
            if std::mem::replace(&mut is_met[row], true) {
                let more = columns.placed(&more.cpu_ns);
                for (sum, more) in self.caused[row].cpu_ns.iter_mut().zip(more) {
                    *sum = sum.saturating_add(more);
                }
            } else {
                columns.add(&mut self.caused[row].cpu_ns, &more.cpu_ns);
            }
        }
        let unmet = self.caused.iter_mut().zip(is_met);
        for (caused, _) in unmet.filter(|(_, is_met)| !is_met) {
            columns.add(&mut caused.cpu_ns, &[]);
        }
    }

    fn add_taken(&mut self, later: &Owners, places: &[u32]) {
        let pairs = self.taken.iter().enumerate();
        let mut pairs: HashMap<(u32, u32), usize> = pairs
            .map(|(at, taken)| ((taken.cause, taken.payer), at))
            .collect();
        for more in &later.taken {
            let (cause, payer) = (places[more.cause as usize], places[more.payer as usize]);
            let at = *pairs.entry((cause, payer)).or_insert(self.taken.len());
            match self.taken.get_mut(at) {
                Some(interruption) => interruption.ns = interruption.ns.saturating_add(more.ns),
                None => self.taken.push(Interruption {
                    cause,
                    payer,
                    ns: more.ns,
                }),
            }
        }
    }

    /// Merges entries that have become equal.
    pub(super) fn join_alike(&mut self) {
        let mut rows: HashMap<(u32, u32), usize> = HashMap::new();
        let mut joined: Vec<Caused> = Vec::with_capacity(self.caused.len());
        for caused in std::mem::take(&mut self.caused) {
            match rows.get(&(caused.owner, caused.component)) {
                Some(&row) => {
                    for (sum, more) in joined[row].cpu_ns.iter_mut().zip(&caused.cpu_ns) {
                        *sum = sum.saturating_add(*more);
                    }
                }
                None => {
                    rows.insert((caused.owner, caused.component), joined.len());
                    joined.push(caused);
                }
            }
        }
        self.caused = joined;
        let mut pairs: HashMap<(u32, u32), usize> = HashMap::new();
        let mut taken: Vec<Interruption> = Vec::with_capacity(self.taken.len());
        for more in std::mem::take(&mut self.taken) {
            let place = *pairs.entry((more.cause, more.payer)).or_insert(taken.len());
            match taken.get_mut(place) {
                Some(interruption) => interruption.ns = interruption.ns.saturating_add(more.ns),
                None => taken.push(more),
            }
        }
        self.taken = taken;
    }
}
