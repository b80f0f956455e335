//! The third shape: the largest of many named things at each point, and the sum of all others.
//! It fits owners (processes, control groups) and flows, whose number has no limit.
//!
//! The sum stays exact: things that are not among the largest, or whose names were forgotten to
//! make room for newer ones, count as *other*. Memory is bounded for any number of names.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ops::Range;

use crate::sections::Sections;
use crate::sort::{sort_by, sort_by_key};

/// Names that a point keeps.
pub const LARGEST: usize = 10;
/// Most names known at a time. A further name replaces the one that was last among the largest
/// the longest time ago.
pub const MOST_NAMES: usize = 1024;
/// Longest name, bytes; longer ones are cut, and names with the same beginning become one.
pub const NAME_BYTES: usize = 256;

const _: () = assert!(LARGEST < MOST_NAMES && MOST_NAMES <= u16::MAX as usize);

/// The largest over time; see the head of this file.
#[derive(Debug, Clone, PartialEq)]
pub struct Top {
    /// The section, and the index of this ranking in it.
    section: &'static str,
    index: usize,
    /// Section and name, as in `owners/processes`.
    pub(super) name: String,
    /// Known names; a name keeps its index while it is known.
    pub(super) names: Vec<String>,
    /// `None`: not measured.
    pub(super) points: VecDeque<Option<TopPoint>>,
}

/// One point.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct TopPoint {
    /// Indices of the largest, with their amounts.
    pub(super) largest: Vec<(u16, u64)>,
    /// The sum of all others.
    pub(super) other: u64,
}

/// One of the largest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranked<'a> {
    /// Index of the name, constant while the name is known.
    pub place: usize,
    /// The name.
    pub name: &'a str,
    /// Its amount, in the unit of the section.
    pub amount: u64,
}

/// The largest over a time span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking<'a> {
    /// At most [`LARGEST`], the largest first.
    pub largest: Vec<Ranked<'a>>,
    /// The sum of all others.
    pub other: u64,
}

impl Top {
    /// A ranking of a section, without points.
    pub(super) fn new(section: &'static str, index: usize, name: &str) -> Self {
        Top {
            section,
            index,
            name: format!("{section}/{name}"),
            names: Vec::new(),
            points: VecDeque::new(),
        }
    }

    /// Adds a point from the sections of an interval.
    pub(super) fn push(&mut self, sections: &Sections) {
        let section = sections.recorded(self.section);
        let amounts = section.and_then(|section| section.amounts(self.index));
        let named = amounts.as_ref().map(|amounts| {
            let named = amounts
                .iter()
                .map(|(name, amount)| (name.as_ref(), *amount));
            named.collect()
        });
        self.rank(named);
    }

    /// Adds a point of these names and amounts.
    pub(super) fn rank(&mut self, amounts: Option<Vec<(&str, u64)>>) {
        let Some(mut amounts) = amounts else {
            self.points.push_back(None);
            return;
        };
        for (name, _) in &mut amounts {
            *name = cut(name);
        }
        sort_by(&mut amounts, Ord::cmp);
        amounts.dedup_by(|more, kept| {
            let is_same = more.0 == kept.0;
            if is_same {
                kept.1 = kept.1.saturating_add(more.1);
            }
            is_same
        });
        let total = amounts
            .iter()
            .fold(0, |sum: u64, (_, n)| sum.saturating_add(*n));
        amounts.retain(|(_, amount)| *amount > 0);
        sort_by_key(&mut amounts, |(_, amount)| Reverse(*amount));
        amounts.truncate(LARGEST);
        let mut point = TopPoint {
            largest: Vec::with_capacity(amounts.len()),
            other: total,
        };
        let mut unknown = Vec::new();
        for (name, amount) in amounts {
            point.other = point.other.saturating_sub(amount);
            match self.names.iter().position(|known| known == name) {
                Some(place) => point.largest.push((place as u16, amount)),
                None => unknown.push((name, amount)),
            }
        }
        let room = self.make_room(unknown.len(), &point.largest);
        for ((name, amount), place) in unknown.into_iter().zip(room) {
            self.names[place] = name.to_owned();
            point.largest.push((place as u16, amount));
        }
        self.points.push_back(Some(point));
    }

    /// Finds indices for this many new names. If there is no room, forgets the names that were
    /// among the largest the longest time ago, except those of `kept`.
    fn make_room(&mut self, wanted: usize, kept: &[(u16, u64)]) -> Vec<usize> {
        let known = self.names.len();
        let mut room: Vec<usize> = (known..MOST_NAMES).take(wanted).collect();
        self.names.resize(known + room.len(), String::new());
        if room.len() == wanted {
            return room;
        }
        let mut last_seen = vec![0; known];
        for (at, point) in self.points.iter().enumerate() {
            for (place, _) in point.iter().flat_map(|point| &point.largest) {
                last_seen[usize::from(*place)] = at + 1;
            }
        }
        for (place, _) in kept {
            last_seen[usize::from(*place)] = usize::MAX;
        }
        let mut by_age: Vec<usize> = (0..known).collect();
        sort_by_key(&mut by_age, |&place| last_seen[place]);
        by_age.truncate(wanted - room.len());
        for TopPoint { largest, other } in self.points.iter_mut().flatten() {
            largest.retain(|(place, amount)| {
                let stays = !by_age.contains(&usize::from(*place));
                if !stays {
                    *other = other.saturating_add(*amount);
                }
                stays
            });
        }
        room.append(&mut by_age);
        room
    }

    /// The largest of several points together; `None` if none of them was measured. The sum is
    /// exact; a name counts as *other* at points where it was not among the largest.
    pub fn ranking(&self, points: Range<usize>) -> Option<Ranking<'_>> {
        let mut sums = vec![0_u64; self.names.len()];
        let (mut other, mut is_measured) = (0_u64, false);
        let points = self.points.iter().take(points.end).skip(points.start);
        for point in points.flatten() {
            is_measured = true;
            other = other.saturating_add(point.other);
            for (place, amount) in &point.largest {
                let sum = &mut sums[usize::from(*place)];
                *sum = sum.saturating_add(*amount);
            }
        }
        let ranked = |(place, &amount): (usize, &u64)| Ranked {
            place,
            name: &self.names[place],
            amount,
        };
        let mut largest: Vec<_> = sums.iter().enumerate().map(ranked).collect();
        largest.retain(|ranked| ranked.amount > 0);
        sort_by_key(&mut largest, |ranked| (Reverse(ranked.amount), ranked.name));
        for rest in largest.drain(LARGEST.min(largest.len())..) {
            other = other.saturating_add(rest.amount);
        }
        is_measured.then_some(Ranking { largest, other })
    }

    pub(super) fn truncate(&mut self, keep: usize) {
        self.points.truncate(keep);
    }

    pub(super) fn drop_oldest(&mut self, surplus: usize) {
        self.points.drain(..surplus);
    }

    /// Prepends this many older points. Of their names, the newest are kept, as far as there is
    /// room.
    pub(super) fn prepend(&mut self, older: Option<Top>, points: usize) {
        let Some(older) = older else {
            (0..points).for_each(|_| self.points.push_front(None));
            return;
        };
        for point in older.points.into_iter().rev() {
            let point = point.map(|mut point| {
                let TopPoint { largest, other } = &mut point;
                largest.retain_mut(|(place, amount)| {
                    let name = &older.names[usize::from(*place)];
                    let known = self.names.iter().position(|known| known == name);
                    if known.is_none() && self.names.len() == MOST_NAMES {
                        *other = other.saturating_add(*amount);
                        return false;
                    }
                    *place = known.unwrap_or(self.names.len()) as u16;
                    if known.is_none() {
                        self.names.push(name.clone());
                    }
                    true
                });
                point
            });
            self.points.push_front(point);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let names: usize = self.names.iter().map(|name| name.capacity() + 24).sum();
        let largest = |point: &TopPoint| point.largest.capacity() * size_of::<(u16, u64)>();
        let largest: usize = self.points.iter().flatten().map(largest).sum();
        names + largest + self.points.capacity() * size_of::<Option<TopPoint>>()
    }
}

fn cut(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}
