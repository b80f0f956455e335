//! Positions of functions in a flame graph of two sets of stacks, with their samples on both sides.
//! Pure; the number of rectangles is bounded.

use super::counted::Compared;

/// Deepest function drawn.
const DEEPEST: usize = 64;
/// Narrowest function drawn, relative to the whole.
const NARROWEST: f64 = 0.001;
/// Most rectangles drawn.
const MOST_RECTS: usize = 20_000;
/// Differences below this many standard deviations may be chance.
const DEVIATIONS: f64 = 3.0;

/// A function with these callers.
#[derive(Debug, Clone, PartialEq)]
pub struct Rect<'a> {
    /// Its name.
    pub name: &'a str,
    /// Number of its callers.
    pub depth: usize,
    /// Left edge, relative to the whole width.
    pub x: f64,
    /// Its share of all samples of both sides.
    pub width: f64,
    /// Scaled samples on both sides, including those of its callees.
    pub counts: [f64; 2],
    /// From −1 (only in A) over 0 (no significant difference) to 1 (only in B).
    pub change: f64,
}

/// Lines of one caller, without their common beginning.
type CallerLines<'a> = Vec<(&'a str, [f64; 2])>;

/// Lays out all lines; the width is the sum of both sides, so that functions on only one side are
/// visible. Callers precede callees.
pub fn layout(compared: &Compared) -> Vec<Rect<'_>> {
    let lines = compared.lines.iter();
    let lines: CallerLines<'_> = lines
        .map(|(stack, counts)| (&**stack, counts.map(|count| count as f64)))
        .collect();
    let mut drawing = Drawing {
        total: lines.iter().map(|(_, [a, b])| a + b).sum(),
        factors: compared.factors,
        rects: Vec::new(),
    };
    if drawing.total > 0.0 {
        drawing.draw(&lines, 0, 0.0);
    }
    drawing.rects
}

struct Drawing<'a> {
    /// Samples of both sides.
    total: f64,
    factors: [f64; 2],
    rects: Vec<Rect<'a>>,
}

impl<'a> Drawing<'a> {
    /// Lays out the callees of one caller, side by side.
    fn draw(&mut self, lines: &[(&'a str, [f64; 2])], depth: usize, mut x: f64) {
        let mut lines = lines.iter().peekable();
        while let Some(&(line, counts)) = lines.next() {
            let (name, rest) = split(line);
            let mut sum = counts;
            let mut called: CallerLines<'a> = rest.map(|rest| (rest, counts)).into_iter().collect();
            while let Some(&(more, counts)) = lines.next_if(|(next, _)| split(next).0 == name) {
                sum = [sum[0] + counts[0], sum[1] + counts[1]];
                called.extend(split(more).1.map(|rest| (rest, counts)));
            }
            let width = (sum[0] + sum[1]) / self.total;
            if width >= NARROWEST && self.rects.len() < MOST_RECTS {
                self.rects.push(Rect {
                    name,
                    depth,
                    x,
                    width,
                    counts: sum,
                    change: self.change(sum),
                });
                if depth + 1 < DEEPEST {
                    self.draw(&called, depth + 1, x);
                }
            }
            x += width;
        }
    }

    /// The relative difference, if it is significant.
    fn change(&self, [a, b]: [f64; 2]) -> f64 {
        let variance = a * self.factors[0] + b * self.factors[1];
        if (b - a).abs() > DEVIATIONS * variance.sqrt() {
            (b - a) / (a + b)
        } else {
            0.0
        }
    }
}

/// The outermost function of a stack, and the rest.
fn split(stack: &str) -> (&str, Option<&str>) {
    match stack.split_once(';') {
        Some((name, rest)) => (name, Some(rest)),
        None => (stack, None),
    }
}
