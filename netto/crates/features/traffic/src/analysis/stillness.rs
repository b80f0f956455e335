//! Whether there was traffic, so that the text of the kernel's protocol counts can have changed:
//! the kernel formats more than a hundred counts for each reading.

use metrics_common::Interfaces;

/// After this many intervals without traffic, the text is read all the same.
const MOST_UNREAD: u32 = 10;

/// Follows the traffic of interfaces.
#[derive(Debug, Default)]
pub struct Stillness {
    /// Consecutive intervals without traffic since the text was last read.
    still: u32,
}

impl Stillness {
    /// Whether the text must be unchanged: all that protocols count passes an interface of the same
    /// network namespace, loopback included. Traffic at the end of an interval may be counted in
    /// the next, which is therefore read.
    pub fn is_still(&mut self, interfaces: Option<&Interfaces>) -> bool {
        let nothing_moved = interfaces.is_some_and(|all| {
            let counts = all.named.iter().map(|interface| &interface.counts);
            let mut counts = counts.chain([&all.other]);
            counts.all(|counts| counts.packets() == 0)
        });
        self.still = if !nothing_moved {
            0
        } else if self.still <= MOST_UNREAD {
            self.still + 1
        } else {
            1
        };
        self.still > 1
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::{Interface, InterfaceCounts};

    use super::*;

    fn moved(tx_packets: u64) -> Interfaces {
        let counts = InterfaceCounts {
            tx_packets,
            ..InterfaceCounts::default()
        };
        Interfaces {
            named: vec![
                Interface::default(),
                Interface {
                    counts,
                    ..Interface::default()
                },
            ],
            ..Interfaces::default()
        }
    }

    #[test]
    fn it_is_still_from_the_second_interval_on_in_which_nothing_moves() {
        let mut stillness = Stillness::default();
        let mut next = |interfaces: Option<Interfaces>| stillness.is_still(interfaces.as_ref());
        let said = [0, 0, 0, 1, 0, 0].map(|packets| next(Some(moved(packets))));
        assert_eq!(said, [false, true, true, false, false, true]);
        let mut other = moved(0);
        other.other.rx_packets = 1;
        assert!(!next(Some(other)));
        next(Some(moved(0)));
        assert!(next(Some(moved(0))));
        assert!(!next(None), "it is not known");
    }

    #[test]
    fn it_is_read_now_and_then_all_the_same() {
        let mut stillness = Stillness::default();
        let said = [(); 40].map(|()| stillness.is_still(Some(&moved(0))));
        let read = said.iter().filter(|is_still| !**is_still).count();
        assert_eq!(read, 4, "{said:?}");
    }
}
