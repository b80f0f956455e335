//! The heat map of CPUs over time: which CPUs in which order, and the colour of
//! every cell. Pure; the page puts the pixels on a canvas.

use metrics_common::history::History;

use super::choices::Sort;
use crate::axes::round_up;
use crate::color::{Rgb, heat};
use crate::format;
use crate::timeline::Frame;
use metrics_common::sort::sort_by;

/// The CPUs to show, as typed by the reader: `0-7,12`, `node1`, `>20` (percent at any displayed
/// time), or several of these, which must all be true.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    numbers: Vec<(u32, u32)>,
    nodes: Vec<u32>,
    above_ratio: Option<f64>,
}

impl Filter {
    /// Parses the text.
    ///
    /// # Errors
    /// The invalid word.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut filter = Filter::default();
        let words = text.split([',', ' ', ';']).filter(|word| !word.is_empty());
        for word in words.filter(|word| *word != "%") {
            let number = |text: &str| format::parse_decimal(text.trim_end_matches('%'));
            let cpu = |text: &str| text.trim_start_matches("cpu").parse::<u32>().ok();
            if let Some(node) = word.strip_prefix("node") {
                filter
                    .nodes
                    .push(node.parse().map_err(|_| word.to_owned())?);
            } else if let Some(percent) = word.strip_prefix('>') {
                let percent = number(percent).ok_or_else(|| word.to_owned())?;
                filter.above_ratio = Some(percent / 100.0);
            } else {
                let (from, to) = word.split_once('-').unwrap_or((word, word));
                match (cpu(from), cpu(to)) {
                    (Some(from), Some(to)) if from <= to => filter.numbers.push((from, to)),
                    _ => return Err(word.to_owned()),
                }
            }
        }
        Ok(filter)
    }

    fn takes(&self, cpu: u32, node: Option<u32>, highest_ratio: f64) -> bool {
        let numbers = &self.numbers;
        (numbers.is_empty() || numbers.iter().any(|&(from, to)| (from..=to).contains(&cpu)))
            && (self.nodes.is_empty() || node.is_some_and(|node| self.nodes.contains(&node)))
            && self.above_ratio.is_none_or(|above| highest_ratio > above)
    }
}

/// One line of the map.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuRow {
    /// Number of the CPU.
    pub cpu: u32,
    /// Its NUMA node, if the host has several.
    pub node: Option<u32>,
    /// Share of the CPU in each step; `None` where it was not measured.
    pub values: Vec<Option<f64>>,
}

impl CpuRow {
    fn mean(&self) -> f64 {
        let there = self.values.iter().flatten();
        let count = there.clone().count().max(1) as f64;
        there.sum::<f64>() / count
    }

    fn highest(&self) -> f64 {
        self.values.iter().flatten().copied().fold(0.0, f64::max)
    }
}

/// The map as plain values.
#[derive(Debug, Clone, PartialEq)]
pub struct Map {
    /// The time span.
    pub frame: Frame,
    /// From the top to the bottom.
    pub lines: Vec<CpuRow>,
    /// Number of CPUs excluded by the filter.
    pub hidden: usize,
    /// Share of a CPU at the upper end of the colour scale.
    pub top_ratio: f64,
}

impl Map {
    /// The map of a component. `nodes` gives the NUMA node of each CPU by its number.
    pub fn of(
        history: &History,
        component: usize,
        frame: Frame,
        nodes: &[u32],
        filter: &Filter,
        sort: Sort,
    ) -> Self {
        let columns = columns(history, &frame);
        let all = history
            .cpus()
            .iter()
            .enumerate()
            .map(|(place, &cpu)| CpuRow {
                cpu,
                node: nodes.get(cpu as usize).copied(),
                values: columns
                    .iter()
                    .map(|column| history.cell((*column)?, component, place))
                    .collect(),
            });
        let mut lines: Vec<CpuRow> = all
            .filter(|line| filter.takes(line.cpu, line.node, line.highest()))
            .collect();
        if sort == Sort::Load {
            sort_by(&mut lines, |a, b| b.mean().total_cmp(&a.mean()));
        }
        let highest = lines.iter().map(CpuRow::highest).fold(0.0, f64::max);
        Map {
            frame,
            hidden: history.cpus().len() - lines.len(),
            // If any CPU is near 100 %, the scale ends there.
            top_ratio: round_up(highest * 100.0).clamp(1.0, 100.0) / 100.0,
            lines,
        }
    }

    /// One pixel for each step and CPU, four bytes each, line by line; missing values are
    /// transparent.
    pub fn pixels(&self, dark: bool) -> Vec<u8> {
        let palette: Vec<Rgb> = (0..=255)
            .map(|at| heat(f64::from(at) / 255.0, dark))
            .collect();
        let mut bytes = Vec::with_capacity(self.lines.len() * self.frame.steps * 4);
        for value in self.lines.iter().flat_map(|line| &line.values) {
            match value {
                Some(ratio) => {
                    let at = (ratio / self.top_ratio * 255.0).clamp(0.0, 255.0) as usize;
                    let Rgb(red, green, blue) = palette[at];
                    bytes.extend([red, green, blue, 255]);
                }
                None => bytes.extend([0, 0, 0, 0]),
            }
        }
        bytes
    }

    /// The busiest CPU of the stretch and its mean share.
    pub fn busiest(&self) -> Option<(u32, f64)> {
        let by_mean = self.lines.iter().map(|line| (line.cpu, line.mean()));
        by_mean.max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Runs of lines of the same NUMA node: the node, the first line and their number.
    pub fn node_stretches(&self) -> Vec<(u32, usize, usize)> {
        let mut found: Vec<(u32, usize, usize)> = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            match (line.node, found.last_mut()) {
                (Some(node), Some((last, from, count)))
                    if *last == node && *from + *count == at =>
                {
                    *count += 1;
                }
                (Some(node), _) => found.push((node, at, 1)),
                (None, _) => {}
            }
        }
        found
    }
}

/// The history's column that covers most of each step, if any. Ends of columns vary by some
/// milliseconds, so neither edges nor middles are enough.
fn columns(history: &History, frame: &Frame) -> Vec<Option<usize>> {
    let mut steps = vec![(0.1 * frame.step_ms, None); frame.steps];
    for column in 0..history.columns() {
        let (begin, end) = history.column_ms(column);
        if end <= frame.from_ms || begin >= frame.to_ms() {
            continue;
        }
        let first = ((begin - frame.from_ms) / frame.step_ms).floor().max(0.0) as usize;
        for (step, best) in steps.iter_mut().enumerate().skip(first) {
            let from = frame.step_begin_ms(step);
            if from >= end {
                break;
            }
            let covered = end.min(from + frame.step_ms) - begin.max(from);
            if covered > best.0 {
                *best = (covered, Some(column));
            }
        }
    }
    steps.into_iter().map(|(_, column)| column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use metrics_common::component::index_of;

    const FRAME: Frame = Frame {
        from_ms: 0.0,
        step_ms: 500.0,
        steps: 4,
    };

    fn map(filter: &str, sort: Sort) -> Map {
        // CPU 0 is fully used in half seconds 1, 2 and 4; CPU 1 idles.
        let history = fixture::history(&[1, 2, 4]);
        let filter = Filter::parse(filter).unwrap();
        Map::of(
            &history,
            index_of("rx_softirq").unwrap(),
            FRAME,
            &[0, 1],
            &filter,
            sort,
        )
    }

    #[test]
    fn every_cell_is_the_share_of_its_cpu_and_gaps_are_no_zeros() {
        let map = map("", Sort::Number);
        assert_eq!(map.lines[0].values, [Some(1.0), Some(1.0), None, Some(1.0)]);
        assert_eq!(map.lines[1].values, [Some(0.0), Some(0.0), None, Some(0.0)]);
        assert_eq!(map.busiest(), Some((0, 1.0)));
        let pixels = map.pixels(false);
        assert_eq!(pixels.len(), 2 * 4 * 4);
        assert_eq!(pixels[..4], [0x43, 0x0a, 0x47, 255], "full");
        assert_eq!(pixels[8..12], [0, 0, 0, 0], "a gap");
        assert_eq!(pixels[16..20], [0xf1, 0xf4, 0xf7, 255], "idle");
    }

    #[test]
    fn a_clock_that_wavers_leaves_no_holes() {
        let mut history = History::new(&fixture::info());
        for (number, late_ms) in [(1, 0), (2, 120), (3, 10), (4, 240), (5, 0)] {
            let mut snapshot = fixture::snapshot(number);
            snapshot.time_unix_ns = (number * 500 + late_ms) * fixture::MS;
            history.push(&snapshot);
        }
        let shown = columns(&history, &FRAME);
        assert!(shown.iter().all(Option::is_some), "{shown:?}");
    }

    #[test]
    fn filters_take_numbers_nodes_and_loads() {
        for (filter, cpus) in [
            ("", &[0, 1][..]),
            ("1", &[1]),
            ("0-7", &[0, 1]),
            ("cpu0", &[0]),
            ("node1", &[1]),
            (">50 %", &[0]),
            ("node1 >50", &[]),
        ] {
            let shown: Vec<u32> = map(filter, Sort::Number)
                .lines
                .iter()
                .map(|l| l.cpu)
                .collect();
            assert_eq!(shown, cpus, "{filter}");
            assert_eq!(map(filter, Sort::Number).hidden, 2 - cpus.len());
        }
        for nonsense in ["x", "7-0", "nodeX", ">", "-1", "0-"] {
            assert_eq!(Filter::parse(nonsense), Err(nonsense.to_owned()));
        }
    }

    #[test]
    fn the_busiest_comes_first_if_asked_for() {
        let history = fixture::history(&[1, 2]);
        let idle_first = |sort| {
            let index = index_of("tx_syscall").unwrap();
            let map = Map::of(&history, index, FRAME, &[], &Filter::default(), sort);
            map.lines.iter().map(|line| line.cpu).collect::<Vec<_>>()
        };
        assert_eq!(idle_first(Sort::Number), [0, 1]);
        assert_eq!(idle_first(Sort::Load), [0, 1], "CPU 0 sends");
        assert_eq!(map("", Sort::Load).lines[0].cpu, 0);
    }

    #[test]
    fn nodes_are_marked_where_their_cpus_stand_together() {
        let map = map("", Sort::Number);
        assert_eq!(map.node_stretches(), [(0, 0, 1), (1, 1, 1)]);
        let plain = Map {
            lines: vec![CpuRow {
                node: None,
                ..map.lines[0].clone()
            }],
            ..map
        };
        assert_eq!(plain.node_stretches(), []);
    }
}
