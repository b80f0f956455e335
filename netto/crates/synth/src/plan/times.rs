//! When each packet of a flow is sent: the first at the start of the record, the last at its end.

use crate::random::mix_all;

/// The times of a flow's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Time of the first.
    pub start_ns: u64,
    /// From the first to the last.
    pub duration_ns: u64,
    /// Number of packets.
    pub packets: u64,
}

/// How far packets are from being even, as a share of the gap between two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Jitter {
    /// 0 to 100.
    pub percent: u8,
    /// Another number gives other times.
    pub seed: u64,
}

impl Times {
    /// The time of a packet, counted from zero. Never before that of the packet before it.
    pub fn of(&self, index: u64, flow: u64, jitter: Jitter) -> u64 {
        let gaps = self.packets - 1;
        if gaps == 0 {
            return self.start_ns;
        }
        let offset = u128::from(self.duration_ns) * u128::from(index) / u128::from(gaps);
        // At most the duration.
        let even = self.start_ns + offset as u64;
        if jitter.percent == 0 || index == 0 || index == gaps {
            return even;
        }
        let room = u128::from(self.duration_ns / gaps) * u128::from(jitter.percent) / 100;
        let share = mix_all(&[jitter.seed, flow, index]);
        let shift = (room * u128::from(share)) >> 64;
        // Half a gap before it to half a gap after it, and the room is at most a gap.
        even - (room / 2) as u64 + shift as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        #[test]
        fn packets_are_in_order_from_the_start_to_the_end(
            start_ns in 0..u64::MAX / 2,
            duration_ns in 0..u64::MAX / 4,
            packets in 2..200_u64,
            percent in 0..=100_u8,
            seed in any::<u64>(),
        ) {
            let times = Times { start_ns, duration_ns, packets };
            let jitter = Jitter { percent, seed };
            let all: Vec<u64> = (0..packets).map(|index| times.of(index, 7, jitter)).collect();
            prop_assert_eq!(all[0], start_ns);
            prop_assert_eq!(all[all.len() - 1], start_ns + duration_ns);
            prop_assert!(all.is_sorted());
        }
    }

    #[test]
    fn gaps_are_even_without_jitter_and_another_seed_gives_others_with_it() {
        let times = Times {
            start_ns: 1000,
            duration_ns: 900,
            packets: 10,
        };
        let times_of = |percent, seed| -> Vec<u64> {
            let jitter = Jitter { percent, seed };
            (0..10).map(|index| times.of(index, 1, jitter)).collect()
        };
        let even: Vec<u64> = (0..10).map(|index| 1000 + index * 100).collect();
        assert_eq!(times_of(0, 1), even);
        assert_ne!(times_of(50, 1), even);
        assert_eq!(times_of(50, 1), times_of(50, 1));
        assert_ne!(times_of(50, 1), times_of(50, 2));
    }
}
