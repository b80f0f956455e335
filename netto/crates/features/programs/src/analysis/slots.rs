//! A bounded number of places for programs that come and go.

use metrics_common::sections::MOST_PROGRAMS;

/// A program without samples for so long gives its slot back: its weight in the past is gone, too.
const IDLE_NS: u64 = 120_000_000_000;

#[derive(Debug)]
struct Slot<T> {
    program: u32,
    used_ns: u64,
    value: T,
}

/// At most [`MOST_PROGRAMS`] values by the numbers of programs.
#[derive(Debug)]
pub(crate) struct Slots<T>(Vec<Option<Slot<T>>>);

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots(Vec::new())
    }
}

impl<T> Slots<T> {
    /// The slot of a program that has a sample now; `None` if there is no room.
    pub(crate) fn of(
        &mut self,
        program: u32,
        now_ns: u64,
        new: impl FnOnce() -> T,
    ) -> Option<usize> {
        let is_its =
            |slot: &Option<Slot<T>>| slot.as_ref().is_some_and(|slot| slot.program == program);
        if let Some(at) = self.0.iter().position(is_its) {
            if let Some(slot) = &mut self.0[at] {
                slot.used_ns = now_ns;
            }
            return Some(at);
        }
        let at = match self.0.iter().position(Option::is_none) {
            Some(free) => free,
            None if self.0.len() < MOST_PROGRAMS => {
                self.0.push(None);
                self.0.len() - 1
            }
            None => return None,
        };
        self.0[at] = Some(Slot {
            program,
            used_ns: now_ns,
            value: new(),
        });
        Some(at)
    }

    /// Empties the slots of programs without samples for long, and returns them.
    pub(crate) fn give_back(&mut self, now_ns: u64) -> Vec<usize> {
        let is_idle = |slot: &Slot<T>| now_ns.saturating_sub(slot.used_ns) > IDLE_NS;
        let slots = self.0.iter_mut().enumerate();
        slots
            .filter_map(|(at, slot)| slot.take_if(|slot| is_idle(slot)).map(|_| at))
            .collect()
    }

    /// Every slot's value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&T>> {
        self.0
            .iter()
            .map(|slot| slot.as_ref().map(|slot| &slot.value))
    }

    /// The same, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = Option<&mut T>> {
        let slots = self.0.iter_mut();
        slots.map(|slot| slot.as_mut().map(|slot| &mut slot.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_keeps_its_slot_while_it_has_samples_and_another_has_it_then() {
        let mut slots = Slots::default();
        for program in 1..=MOST_PROGRAMS as u32 {
            let at = slots.of(program, 0, || program);
            assert_eq!(at, Some(program as usize - 1));
        }
        assert_eq!(slots.of(1_000, 0, || 1_000), None, "no room");
        assert_eq!(
            slots.of(7, IDLE_NS, || unreachable!("it is known")),
            Some(6)
        );
        assert_eq!(slots.give_back(IDLE_NS), [0_usize; 0]);
        assert_eq!(slots.give_back(IDLE_NS + 1).len(), MOST_PROGRAMS - 1);
        assert_eq!(slots.iter().flatten().collect::<Vec<_>>(), [&7]);
        assert_eq!(slots.of(1_000, IDLE_NS + 1, || 1_000), Some(0));
    }
}
