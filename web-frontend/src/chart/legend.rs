//! The legend of a chart: the largest components, the sum of the others, and the total, each with
//! its last, mean and largest value in the time span. Pure.

use super::draw::{Chart, Layer};
use crate::action::Action;
use crate::basis::Amount;
use crate::color::Rgb;
use crate::format::escape_html;
use metrics_common::sort::sort_by;

/// Most components with a line of their own; the others are summed.
const TOP: usize = 6;

/// One line of a legend.
#[derive(Debug, Clone, PartialEq)]
pub struct LegendRow {
    /// Slug of the component; `None` for a sum.
    pub key: Option<String>,
    /// Name for people.
    pub label: String,
    /// Its colour, if it has one.
    pub color: Option<Rgb>,
    /// Its value at the cursor, or the last one, in the chart's unit.
    pub at: Option<f64>,
    /// Its mean over the time span.
    pub mean: Option<f64>,
    /// Its largest value in the time span.
    pub max: Option<f64>,
    /// Whether it is the sum of those without a line of their own.
    pub is_others: bool,
}

/// The legend at a step (by default the last one with values): components by their mean in
/// descending order, then the others, if any, then the total. Values and means add up to the total;
/// maxima may be at different times. The others have lines of their own, too, if all are wanted.
pub fn lines(chart: &Chart, step: Option<usize>, are_all_wanted: bool) -> Vec<LegendRow> {
    let step = step.or_else(|| {
        let mut latest_first = (0..chart.frame.steps).rev();
        latest_first.find(|&step| chart.sum_at(step).is_some())
    });
    let mut layers: Vec<(&Layer, f64)> = chart
        .layers
        .iter()
        .map(|layer| (layer, layer.cpus.iter().flatten().sum()))
        .collect();
    sort_by(&mut layers, |a, b| b.1.total_cmp(&a.1));
    let layers: Vec<&Layer> = layers.into_iter().map(|(layer, _)| layer).collect();
    if layers.is_empty() {
        return Vec::new();
    }
    // One line is as good as “1 other”.
    let has_others = layers.len() > TOP + 1;
    let shown = if has_others { TOP } else { layers.len() };
    let (top, rest) = layers.split_at(shown);
    let line = |of: &[&Layer], key: Option<&Layer>, label: String| LegendRow {
        key: key.map(|layer| layer.key.clone()),
        label,
        color: key.map(|layer| layer.color),
        at: step.and_then(|step| value_at(chart, of, step)),
        mean: mean(chart, of),
        max: (0..chart.frame.steps)
            .filter_map(|step| value_at(chart, of, step))
            .reduce(f64::max),
        is_others: false,
    };
    let mut lines: Vec<LegendRow> = top
        .iter()
        .map(|layer| line(&[*layer], Some(layer), layer.label.clone()))
        .collect();
    if !rest.is_empty() {
        lines.push(LegendRow {
            is_others: true,
            ..line(rest, None, format!("Other ({})", rest.len()))
        });
    }
    if are_all_wanted {
        let others = rest.iter();
        lines.extend(others.map(|layer| line(&[*layer], Some(layer), layer.label.clone())));
    }
    if layers.len() > 1 {
        lines.push(line(&layers, None, "Total".to_owned()));
    }
    lines
}

/// The sum of these layers in a step; `None` if none was measured.
fn value_at(chart: &Chart, layers: &[&Layer], step: usize) -> Option<f64> {
    let values = || layers.iter().filter_map(|layer| layer.value_at(step));
    values()
        .next()
        .map(|_| values().sum::<f64>())
        .filter(|_| step < chart.frame.steps)
}

/// The mean of the sum of these layers over all measured steps. A mean share is the share over the
/// whole span, weighted by the steps' load.
fn mean(chart: &Chart, layers: &[&Layer]) -> Option<f64> {
    let (mut sum, mut whole, mut steps) = (0.0, 0.0, 0_usize);
    for step in (0..chart.frame.steps).filter(|&step| chart.sum_at(step).is_some()) {
        let cpus = layers
            .iter()
            .filter_map(|layer| layer.cpus.get(step).copied().flatten());
        sum += cpus.sum::<f64>();
        whole += chart.whole_cpus.get(step).copied().flatten().unwrap_or(0.0);
        steps += 1;
    }
    let per_step = |sum: f64| sum / steps as f64;
    (steps > 0).then(|| {
        chart.basis.value(Amount {
            cpus: per_step(sum),
            parent_cpus: per_step(whole),
            host_cpus: chart.host_cpus,
        })
    })
}

/// The parts of the legend that determine its markup; values change more often.
pub fn layout(lines: &[LegendRow]) -> Vec<(Option<String>, String)> {
    lines
        .iter()
        .map(|line| (line.key.clone(), line.label.clone()))
        .collect()
}

/// Markup of a second button for a component, by slug and label.
pub type More = fn(&str, &str) -> String;

/// The legend's markup without values, as a table; elements for values have `data-value`, in the
/// order of [`texts`]. `more` adds a second button to a name, and `others` is what opens the others.
pub fn html(
    lines: &[LegendRow],
    caption: &str,
    more: Option<More>,
    others: Option<(&Action, bool)>,
) -> String {
    let mut html = format!(
        "<caption>{}</caption><thead><tr><th scope=\"col\">Component</th>\
         <th scope=\"col\" class=\"when\" data-value></th><th scope=\"col\">Mean</th>\
         <th scope=\"col\">Max</th></tr></thead><tbody>",
        escape_html(caption)
    );
    for line in lines {
        let label = escape_html(&line.label);
        let swatch = line.color.map_or(String::new(), |color| {
            format!(
                "<i class=\"swatch\" style=\"background:{}\"></i>",
                color.css()
            )
        });
        let (row, name) = match &line.key {
            Some(key) => (
                format!(" data-key=\"{}\"", escape_html(key)),
                format!(
                    "<button class=\"entry\"{}>{swatch}<span class=\"name\">{label}</span></button>{}",
                    Action::About(key.clone()).attribute(),
                    more.as_ref()
                        .map_or(String::new(), |more| more(key, &line.label)),
                ),
            ),
            None => {
                let name = match others.filter(|_| line.is_others) {
                    Some((action, is_open)) => format!(
                        "<button class=\"entry\" aria-expanded=\"{is_open}\"{}><span class=\"name\">{label}</span></button>",
                        action.attribute()
                    ),
                    None => format!("<span class=\"name\">{label}</span>"),
                };
                (" class=\"several\"".to_owned(), name)
            }
        };
        html.push_str(&format!(
            "<tr{row}><th scope=\"row\">{name}</th><td class=\"value\" data-value></td>\
             <td data-value></td><td data-value></td></tr>"
        ));
    }
    html.push_str("</tbody>");
    html
}

/// The values in the order of the markup: the heading of the first column of numbers, then the
/// numbers of each line.
pub fn texts(chart: &Chart, lines: &[LegendRow], when: Option<String>) -> Vec<String> {
    let text = |value: Option<f64>| match value {
        Some(value) => chart.basis.aligned(value),
        None => "–".to_owned(),
    };
    let of_lines = lines
        .iter()
        .flat_map(|line| [line.at, line.mean, line.max].map(text));
    std::iter::once(when.unwrap_or_else(|| "Last".to_owned()))
        .chain(of_lines)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::Basis;
    use crate::fixture::FRAME;

    /// A host of two CPUs; each layer with its CPUs in three steps.
    fn chart(basis: Basis, layers: &[(&str, [Option<f64>; 3])]) -> Chart {
        let whole = (0..3).map(|step| {
            let values = || layers.iter().filter_map(|(_, values)| values[step]);
            values().next().map(|_| values().sum())
        });
        let whole_cpus = whole.collect();
        let layers = layers.iter().map(|(key, values)| Layer {
            key: (*key).to_owned(),
            label: key.to_ascii_uppercase(),
            color: Rgb(0, 0, 0),
            cpus: values.to_vec(),
            values: Vec::new(),
        });
        Chart::new(
            FRAME,
            layers.collect(),
            basis,
            (2.0, whole_cpus),
            "all".to_owned(),
            crate::timeline::Times::default(),
        )
    }

    const THREE: [(&str, [Option<f64>; 3]); 3] = [
        ("small", [Some(0.1), Some(0.2), Some(0.3)]),
        ("large", [Some(0.2), Some(1.0), Some(0.3)]),
        ("gone", [Some(0.3), Some(0.0), None]),
    ];

    fn values(chart: &Chart, step: Option<usize>) -> Vec<(String, [f64; 3])> {
        let or_none = |value: Option<f64>| value.unwrap_or(-1.0);
        let rounded = |value: f64| (value * 1e6).round() / 1e6;
        lines(chart, step, false)
            .into_iter()
            .map(|l| (l.label, [l.at, l.mean, l.max].map(or_none).map(rounded)))
            .collect()
    }

    fn named(list: &[(&str, [f64; 3])]) -> Vec<(String, [f64; 3])> {
        list.iter()
            .map(|(name, v)| ((*name).to_owned(), *v))
            .collect()
    }

    #[test]
    fn each_line_has_last_mean_and_max_the_largest_mean_first() {
        let chart = chart(Basis::Cpus, &THREE);
        let expected = [
            ("LARGE", [0.3, 0.5, 1.0]),
            ("SMALL", [0.3, 0.2, 0.3]),
            ("GONE", [-1.0, 0.1, 0.3]),
            ("Total", [0.6, 0.8, 1.2]),
        ];
        assert_eq!(values(&chart, None), named(&expected));
        assert_eq!(values(&chart, Some(0))[2].1[0], 0.3, "at the cursor");
    }

    #[test]
    fn the_unit_is_that_of_the_page() {
        let of = |basis| values(&chart(basis, &THREE), None)[0].1;
        assert_eq!(of(Basis::Host), [15.0, 25.0, 50.0]);
        assert_eq!(of(Basis::Milliseconds), [300.0, 500.0, 1000.0]);
        // Five of eight over the whole span, though two of six at its beginning.
        assert_eq!(of(Basis::Parent), [50.0, 62.5, 83.333333]);
        let lines = values(&chart(Basis::Parent, &THREE), None);
        assert_eq!(lines[3], ("Total".to_owned(), [100.0, 100.0, 100.0]));
    }

    #[test]
    fn the_rest_is_one_line_and_all_adds_up() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        let layers: Vec<_> = names
            .into_iter()
            .zip(1..)
            .map(|(name, n)| (name, [Some(f64::from(n)), None, Some(f64::from(n * n))]))
            .collect();
        for (basis, _) in Basis::ALL {
            let chart = chart(basis, &layers);
            let lines = lines(&chart, None, false);
            assert_eq!(lines.len(), TOP + 2);
            assert_eq!(lines[TOP].label, "Other (3)");
            let [total, others @ ..] = &lines.iter().rev().collect::<Vec<_>>()[..] else {
                panic!("no lines");
            };
            for of in [|l: &LegendRow| l.at, |l: &LegendRow| l.mean] {
                let sum: f64 = others.iter().filter_map(|line| of(line)).sum();
                assert!((sum - of(total).unwrap()).abs() < 1e-9, "{basis:?}");
            }
        }
        let seven = lines(&chart(Basis::Host, &layers[..TOP + 1]), None, false);
        assert!(seven.iter().all(|line| !line.label.starts_with("Other")));
    }

    #[test]
    fn nothing_has_no_legend_and_one_needs_no_total() {
        assert_eq!(lines(&chart(Basis::Host, &[]), None, false), []);
        assert_eq!(
            lines(&chart(Basis::Host, &THREE[..1]), None, false).len(),
            1
        );
    }

    #[test]
    fn there_is_a_text_for_every_place_and_names_stay_text() {
        let chart = chart(Basis::Host, &[("<b>", [Some(0.5); 3]), ("x", [None; 3])]);
        let lines = lines(&chart, None, false);
        let html = html(&lines, "a < b", None, None);
        let texts = texts(&chart, &lines, None);
        assert_eq!(html.matches("data-value").count(), texts.len());
        assert_eq!(texts[..4], ["Last", "25.00", "25.00", "25.00"]);
        assert!(!html.contains("<b>") && !html.contains("<B>") && html.contains("a &lt; b"));
    }
}
