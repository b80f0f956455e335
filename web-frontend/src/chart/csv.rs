//! The series of a chart as CSV, on the basis of the page. Pure.

use std::fmt::Write as _;

use super::draw::Chart;
use crate::export::{field, iso_time, number};

/// The series of a chart: a line for each step, a column for each component.
/// What was not measured is empty.
pub fn csv(chart: &Chart) -> String {
    let mut csv = String::from("time");
    for layer in &chart.layers {
        let _ = write!(csv, ",{}_{}", field(&layer.key), chart.basis.column());
    }
    csv.push_str("\r\n");
    for step in 0..chart.frame.steps {
        csv.push_str(&iso_time(chart.frame.step_begin_ms(step)));
        for layer in &chart.layers {
            let _ = write!(csv, ",{}", number(layer.value_at(step)));
        }
        csv.push_str("\r\n");
    }
    csv
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::Basis;
    use crate::chart::draw::Layer;
    use crate::color::Rgb;
    use crate::timeline::{Frame, Times};

    #[test]
    fn a_gap_is_empty_and_a_zero_is_not() {
        let frame = Frame {
            from_ms: 0.0,
            step_ms: 500.0,
            steps: 2,
        };
        let layer = Layer {
            key: "gro".to_owned(),
            label: String::new(),
            color: Rgb(0, 0, 0),
            cpus: vec![Some(0.0), None],
            values: Vec::new(),
        };
        for (basis, column) in [
            (Basis::Host, "gro_percent_of_host"),
            (Basis::Milliseconds, "gro_ms_per_second"),
        ] {
            let whole = (2.0, vec![Some(1.0); 2]);
            let layers = vec![layer.clone()];
            let chart = Chart::new(frame, layers, basis, whole, String::new(), Times::default());
            let rows = "1970-01-01T00:00:00.000Z,0.0000\r\n1970-01-01T00:00:00.500Z,\r\n";
            assert_eq!(csv(&chart), format!("time,{column}\r\n{rows}"));
        }
    }
}
