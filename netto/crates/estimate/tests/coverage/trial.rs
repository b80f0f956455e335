//! Trials: how often an interval has the truth, and how wide it is.

use std::fmt;

pub type Bounds = (f64, f64);

/// What one run of a trial found.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub value: f64,
    pub truth: f64,
    /// The interval; none where nothing is stated.
    pub bounds: Option<Bounds>,
    /// That of the formulas of before.
    pub before: Option<Bounds>,
    /// Expected number of observations of equal weight that would tell as much.
    pub expected: f64,
}

/// The runs of one kind in one scene.
#[derive(Clone, Debug)]
pub struct Trial {
    pub kind: &'static str,
    pub scene: String,
    /// Of an interval that has a declared allowance beside sampling errors: at most so many times as wide
    /// from ten expected observations on.
    pub allowance: Option<f64>,
    /// Whether it is beyond what any interval can promise: the size of bursts that no window met.
    pub is_limit: bool,
    pub runs: Vec<Run>,
}

/// What the runs of a trial show.
#[derive(Clone, Copy, Debug)]
pub struct Coverage {
    pub covered: f64,
    /// Mean width, relative to 2 × 1.96 standard deviations of the estimator's own error.
    pub width: f64,
}

impl Trial {
    pub fn new(kind: &'static str, scene: String) -> Trial {
        Trial {
            kind,
            scene,
            allowance: None,
            is_limit: false,
            runs: Vec::new(),
        }
    }

    fn mean(&self, of: impl Fn(&Run) -> f64) -> f64 {
        self.runs.iter().map(of).sum::<f64>() / self.runs.len() as f64
    }

    fn bias(&self) -> f64 {
        self.mean(|run| run.value - run.truth)
    }

    pub fn coverage(&self, bounds: impl Fn(&Run) -> Option<Bounds>) -> Coverage {
        let holds = |run: &Run| {
            let holds = |(low, high): Bounds| (low..=high).contains(&run.truth);
            f64::from(u8::from(bounds(run).is_some_and(holds)))
        };
        let stated = self.runs.iter().filter_map(&bounds);
        let widths: Vec<f64> = stated.map(|(low, high)| high - low).collect();
        let bias = self.bias();
        let variance = self.mean(|run| (run.value - run.truth - bias).powi(2));
        let width = widths.iter().sum::<f64>() / widths.len() as f64;
        Coverage {
            covered: self.mean(holds),
            width: width / (2.0 * 1.96 * variance.sqrt()),
        }
    }

    /// Expected number of observations.
    pub fn expected(&self) -> f64 {
        self.mean(|run| run.expected)
    }

    /// What does not hold of what is promised: 95 % are 93 to 97.5 %, and at most 1.3 times as wide as
    /// need be, from ten expected observations on and without an allowance; elsewhere at least 93 %, with
    /// the width that the allowance declares. What covers too often does so by more than three standard
    /// deviations of chance; the rest is exact of 2,000 runs, and of fewer within these.
    pub fn fault(&self, bounds: impl Fn(&Run) -> Option<Bounds>) -> Option<&'static str> {
        let Coverage { covered, width } = self.coverage(bounds);
        let few = self.runs.len() < 2_000;
        let chance = 3.0 * (0.95 * 0.05 / self.runs.len() as f64).sqrt();
        let slack = if few { chance } else { 0.0 };
        let above = 3.0 * (0.975 * 0.025 / self.runs.len() as f64).sqrt();
        let is_of_many = self.expected() >= 10.0;
        match () {
            () if self.is_limit || self.runs.is_empty() => None,
            () if covered < 0.93 - slack => Some("covers too seldom"),
            () if is_of_many && self.allowance.is_none() && covered > 0.975 + above => {
                Some("covers too often")
            }
            () if is_of_many && width > self.allowance.unwrap_or(1.3) + 3.0 * slack => {
                Some("is too wide")
            }
            () => None,
        }
    }

    /// The row of the table to which it belongs.
    pub fn group(&self) -> String {
        let which = match (self.is_limit, self.allowance, self.expected() >= 10.0) {
            (true, ..) => " (limit)",
            (_, Some(_), _) => " (allowance)",
            (.., false) => ", fewer than ten expected",
            _ => "",
        };
        format!("{}{which}", self.kind)
    }
}

/// What trials of a group show of one of both formulas: the range of coverage and of width, and how many have
/// a fault.
fn range(trials: &[&Trial], bounds: fn(&Run) -> Option<Bounds>) -> String {
    let stated = |trial: &&&Trial| trial.runs.iter().any(|run| bounds(run).is_some());
    let stated: Vec<_> = trials.iter().filter(stated).collect();
    if stated.is_empty() {
        return "none".to_owned();
    }
    let range = |value_of: fn(Coverage) -> f64| {
        let all = stated.iter().map(|trial| value_of(trial.coverage(bounds)));
        all.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        })
    };
    let (covered, width) = (
        range(|coverage| 100.0 * coverage.covered),
        range(|coverage| coverage.width),
    );
    let faults = stated.iter().filter(|trial| trial.fault(bounds).is_some());
    let faults = match faults.count() {
        0 => String::new(),
        faults => format!(", ✗ {faults}"),
    };
    let ((low, high), (narrow, wide)) = (covered, width);
    format!("{low:.1} … {high:.1} %, {narrow:.2} … {wide:.2}{faults}")
}

/// The rows of docs/ACCURACY.md: by group, in order.
pub fn table(trials: &[Trial]) -> String {
    let mut groups: Vec<String> = trials.iter().map(Trial::group).collect();
    groups.sort();
    groups.dedup();
    let row = |group: String| {
        let of_group = |trial: &&Trial| trial.group() == group;
        let of_group: Vec<&Trial> = trials.iter().filter(of_group).collect();
        let runs = of_group.iter().map(|trial| trial.runs.len());
        let [before, after] = [|run: &Run| run.before, |run: &Run| run.bounds];
        format!(
            "| {group} | {} | {} | {} | {} |\n",
            of_group.len(),
            runs.min().unwrap_or(0),
            range(&of_group, before),
            range(&of_group, after)
        )
    };
    groups.into_iter().map(row).collect()
}

/// A row of the table.
impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |bounds: fn(&Run) -> Option<Bounds>| {
            let Coverage { covered, width } = self.coverage(bounds);
            let fault = self.fault(bounds).map_or("", |_| " ✗");
            if self.runs.iter().any(|run| bounds(run).is_some()) {
                format!("{:.1} %, {width:.2}{fault}", 100.0 * covered)
            } else {
                "none".to_owned()
            }
        };
        let (before, after) = (one(|run| run.before), one(|run| run.bounds));
        let expected = self.expected();
        let bias = 100.0 * self.bias() / self.mean(|run| run.truth);
        let (group, scene) = (self.group(), &self.scene);
        write!(
            f,
            "| {group} | {scene} | {expected:.0} | {bias:+.1} % | {before} | {after} |"
        )
    }
}
