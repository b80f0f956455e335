//! The heat map as CSV. Pure.

use std::fmt::Write as _;

use super::model::Map;
use crate::export::{iso_time, number};

/// The heat map: a line for each step, a column for each CPU.
pub fn csv(map: &Map) -> String {
    let mut csv = String::from("time");
    for line in &map.lines {
        let _ = write!(csv, ",cpu{}_percent", line.cpu);
    }
    csv.push_str("\r\n");
    for step in 0..map.frame.steps {
        csv.push_str(&iso_time(map.frame.step_begin_ms(step)));
        for line in &map.lines {
            let percent = line.values.get(step).copied().flatten().map(|r| r * 100.0);
            let _ = write!(csv, ",{}", number(percent));
        }
        csv.push_str("\r\n");
    }
    csv
}
