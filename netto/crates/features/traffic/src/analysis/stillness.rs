//! Whether anything has come or gone, so that the text in which the kernel counts protocols can say
//! something new: it makes that text anew for each reading, of more than a hundred counts.

use metrics_common::Interfaces;

/// After so many intervals in which nothing moved, the text is read all the same.
const MOST_UNREAD: u32 = 10;

/// Follows what interfaces have done.
#[derive(Debug, Default)]
pub struct Stillness {
    /// Intervals in which nothing moved, one after the other, since the text was last read.
    still: u32,
}

impl Stillness {
    /// Whether the text can say nothing new: all that protocols count passes an interface of the
    /// same network namespace, loopback too. What came at the end of an interval may be counted in
    /// the next, which is therefore read.
    pub fn is_still(&mut self, interfaces: Option<&Interfaces>) -> bool {
        let nothing_moved = interfaces.is_some_and(|all| {
            let counts = all.named.iter().map(|own| &own.counts);
            let mut counts = counts.chain([&all.other]);
            counts.all(|counts| counts.packets() == 0)
        });
        self.still = match nothing_moved {
            true if self.still <= MOST_UNREAD => self.still + 1,
            true => 1,
            false => 0,
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
