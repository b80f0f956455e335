//! Whose the parts of an event were, where it is known whose the event was: charged time tells the
//! owners of RX softirqs, and samples tell the parts.
//!
//! Starting from the samples of each part, parts are scaled to their time and owners to their
//! charged time, in turns (iterative proportional fitting; W. E. Deming and F. F. Stephan, 1940).

use super::pool::{Known, Weights};

/// Samples that the assumption counts as that a part is divided as the whole event is.
const PRIOR: f64 = 1.0;
/// Turns; parts have their time exactly, owners nearly.
const TURNS: u32 = 16;

/// The weights of owners in each of these parts, with its time and the samples seen in it.
pub fn fit(owners: &[(Known, f64)], parts: &[(u64, Weights)]) -> Vec<Weights> {
    let all: f64 = owners.iter().map(|(_, weight)| weight).sum();
    let all_ns: f64 = parts.iter().map(|(ns, _)| *ns as f64).sum();
    let first = |(_, seen): &(u64, Weights)| -> Vec<f64> {
        let of_owner = |(owner, weight): &(Known, f64)| {
            let is_its = |known: &Known| {
                known.pair == owner.pair && known.is_handed_on() == owner.is_handed_on()
            };
            let seen = seen.iter().filter(|(known, _)| is_its(known));
            PRIOR * weight / all + seen.map(|(_, weight)| weight).sum::<f64>()
        };
        owners.iter().map(of_owner).collect()
    };
    let mut rows: Vec<Vec<f64>> = parts.iter().map(first).collect();
    for _ in 0..TURNS {
        for (row, (ns, _)) in rows.iter_mut().zip(parts) {
            scale(row.iter_mut(), *ns as f64);
        }
        for (at, (_, weight)) in owners.iter().enumerate() {
            scale(
                rows.iter_mut().map(|row| &mut row[at]),
                weight / all * all_ns,
            );
        }
    }
    let named = |row: Vec<f64>| {
        let owners = owners.iter().map(|(known, _)| *known);
        owners.zip(row).collect()
    };
    rows.into_iter().map(named).collect()
}

/// Scales what is positive to this sum.
fn scale<'a>(values: impl Iterator<Item = &'a mut f64>, sum: f64) {
    let mut values: Vec<&mut f64> = values.collect();
    let now: f64 = values.iter().map(|value| **value).sum();
    if now > 0.0 {
        values.iter_mut().for_each(|value| **value *= sum / now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::{Evidence, Pair};
    use super::*;

    fn of(cause: u32, weight: f64) -> (Known, f64) {
        let pair = Pair { cause, payer: 9 };
        let found = Evidence::Socket;
        (Known { pair, found }, weight)
    }

    /// Nanoseconds of each owner in each part.
    fn fitted(owners: &[(Known, f64)], parts: &[(u64, Weights)]) -> Vec<Vec<f64>> {
        let of_part = |(weights, (ns, _)): (Weights, &(u64, Weights))| {
            let all: f64 = weights.iter().map(|(_, weight)| weight).sum();
            weights
                .iter()
                .map(|(_, weight)| weight / all * *ns as f64)
                .collect()
        };
        fit(owners, parts)
            .into_iter()
            .zip(parts)
            .map(of_part)
            .collect()
    }

    #[test]
    fn without_samples_each_part_is_divided_as_the_event_is() {
        let found = fitted(&[of(1, 3.0), of(2, 1.0)], &[(400, vec![]), (80, vec![])]);
        assert_eq!(found, [[300.0, 100.0], [60.0, 20.0]]);
    }

    #[test]
    fn a_part_is_whose_samples_it_has_and_the_event_whose_time_it_was() {
        // A router beside sockets: few samples, of which a part alone would conclude too much.
        let parts = [
            (600, vec![of(1, 20.0)]),
            (300, vec![of(2, 10.0)]),
            (100, vec![of(1, 9.0), of(2, 1.0)]),
        ];
        let found = fitted(&[of(1, 65.0), of(2, 35.0)], &parts);
        let of_owner = |at: usize| found.iter().map(|part| part[at]).sum::<f64>();
        assert!((of_owner(0) - 650.0).abs() < 5.0, "{found:?}");
        assert!((of_owner(1) - 350.0).abs() < 5.0, "{found:?}");
        assert!(found[0][0] > 560.0 && found[1][1] > 270.0, "{found:?}");
    }

    #[test]
    fn samples_of_who_was_not_charged_tell_nothing() {
        let found = fitted(&[of(1, 1.0)], &[(70, vec![of(2, 5.0)]), (30, vec![])]);
        assert_eq!(found, [[70.0], [30.0]]);
    }
}
