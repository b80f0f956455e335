//! Where each function of two sets of stacks stands in a flame graph, and how much of it there is
//! on either side. Pure; what is drawn is bounded whatever there is.

use super::counted::Compared;

/// Functions deeper than this are not drawn.
const DEEPEST: usize = 64;
/// Narrower ones, as a part of the whole, are not drawn.
const NARROWEST: f64 = 0.001;
/// More rectangles than this are not drawn.
const MOST_RECTS: usize = 20_000;
/// Differences of fewer standard deviations than this may be chance.
const DEVIATIONS: f64 = 3.0;

/// A function with these callers.
#[derive(Debug, Clone, PartialEq)]
pub struct Rect<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many callers it has.
    pub depth: usize,
    /// Where it begins, as a part of the whole width.
    pub x: f64,
    /// Its part of all samples of both sides.
    pub width: f64,
    /// Samples on both sides, those of what it called included, brought to the same time.
    pub counts: [f64; 2],
    /// From −1 (only in A) over 0 (as many in both, but for chance) to 1 (only in B).
    pub change: f64,
}

/// Lines of one caller, without what they begin with.
type CallerLines<'a> = Vec<(&'a str, [f64; 2])>;

/// Draws all lines, each as wide as both its sides together: what is in one of them only is seen.
/// Callers come before what they call.
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
    /// What one caller calls, side by side from here on.
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

    /// How much more there is in B, if that is more than the chance of counting.
    fn change(&self, [a, b]: [f64; 2]) -> f64 {
        let variance = a * self.factors[0] + b * self.factors[1];
        match (b - a).abs() > DEVIATIONS * variance.sqrt() {
            true => (b - a) / (a + b),
            false => 0.0,
        }
    }
}

/// The outermost function of a stack, and what it calls.
fn split(stack: &str) -> (&str, Option<&str>) {
    match stack.split_once(';') {
        Some((name, rest)) => (name, Some(rest)),
        None => (stack, None),
    }
}
