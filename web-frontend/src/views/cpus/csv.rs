//! The heat map as CSV. Pure.

use std::fmt::Write as _;

use super::model::Map;
use crate::basis::{Amount, Basis};
use crate::export::{iso_time, number};

/// The heat map: a line for each step, a column for each CPU.
pub fn csv(map: &Map, basis: Basis) -> String {
    // A CPU's share is of that CPU's time, in either unit.
    let column = match basis {
        Basis::Host | Basis::Parent => "percent",
        basis => basis.column(),
    };
    let mut csv = String::from("time");
    for line in &map.lines {
        let _ = write!(csv, ",cpu{}_{column}", line.cpu);
    }
    csv.push_str("\r\n");
    for step in 0..map.frame.steps {
        csv.push_str(&iso_time(map.frame.step_begin_ms(step)));
        for line in &map.lines {
            let ratio = line.values.get(step).copied().flatten();
            let value = ratio.map(|ratio| basis.value(Amount::of_share(ratio, 1)));
            let _ = write!(csv, ",{}", number(value));
        }
        csv.push_str("\r\n");
    }
    csv
}
