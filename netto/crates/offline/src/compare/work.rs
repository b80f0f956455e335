//! CPU time for each packet and byte, on both sides of a comparison. Pure.

use serde::Serialize;

use super::bootstrap::{self, Deviations};
use super::comparison::Difference;
use super::side::{Cell, Side};

/// Kinds of work.
pub(super) const WORKS: usize = 3;
/// Bytes for which a price is told.
const KILOBYTE: f64 = 1_000.0;
/// Below a megabit, the price is that of an idle host.
const LEAST_BYTES: u64 = 125_000;

/// Work that networking does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Packets that the RX softirq passed up the stack; packets merged by GRO count as one.
    Packets,
    /// Bytes over the wire, in and out.
    WireBytes,
    /// Bytes that sockets sent and received, including traffic within the host.
    SocketBytes,
}

impl Work {
    pub(super) const ALL: [Work; WORKS] = [Work::Packets, Work::WireBytes, Work::SocketBytes];

    /// The component whose time is divided, and for how many units a price is told.
    fn priced(self) -> (&'static str, f64) {
        match self {
            Work::Packets => ("rx_softirq", 1.0),
            Work::WireBytes | Work::SocketBytes => ("network", KILOBYTE),
        }
    }

    fn least(self) -> u64 {
        match self {
            Work::Packets => 1,
            Work::WireBytes | Work::SocketBytes => LEAST_BYTES,
        }
    }

    fn weight(self) -> fn(&Cell) -> u64 {
        match self {
            Work::Packets => |cell| cell.work[Work::Packets as usize],
            Work::WireBytes => |cell| cell.work[Work::WireBytes as usize],
            Work::SocketBytes => |cell| cell.work[Work::SocketBytes as usize],
        }
    }
}

/// CPU time in relation to work, nanoseconds: of the RX softirq for each packet, of all networking
/// for each 1,000 bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Price {
    /// The work.
    pub work: Work,
    /// On the first side.
    pub a_ns: f64,
    /// On the second side.
    pub b_ns: f64,
    /// Their difference.
    pub change_ns: Difference,
}

/// The prices of all work that both sides have counted. Their intervals hold together.
pub(super) fn prices(a: &Side, b: &Side, likeness: [f64; 2]) -> Vec<Price> {
    let [alike_a, alike_b] = likeness;
    let blocks = bootstrap::blocks(a.cells(), alike_a).zip(bootstrap::blocks(b.cells(), alike_b));
    let (total_a, total_b) = (a.total(), b.total());
    let (mut prices, mut deviations) = (Vec::new(), Vec::new());
    for work in Work::ALL {
        let (component, units) = work.priced();
        let rows = a.row(component).ok().zip(b.row(component).ok());
        let Some((in_a, in_b)) = rows.filter(|_| a.counts(work) && b.counts(work)) else {
            continue;
        };
        let weight = work.weight();
        let is_idle = |side: &Side| side.cells().iter().map(weight).sum::<u64>() < work.least();
        if is_idle(a) || is_idle(b) {
            continue;
        }
        let price = |total: &Cell, row| units * total.ns(row) as f64 / weight(total) as f64;
        let (a_ns, b_ns) = (price(&total_a, in_a), price(&total_b, in_b));
        if let Some((blocks_a, blocks_b)) = &blocks {
            deviations.push((
                Deviations::of(a.cells(), blocks_a, in_a, weight, alike_a),
                Deviations::of(b.cells(), blocks_b, in_b, weight, alike_b),
            ));
        }
        let change_ns = Difference {
            value: b_ns - a_ns,
            interval: None,
        };
        prices.push(Price {
            work,
            a_ns,
            b_ns,
            change_ns,
        });
    }
    for (price, margin) in prices.iter_mut().zip(bootstrap::margins(&deviations)) {
        let (_, units) = price.work.priced();
        let half = units * margin.error * margin.factor;
        let value = price.change_ns.value;
        price.change_ns.interval = Some((value - half, value + half));
    }
    prices
}
