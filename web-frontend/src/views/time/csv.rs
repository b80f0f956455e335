//! The series of a chart as CSV. Pure.

use std::fmt::Write as _;

use super::draw::Chart;
use crate::export::{field, iso_time, number};

/// The series of a chart: a line for each step, a column for each component.
/// What was not measured is empty.
pub fn csv(chart: &Chart) -> String {
    let mut csv = String::from("time");
    for layer in &chart.layers {
        let _ = write!(csv, ",{}_percent_of_host", field(&layer.key));
    }
    csv.push_str("\r\n");
    for step in 0..chart.frame.steps {
        csv.push_str(&iso_time(chart.frame.step_begin_ms(step)));
        for layer in &chart.layers {
            let _ = write!(
                csv,
                ",{}",
                number(layer.values.get(step).copied().flatten())
            );
        }
        csv.push_str("\r\n");
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::color::Rgb;
    use crate::timeline::Frame;
    use crate::views::time::draw::Layer;

    #[test]
    fn a_gap_is_empty_and_a_zero_is_not() {
        let chart = Chart {
            frame: Frame {
                from_ms: 0.0,
                step_ms: 500.0,
                steps: 2,
            },
            layers: vec![Layer {
                key: "gro".to_owned(),
                label: String::new(),
                color: Rgb(0, 0, 0),
                values: vec![Some(0.0), None],
            }],
            top: 1.0,
            offset_ms: 0.0,
        };
        assert_eq!(
            csv(&chart),
            "time,gro_percent_of_host\r\n1970-01-01T00:00:00.000Z,0.0000\r\n1970-01-01T00:00:00.500Z,\r\n"
        );
    }
}
