//! A profile: the stacks of networking in a span, with CPU, event, part and owner of each.

use std::collections::HashMap;

use metrics_common::Folded;

/// See the head of this file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Its begin, nanoseconds since the Unix epoch.
    pub begun_unix_ns: u64,
    /// Its length, nanoseconds: of whole intervals.
    pub length_ns: u64,
    /// Names of functions.
    pub functions: Vec<String>,
    /// Equal samples, together.
    pub samples: Vec<ProfileSample>,
    /// Samples without room for their stack.
    pub left_out: u64,
}

/// Equal samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileSample {
    /// Functions by their index in [`Profile::functions`], innermost first.
    pub stack: Vec<u32>,
    /// What they were taken in, where known.
    pub labels: Labels,
    /// Number of samples.
    pub count: u64,
    /// CPU time for which they stand, nanoseconds.
    pub cpu_ns: u64,
}

/// What tells samples with equal stacks apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// The CPU.
    pub cpu: Option<u32>,
    /// Slug of the event.
    pub event: String,
    /// Slug of the part of the event that the stack shows.
    pub part: Option<&'static str>,
    /// Name of the owner who caused it.
    pub owner: Option<String>,
}

/// Most profiles that are recorded at once.
pub const MOST_PROFILES: usize = 4;

/// A profile being recorded; dropping it ends that.
pub trait OpenProfile: Send {
    /// Ends the recording. May take some hundred milliseconds.
    ///
    /// # Errors
    /// Why there is no profile, for people.
    fn end(self: Box<Self>) -> anyhow::Result<Profile>;
}

/// Texts of a profile, each once.
#[derive(Debug, Default)]
pub struct Texts {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Texts {
    /// The index of a text.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// All of them, by index.
    pub fn into_all(self) -> Vec<String> {
        self.names
    }
}

impl Profile {
    /// The time for which one of its samples stands on average, nanoseconds; 0 without any. CPUs are sampled at rates of
    /// their own, which change with the load.
    pub fn period_ns(&self) -> u64 {
        let sum = |of: fn(&ProfileSample) -> u64| {
            let values = self.samples.iter().map(of);
            values.fold(0, u64::saturating_add)
        };
        let count = sum(|sample| sample.count);
        sum(|sample| sample.cpu_ns)
            .checked_div(count)
            .unwrap_or_default()
    }

    /// A profile of folded stacks: without CPUs, parts and owners. A sample stands for `worth_ns`.
    pub fn of_folded(folded: &Folded, begun_unix_ns: u64, worth_ns: u64) -> Profile {
        let mut functions = Texts::default();
        let lines = folded.text.lines().filter_map(|line| {
            let (stack, count) = line.rsplit_once(' ')?;
            Some((stack, count.parse().ok()?))
        });
        let samples = lines.map(|(stack, count)| sample(&mut functions, stack, count, worth_ns));
        Profile {
            begun_unix_ns,
            length_ns: folded.window_ns,
            samples: samples.collect(),
            functions: functions.into_all(),
            left_out: folded.left_out,
        }
    }
}

/// Samples of a folded stack: its event, then its functions, outermost first.
fn sample(functions: &mut Texts, stack: &str, count: u64, worth_ns: u64) -> ProfileSample {
    let mut names = stack.split(';');
    let event = names.next().unwrap_or_default().to_owned();
    let mut stack: Vec<u32> = names.map(|name| functions.number(name)).collect();
    stack.reverse();
    ProfileSample {
        stack,
        labels: Labels {
            event,
            ..Labels::default()
        },
        count,
        cpu_ns: count.saturating_mul(worth_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folded_stack_becomes_samples_with_its_event_innermost_first() {
        let folded = Folded {
            text: "rx_softirq;net_rx_action;ip_rcv 3\nrx_softirq;net_rx_action 1\n".into(),
            window_ns: 9,
            samples: 4,
            left_out: 2,
        };
        let profile = Profile::of_folded(&folded, 5, 100);
        assert_eq!(profile.functions, ["net_rx_action", "ip_rcv"]);
        let [deep, flat] = &profile.samples[..] else {
            panic!("{profile:?}");
        };
        assert_eq!(
            (&deep.stack[..], deep.count, deep.cpu_ns),
            (&[1, 0][..], 3, 300)
        );
        assert_eq!((&flat.stack[..], flat.cpu_ns), (&[0][..], 100));
        assert_eq!(flat.labels.event, "rx_softirq");
        assert_eq!((profile.length_ns, profile.left_out), (9, 2));
    }
}
