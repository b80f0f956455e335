//! Softirq time by causing and interrupted owner, for the largest owners: lines caused it, columns
//! paid. Pure.

use metrics_common::sections::{Interruption, Owners};
use metrics_common::{Info, Snapshot};

use super::model::{self, Cell};
use crate::basis::{Amount, Basis};
use metrics_common::component::NETWORK;

/// Most owners with lines and columns; the others are one.
const MOST_OWNERS: usize = 10;

/// An owner at the head of a line or column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Name for people.
    pub label: String,
    /// An explanation, one sentence.
    pub help: String,
    /// Whether it lost the time taken from it.
    pub loses: bool,
}

/// See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matrix {
    /// Owners that caused softirqs.
    pub causes: Vec<Head>,
    /// Interrupted owners.
    pub payers: Vec<Head>,
    /// By cause and payer; `None` if both are the same.
    pub cells: Vec<Vec<Option<Cell>>>,
    /// The meaning of the values.
    pub sentence: String,
}

/// The matrix of a time span; without lines if no time was paid.
pub fn matrix(info: &Info, snapshot: &Snapshot, owners: &Owners, basis: Basis) -> Matrix {
    let owners = owners.largest(MOST_OWNERS);
    let place = 0..owners.owners.len() as u32;
    let others = |interruption: &&Interruption| {
        interruption.cause != interruption.payer && interruption.ns > 0
    };
    let is_in = |of: fn(&Interruption) -> u32, at: u32| {
        let mut pairs = owners.taken.iter().filter(others);
        pairs.any(|taken| of(taken) == at)
    };
    let causes = place
        .clone()
        .filter(|at| is_in(|interruption| interruption.cause, *at));
    let causes: Vec<u32> = causes.collect();
    let payers: Vec<u32> = place
        .filter(|at| is_in(|interruption| interruption.payer, *at))
        .collect();
    let network = info.row_of(NETWORK).and_then(|row| snapshot.total_ns(row));
    let loses = |at: u32| owners.owners[at as usize].kind.loses();
    let pairs = owners.taken.iter().filter(others);
    let lost = pairs.filter(|interruption| loses(interruption.payer));
    let most = lost.map(|interruption| interruption.ns).max().unwrap_or(0);
    let intervals = owners.intervals().taken;
    let amount = |ns| Amount::of_ns(snapshot, ns, network);
    let cell = |cause: u32, payer: u32| {
        let mut pairs = owners.taken.iter().zip(&intervals);
        let found = pairs
            .find(|(interruption, _)| interruption.cause == cause && interruption.payer == payer);
        let ns = found.map_or(0, |(interruption, _)| interruption.ns);
        let level = if loses(payer) {
            model::level(ns, most)
        } else {
            u8::from(ns > 0)
        };
        let bounds = found.and_then(|(_, bounds)| *bounds);
        let range = bounds.map(|(low, high)| basis.range(amount(low), amount(high)));
        Cell::new(model::amount_text(basis, amount(ns)), level).within(range)
    };
    let head = |&at: &u32| {
        let owner = &owners.owners[at as usize];
        Head {
            label: owner.label(),
            help: model::help(owner),
            loses: owner.kind.loses(),
        }
    };
    let line = |&cause: &u32| {
        let cells = payers.iter();
        cells
            .map(|&payer| (cause != payer).then(|| cell(cause, payer)))
            .collect()
    };
    Matrix {
        cells: causes.iter().map(line).collect(),
        causes: causes.iter().map(head).collect(),
        payers: payers.iter().map(head).collect(),
        sentence: format!(
            "Softirq time that each line caused and each column was interrupted for, in {}; what \
             an owner took from itself is left out.",
            basis.phrase("all networking")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::views::owners::model::tests::owners;

    #[test]
    fn lines_caused_what_columns_paid_and_idle_cpus_are_not_the_most() {
        let mut owners = owners();
        owners.taken.push(Interruption {
            cause: 4,
            payer: 0,
            ns: 2 * fixture::MS,
        });
        let basis = Basis::Milliseconds;
        let matrix = matrix(&fixture::info(), &fixture::snapshot(1), &owners, basis);
        let labels = |heads: &[Head]| {
            heads
                .iter()
                .map(|head| head.label.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(labels(&matrix.causes), ["iperf.service", "no owner"]);
        assert_eq!(
            labels(&matrix.payers),
            ["iperf.service", "burn.service", "idle CPUs"]
        );
        let cell = |line: usize, column: usize| matrix.cells[line][column].as_ref().unwrap();
        assert_eq!(
            (cell(0, 1).text.as_str(), cell(0, 1).level),
            ("100.0", model::MAX_LEVEL)
        );
        assert_eq!((cell(0, 2).text.as_str(), cell(0, 2).level), ("30.0", 1));
        // 90 samples of causes and as many of payers, of 94 ms: 50 are 43–63 % of them.
        assert_eq!(cell(0, 1).interval, "95 % interval: 80.4–119.0 ms/s");
        assert_eq!(cell(1, 2).interval, "", "no pair");
        assert_eq!(matrix.cells[0][0], None, "its own");
        assert_eq!(
            (cell(1, 0).text.as_str(), cell(1, 2).text.as_str()),
            ("4.0", "0")
        );
    }

    #[test]
    fn where_nobody_pays_there_are_no_lines() {
        let none = Owners::default();
        let matrix = matrix(&fixture::info(), &fixture::snapshot(1), &none, Basis::Host);
        assert!(matrix.causes.is_empty() && matrix.payers.is_empty());
    }
}
