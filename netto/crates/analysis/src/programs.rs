//! Where the code of BPF programs is, and the samples that it is in. Pure.
//!
//! A program's code is known by its addresses, not by its name: several may have the same, and one
//! that is loaded may take the place of one that is gone.

use metrics_common::COMPONENTS;
use netto_estimate::design_effect::Mass;

use super::classify::Classifier;

/// Stands for the program of code that may be either of two: 0 is no program's number.
pub const UNCERTAIN: u32 = 0;

/// Addresses `[start, end)` of a function of a program.
#[derive(Debug, Clone, Copy)]
struct Range {
    start: u64,
    end: u64,
    program: u32,
    /// Whether samples of this interval may be of a program that was here before.
    is_uncertain: bool,
}

/// Code by address.
#[derive(Debug, Clone, Default)]
pub struct ProgramCode {
    /// Ascending, disjoint.
    ranges: Vec<Range>,
}

impl ProgramCode {
    /// Adds the functions of a program. Code that was there before is gone.
    pub fn add(&mut self, program: u32, functions: &[(u64, u64)]) {
        for &(start, end) in functions.iter().filter(|(start, end)| start < end) {
            let first = self.ranges.partition_point(|range| range.end <= start);
            let last = self.ranges.partition_point(|range| range.start < end);
            let range = Range {
                start,
                end,
                program,
                is_uncertain: first < last,
            };
            self.ranges.splice(first..last, [range]);
        }
    }

    /// Begins an interval, in which all code is that of the programs known now.
    pub fn begin(&mut self) {
        for range in &mut self.ranges {
            range.is_uncertain = false;
        }
    }

    /// Removes a program.
    pub fn remove(&mut self, program: u32) {
        self.ranges.retain(|range| range.program != program);
    }

    /// The program at this address, or [`UNCERTAIN`]; `None` if there is none.
    pub fn find(&self, address: u64) -> Option<u32> {
        // Most addresses are elsewhere.
        if address < self.ranges.first()?.start || address >= self.ranges.last()?.end {
            return None;
        }
        let at = self.ranges.partition_point(|range| range.end <= address);
        let range = self.ranges.get(at).filter(|range| range.start <= address)?;
        Some(if range.is_uncertain {
            UNCERTAIN
        } else {
            range.program
        })
    }

    /// The innermost program of a stack, and the place of its frame.
    pub fn innermost(&self, frames: &[u64]) -> Option<(usize, u32)> {
        frames.iter().enumerate().find_map(|(at, &address)| {
            // All but the innermost are return addresses.
            let inside = address.wrapping_sub(u64::from(at > 0));
            Some((at, self.find(inside)?))
        })
    }

    /// The program that worked when a stack was taken: its frame is before any context boundary.
    pub fn at_work(&self, classifier: &mut Classifier, frames: &[u64]) -> Option<u32> {
        let (at, program) = self.innermost(frames)?;
        classifier.is_own_frame(frames, at).then_some(program)
    }
}

/// A sample within a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InProgram {
    /// The CPU.
    pub cpu: usize,
    /// Row of the event.
    pub event: usize,
    /// The program's number, or [`UNCERTAIN`].
    pub program: u32,
    /// For how much time it stands, in periods of its CPU.
    pub weight: f64,
}

/// Samples of networking in an interval.
#[derive(Debug, Clone, Default)]
pub struct ProgramSamples {
    /// By CPU and row of the event, whether in a program or not.
    all: Vec<Mass>,
    inside: Vec<InProgram>,
}

impl ProgramSamples {
    /// Begins an interval.
    pub fn begin(&mut self, possible_cpus: usize) {
        self.inside.clear();
        self.all.clear();
        self.all
            .resize(possible_cpus * COMPONENTS.len(), Mass::default());
    }

    /// Adds a sample of this weight.
    pub fn add(&mut self, cpu: usize, event: usize, program: Option<u32>, weight: f64) {
        if let Some(all) = self.all.get_mut(cpu * COMPONENTS.len() + event) {
            all.add(weight);
            self.inside.extend(program.map(|program| InProgram {
                cpu,
                event,
                program,
                weight,
            }));
        }
    }

    /// Removes what was counted on a CPU.
    pub fn forget(&mut self, cpu: usize) {
        let first = cpu * COMPONENTS.len();
        // Most CPUs have none.
        if let Some(rows) = self.all.get_mut(first..first + COMPONENTS.len())
            && rows.iter().any(|mass| mass.sum() > 0.0)
        {
            rows.fill(Mass::default());
            self.inside.retain(|sample| sample.cpu != cpu);
        }
    }

    /// Samples of an event on a CPU.
    pub fn of(&self, cpu: usize, event: usize) -> Mass {
        let mass = self.all.get(cpu * COMPONENTS.len() + event);
        mass.copied().unwrap_or_default()
    }

    /// Samples of an event on all CPUs.
    pub fn of_all(&self, event: usize) -> Mass {
        let mut all = Mass::default();
        let rows = self.all.chunks(COMPONENTS.len());
        let of_event = rows.filter_map(|row| row.get(event));
        of_event.for_each(|mass| all += *mass);
        all
    }

    /// Brings those in programs in order of CPU, event and program.
    pub fn sort(&mut self) {
        self.inside
            .sort_unstable_by_key(|sample| (sample.cpu, sample.event, sample.program));
    }

    /// Those in programs.
    pub fn in_programs(&self) -> &[InProgram] {
        &self.inside
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::component::index_of;

    use super::*;

    const PROGRAM: u64 = 0xffff_ffff_c000_0000;

    fn code() -> ProgramCode {
        let mut code = ProgramCode::default();
        code.add(
            7,
            &[
                (PROGRAM + 0x100, PROGRAM + 0x180),
                (PROGRAM, PROGRAM + 0x40),
            ],
        );
        code.add(8, &[(PROGRAM + 0x180, PROGRAM + 0x200)]);
        code.begin();
        code
    }

    #[test]
    fn a_function_of_a_program_is_found_by_any_address_in_it() {
        let code = code();
        let found = [0, 0x3f, 0x40, 0xff, 0x100, 0x17f, 0x180, 0x1ff, 0x200];
        let found = found.map(|at| code.find(PROGRAM + at));
        let [first, second] = [Some(7), Some(8)];
        let expected = [first, first, None, None, first, first, second, second, None];
        assert_eq!(found, expected);
        assert_eq!(ProgramCode::default().find(PROGRAM), None);
    }

    #[test]
    fn a_return_address_belongs_to_the_function_that_called() {
        let code = code();
        assert_eq!(code.innermost(&[0x10, PROGRAM + 0x180]), Some((1, 7)));
        assert_eq!(code.innermost(&[PROGRAM + 0x180, 0x10]), Some((0, 8)));
        // A program in a program, such as one that a tail call or an extension has begun.
        let both = [0x10, PROGRAM + 0x190, PROGRAM + 0x110];
        assert_eq!(code.innermost(&both), Some((1, 8)));
    }

    #[test]
    fn code_at_the_place_of_another_is_neithers_until_the_next_interval() {
        let mut code = code();
        code.add(9, &[(PROGRAM + 0x20, PROGRAM + 0x120)]);
        assert_eq!(code.find(PROGRAM + 0x30), Some(UNCERTAIN));
        assert_eq!(code.find(PROGRAM + 0x190), Some(8));
        code.begin();
        let found = [0x10, 0x30, 0x130].map(|at| code.find(PROGRAM + at));
        assert_eq!(found, [None, Some(9), None], "what was there is gone");
        code.remove(9);
        assert_eq!(code.find(PROGRAM + 0x30), None);
    }

    #[test]
    fn a_program_that_was_interrupted_does_not_work() {
        let text = "1000 t leaf\n2000 t net_rx_action\n3000 t ip_rcv\n";
        let mut classifier = Classifier::new(text.as_bytes()).unwrap();
        let program = PROGRAM + 0x110;
        let code = code();
        let mut at_work = |frames: &[u64]| code.at_work(&mut classifier, frames);
        assert_eq!(at_work(&[0x1010, program, 0x3010, 0x2010]), Some(7));
        assert_eq!(at_work(&[0x1010, 0x2010, program]), None);
        assert_eq!(at_work(&[program, 0x2010]), Some(7));
        assert_eq!(at_work(&[0x1010, 0x2010]), None);
    }

    #[test]
    fn samples_are_counted_by_cpu_and_event() {
        let receive = index_of("rx_softirq").unwrap();
        let mut samples = ProgramSamples::default();
        samples.begin(2);
        samples.add(1, receive, Some(7), 1.0);
        samples.add(1, receive, None, 1.0);
        samples.add(0, receive, Some(8), 1.0);
        samples.add(2, receive, Some(8), 1.0);
        let found = [0, 1, 2].map(|cpu| samples.of(cpu, receive));
        assert_eq!(found, [1, 2, 0].map(Mass::of));
        assert_eq!(samples.of_all(receive), Mass::of(3));
        samples.sort();
        assert_eq!(samples.in_programs()[0].cpu, 0);
        samples.forget(0);
        assert_eq!(samples.of(0, receive), Mass::default());
        let [sample] = samples.in_programs() else {
            panic!("one is left");
        };
        assert_eq!((sample.cpu, sample.program), (1, 7));
        samples.begin(1);
        assert!(samples.in_programs().is_empty());
    }
}
