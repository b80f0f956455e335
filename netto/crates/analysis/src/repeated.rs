//! Interns sequences of words, such as stacks: each is stored once and numbered in order of
//! appearance. Memory grows up to a bound and is reused after clearing. Knows no stacks.

/// See the head of this file.
#[derive(Debug, Clone)]
pub(super) struct Repeated {
    words: Vec<u64>,
    known: Vec<KnownSequence>,
    /// A hash table with linear probing: 0 if free, else a number plus one. Its size is a power of
    /// two, at least twice the number of sequences.
    places: Vec<u32>,
    most: Most,
}

/// Limits of the storage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    /// Number of sequences.
    pub known: usize,
    /// Words of all sequences.
    pub words: usize,
}

#[derive(Debug, Clone, Copy)]
struct KnownSequence {
    hash: u64,
    begin: u32,
    end: u32,
}

/// A sequence's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbered {
    /// Already known.
    Again(usize),
    /// Newly stored.
    New(usize),
    /// Unknown, and the storage is full.
    NoRoom,
}

const FEWEST_PLACES: usize = 64;
/// An odd number with irregular bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Repeated {
    /// An empty storage.
    pub(super) fn new(most: Most) -> Self {
        Repeated {
            words: Vec::new(),
            known: Vec::new(),
            places: vec![0; FEWEST_PLACES],
            most,
        }
    }

    /// Number of sequences.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// A sequence by its number.
    pub(super) fn get(&self, number: usize) -> &[u64] {
        let KnownSequence { begin, end, .. } = self.known[number];
        &self.words[begin as usize..end as usize]
    }

    /// All sequences, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u64]> {
        (0..self.len()).map(|number| self.get(number))
    }

    /// Removes all sequences, keeping the memory.
    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.known.clear();
        self.places.fill(0);
    }

    /// The number of the sequence `head` followed by `tail`.
    pub(super) fn number<const N: usize>(&mut self, head: [u64; N], tail: &[u64]) -> Numbered {
        let hash = hash(head, tail);
        let mut place = self.first_place(hash);
        while let Some(number) = self.places[place].checked_sub(1) {
            let KnownSequence {
                hash: known_hash,
                begin,
                end,
            } = self.known[number as usize];
            if known_hash == hash
                && let Some((first, rest)) =
                    self.words[begin as usize..end as usize].split_first_chunk::<N>()
                && *first == head
                && rest == tail
            {
                return Numbered::Again(number as usize);
            }
            place = (place + 1) & (self.places.len() - 1);
        }
        let end = self.words.len() + N + tail.len();
        if self.len() >= self.most.known || end > self.most.words {
            return Numbered::NoRoom;
        }
        let begin = self.words.len() as u32;
        self.words.extend_from_slice(&head);
        self.words.extend_from_slice(tail);
        let end = end as u32;
        self.known.push(KnownSequence { hash, begin, end });
        self.places[place] = self.known.len() as u32;
        if 2 * self.len() > self.places.len() {
            self.widen();
        }
        Numbered::New(self.len() - 1)
    }

    fn first_place(&self, hash: u64) -> usize {
        // The high bits depend on all words.
        (hash >> 32) as usize & (self.places.len() - 1)
    }

    fn widen(&mut self) {
        self.places = vec![0; 2 * self.places.len()];
        for number in 0..self.known.len() {
            let mut place = self.first_place(self.known[number].hash);
            while self.places[place] != 0 {
                place = (place + 1) & (self.places.len() - 1);
            }
            self.places[place] = number as u32 + 1;
        }
    }
}

fn hash<const N: usize>(head: [u64; N], tail: &[u64]) -> u64 {
    let add = |hash: u64, word: &u64| (hash ^ word).wrapping_mul(FACTOR);
    // Addresses differ in the lower halves of their words.
    let add_both = |hash: u64, [one, other]: &[u64; 2]| {
        (hash ^ one.wrapping_add(other.rotate_left(32))).wrapping_mul(FACTOR)
    };
    let (pairs, last) = tail.as_chunks::<2>();
    let hash = pairs.iter().fold(head.iter().fold(0, add), add_both);
    let hash = last.iter().fold(hash, add);
    hash ^ hash.rotate_left(32)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use proptest::prelude::*;

    const MOST: Most = Most {
        known: 100,
        words: 1000,
    };

    proptest! {
        #[test]
        fn what_is_equal_has_one_number_and_what_is_not_has_others(
            stacks in proptest::collection::vec((0_u64..3, proptest::collection::vec(0_u64..3, 0..4)), 0..300),
        ) {
            let mut repeated = Repeated::new(MOST);
            let mut expected: HashMap<(u64, Vec<u64>), usize> = HashMap::new();
            for (head, tail) in stacks {
                let next = expected.len();
                let number = repeated.number([head], &tail);
                let numbered = match expected.get(&(head, tail.clone())) {
                    Some(&known) => Numbered::Again(known),
                    None if next == MOST.known => Numbered::NoRoom,
                    None => Numbered::New(next),
                };
                prop_assert_eq!(number, numbered);
                if numbered != Numbered::NoRoom {
                    expected.entry((head, tail)).or_insert(next);
                }
            }
            for ((head, tail), number) in expected {
                prop_assert_eq!(repeated.get(number), [vec![head], tail].concat());
            }
        }
    }

    #[test]
    fn no_more_words_are_stored_than_there_is_room_for() {
        let mut repeated = Repeated::new(MOST);
        assert_eq!(repeated.number([1], &[0; 999]), Numbered::New(0));
        assert_eq!(repeated.number([2], &[]), Numbered::NoRoom);
        assert_eq!(repeated.number([1], &[0; 999]), Numbered::Again(0));
        repeated.clear();
        assert_eq!(repeated.number([2], &[]), Numbered::New(0));
        assert_eq!(repeated.len(), 1);
    }
}
