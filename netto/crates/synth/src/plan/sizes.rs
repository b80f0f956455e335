//! How many bytes each packet of a flow has, so that together they are the record's.

/// Why packets cannot have these bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    /// A flow is at least one packet.
    #[error("a flow of no packets")]
    NoPackets,
    /// Headers alone have more.
    #[error("{bytes} bytes are too few for {packets} packets, which have headers of {least} each")]
    TooFew {
        /// Of the record.
        packets: u64,
        /// Of the record.
        bytes: u64,
        /// Of a packet.
        least: u16,
    },
    /// All packets together have room for less.
    #[error("{bytes} bytes are too many for {packets} packets of at most {most} (--mtu)")]
    TooMany {
        /// Of the record.
        packets: u64,
        /// Of the record.
        bytes: u64,
        /// Of a packet.
        most: u16,
    },
}

/// The sizes of a flow's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    packets: u64,
    least: u16,
    /// The first packet, and the last one, is no more than its headers.
    is_first_bare: bool,
    is_last_bare: bool,
    /// Size of all others, how many of them have one unit more, and what a unit is.
    usual: u16,
    longer: u64,
    unit: u16,
    /// What is no whole unit, in the last packet.
    rest: u16,
}

impl Sizes {
    /// Sizes of at least and at most so many bytes, as even as possible. The first and the last
    /// are bare headers if that is asked for and the others have room for the bytes.
    ///
    /// # Errors
    /// There are no such sizes.
    pub fn new(
        packets: u64,
        bytes: u64,
        bounds: (u16, u16),
        bare: (bool, bool),
    ) -> Result<Self, Impossible> {
        Sizes::in_units(1, packets, bytes, bounds, bare)
    }

    /// The same in multiples of four bytes, as far as these bytes allow it.
    ///
    /// # Errors
    /// There are no sizes at all.
    pub fn in_words(
        packets: u64,
        bytes: u64,
        (least, most): (u16, u16),
    ) -> Result<Self, Impossible> {
        // The last packet has up to three bytes more.
        let bare = (false, false);
        let whole = (least.next_multiple_of(4), most.saturating_sub(3));
        Sizes::in_units(4, packets, bytes, whole, bare)
            .or_else(|_| Sizes::new(packets, bytes, (least, most), bare))
    }

    fn in_units(
        unit: u16,
        packets: u64,
        bytes: u64,
        (least, most): (u16, u16),
        (first_bare, last_bare): (bool, bool),
    ) -> Result<Self, Impossible> {
        let most = most - most % unit;
        if packets == 0 {
            return Err(Impossible::NoPackets);
        }
        let all = u128::from(bytes);
        let bytes_of = |packets: u64, size: u16| u128::from(packets) * u128::from(size);
        if all < bytes_of(packets, least) {
            return Err(Impossible::TooFew {
                packets,
                bytes,
                least,
            });
        }
        if all > bytes_of(packets, most) {
            return Err(Impossible::TooMany {
                packets,
                bytes,
                most,
            });
        }
        let bare = u64::from(first_bare) + u64::from(last_bare);
        let is_room =
            packets > bare && all - bytes_of(bare, least) <= bytes_of(packets - bare, most);
        let bare = if is_room { bare } else { 0 };
        let others = packets - bare;
        // Not more than `bytes`, as the check above has it.
        let rest = bytes - bare * u64::from(least);
        let units = rest / u64::from(unit);
        Ok(Sizes {
            packets,
            least,
            is_first_bare: is_room && first_bare,
            is_last_bare: is_room && last_bare,
            // At most `most`.
            usual: (units / others) as u16 * unit,
            longer: units % others,
            unit,
            rest: (rest % u64::from(unit)) as u16,
        })
    }

    /// Number of packets.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes of a packet, counted from zero.
    pub fn of(&self, index: u64) -> u16 {
        let is_last = index + 1 == self.packets;
        if self.is_first_bare && index == 0 || self.is_last_bare && is_last {
            return self.least;
        }
        let place = index - u64::from(self.is_first_bare);
        let longer = if place < self.longer { self.unit } else { 0 };
        self.usual + longer + if is_last { self.rest } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

        #[test]
        fn sizes_sum_to_the_bytes_and_keep_their_bounds(
            packets in 0..400_u64,
            bytes in 0..700_000_u64,
            least in 20..80_u16,
            room in 0..1500_u16,
            bare in any::<(bool, bool)>(),
            in_words in any::<bool>(),
        ) {
            let most = least + room;
            let sizes = if in_words {
                Sizes::in_words(packets, bytes, (least, most))
            } else {
                Sizes::new(packets, bytes, (least, most), bare)
            };
            match sizes {
                Ok(sizes) => {
                    let all: Vec<u16> = (0..packets).map(|index| sizes.of(index)).collect();
                    prop_assert_eq!(all.iter().map(|&size| u64::from(size)).sum::<u64>(), bytes);
                    prop_assert!(all.iter().all(|size| (least..=most).contains(size)));
                }
                Err(Impossible::NoPackets) => prop_assert_eq!(packets, 0),
                Err(Impossible::TooFew { .. }) => prop_assert!(bytes < packets * u64::from(least)),
                Err(Impossible::TooMany { .. }) => prop_assert!(bytes > packets * u64::from(most)),
            }
        }
    }

    #[test]
    fn handshakes_are_bare_where_the_others_have_room() {
        let sizes = |bytes| Sizes::new(4, bytes, (40, 1500), (true, true)).expect("it is possible");
        let first_sizes = |sizes: Sizes| (0..4).map(|index| sizes.of(index)).collect::<Vec<_>>();
        assert_eq!(first_sizes(sizes(3080)), [40, 1500, 1500, 40]);
        assert_eq!(
            first_sizes(sizes(3081)),
            [771, 770, 770, 770],
            "no room without the first and last"
        );
        assert_eq!(first_sizes(sizes(160)), [40; 4]);
    }

    #[test]
    fn words_are_kept_whole_where_the_bytes_allow_it() {
        let sizes_of = |bytes, most| {
            let sizes = Sizes::in_words(3, bytes, (32, most)).expect("it is possible");
            (0..3).map(|index| sizes.of(index)).collect::<Vec<_>>()
        };
        assert_eq!(sizes_of(308, 1500), [104, 104, 100]);
        assert_eq!(sizes_of(310, 1500), [104, 104, 102]);
        assert_eq!(
            sizes_of(307, 103),
            [103, 102, 102],
            "no other sizes have room"
        );
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let error = Sizes::new(u64::MAX, u64::MAX, (20, 1500), (true, true));
        assert!(matches!(error, Err(Impossible::TooFew { .. })));
        let sizes = Sizes::new(u64::MAX / 20, u64::MAX, (20, 1500), (true, true));
        assert_eq!(sizes.map(|sizes| sizes.of(u64::MAX / 40)), Ok(20));
    }
}
