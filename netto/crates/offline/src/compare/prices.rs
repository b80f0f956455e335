//! CPU time for each packet and byte, on both sides of a comparison. Pure.

use netto_judges::efficiency::{LEAST_BYTES, Work};
use serde::Serialize;

use netto_estimate::difference::{self, Deviations, Difference};

use super::side::{Cell, Side};

/// Bytes for which a price is told.
const KILOBYTE: f64 = 1_000.0;

/// The component whose time is divided by this work, and for how many units a price is told.
fn priced(work: Work) -> (&'static str, f64) {
    match work {
        Work::Packets => ("rx_softirq", 1.0),
        Work::WireBytes | Work::SocketBytes => ("network", KILOBYTE),
    }
}

/// Of less work the price is that of an idle host.
fn least(work: Work) -> u64 {
    match work {
        Work::Packets => 1,
        Work::WireBytes | Work::SocketBytes => LEAST_BYTES,
    }
}

fn weight(work: Work) -> fn(&Cell) -> u64 {
    match work {
        Work::Packets => |cell| cell.work[Work::Packets as usize],
        Work::WireBytes => |cell| cell.work[Work::WireBytes as usize],
        Work::SocketBytes => |cell| cell.work[Work::SocketBytes as usize],
    }
}

/// CPU time in relation to work, nanoseconds: of the RX softirq for each packet, of all networking
/// for each 1,000 bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Price {
    /// packets: passed up the stack by the RX softirq, whose time is divided; wire_bytes and
    /// socket_bytes: 1,000 bytes, by which the time of all networking is divided.
    pub work: Work,
    /// On the first side, nanoseconds.
    pub a_ns: f64,
    /// On the second side, nanoseconds.
    pub b_ns: f64,
    /// Their difference, nanoseconds.
    pub change_ns: Difference,
}

/// The prices of all work that both sides have counted, by these blocks and this likeness of their
/// cells. The intervals of all prices hold together.
pub(super) fn prices(
    [a, b]: [&Side; 2],
    blocks: Option<&(Vec<Cell>, Vec<Cell>)>,
    [alike_a, alike_b]: [f64; 2],
) -> Vec<Price> {
    let (total_a, total_b) = (a.total(), b.total());
    let (mut prices, mut deviations) = (Vec::new(), Vec::new());
    for work in Work::ALL {
        let (component, units) = priced(work);
        let rows = a.row(component).ok().zip(b.row(component).ok());
        let Some((in_a, in_b)) = rows.filter(|_| a.counts(work) && b.counts(work)) else {
            continue;
        };
        let weight = weight(work);
        let is_idle = |side: &Side| side.cells().iter().map(weight).sum::<u64>() < least(work);
        if is_idle(a) || is_idle(b) {
            continue;
        }
        let price = |total: &Cell, row| units * total.ns(row) as f64 / weight(total) as f64;
        let (a_ns, b_ns) = (price(&total_a, in_a), price(&total_b, in_b));
        if let Some((blocks_a, blocks_b)) = blocks {
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
    for (price, margin) in prices.iter_mut().zip(difference::margins(&deviations)) {
        let (_, units) = priced(price.work);
        let half = units * margin.error * margin.factor;
        let value = price.change_ns.value;
        price.change_ns.interval = Some((value - half, value + half));
    }
    prices
}
