//! The content of a chart over time as plain values: the parts of a component, with a text
//! alternative and the sentence below. Pure.

use metrics_common::Info;
use metrics_common::history::History;

use super::draw::{Chart, Layer};
use super::legend;
use crate::basis::{self, Basis};
use crate::color::Rgb;
use crate::format;
use crate::timeline::{self, Frame, Times};

/// The parts of a component over time; for one without parts, the component itself. Parts that are
/// always 0 are omitted. Its band is that of the part that is `pointed` at, else of the component.
pub fn parts_chart(
    info: &Info,
    history: &History,
    whole: &str,
    frame: Frame,
    (basis, cpus): (Basis, usize),
    times: Times,
    pointed: Option<&str>,
) -> Chart {
    let whole_row = info.row_of(whole);
    let is_split = info.parts_of(whole).next().is_some();
    let indices: Vec<usize> = if is_split {
        info.parts_of(whole).collect()
    } else {
        whole_row.into_iter().collect()
    };
    let means = |index| {
        let cpus = |point| history.component_cpus(index, point);
        timeline::means(history, &frame, cpus)
    };
    let layers = indices
        .into_iter()
        .filter(|&index| info.components[index].availability.is_available())
        .map(|index| {
            let component = &info.components[index];
            Layer {
                key: component.slug.clone(),
                label: component.label.clone(),
                color: Rgb::parse(&component.color),
                cpus: means(index),
                values: Vec::new(),
            }
        })
        .filter(|layer| layer.cpus.iter().flatten().any(|value| *value > 0.0))
        .collect();
    let host_cpus = cpus.max(1) as f64;
    let compared_with = whole_row.and_then(|row| {
        if is_split {
            Some(row)
        } else {
            basis::parent_of(info, row)
        }
    });
    let name = compared_with.map_or(basis::THIS_HOST, |index| basis::name_of_whole(info, index));
    // Only one basis asks for it.
    let whole_cpus = match compared_with.filter(|_| basis == Basis::Parent) {
        Some(index) => means(index),
        None => vec![Some(host_cpus); frame.steps],
    };
    let whole = (host_cpus, whole_cpus);
    let chart = Chart::new(frame, layers, basis, whole, name.to_owned(), times);
    let part = pointed.filter(|part| chart.layers.iter().any(|layer| layer.key == *part));
    match part.map_or(whole_row, |part| info.row_of(part)) {
        Some(row) => {
            let bounds = timeline::intervals(info, history, &frame, cpus, row);
            chart.with_band(part, &info.components[row].label, &bounds)
        }
        None => chart,
    }
}

/// The text alternative of the chart, one or two sentences.
pub fn spoken(chart: &Chart, what: &str) -> String {
    let span = format::span(chart.frame.to_ms() - chart.frame.from_ms);
    let lines = legend::lines(chart, None, false);
    let Some(total) = lines.last() else {
        return format!("{what}: nothing was measured in these {span}.");
    };
    let sums = || (0..chart.frame.steps).filter_map(|step| chart.sum_at(step));
    let low = sums().fold(f64::MAX, f64::min);
    let number = |value: Option<f64>| chart.basis.number(value.unwrap_or(0.0));
    let leaders: Vec<String> = lines
        .iter()
        .filter(|line| line.key.is_some())
        .take(3)
        .map(|line| match line.at {
            Some(value) => format!("{} {}", line.label, chart.basis.text(value)),
            None => format!("{} not measured", line.label),
        })
        .collect();
    format!(
        "{what} over {span}: {} {} on average, from {} to {}. Last: {}.",
        number(total.mean),
        chart.basis.phrase(&chart.whole),
        chart.basis.text(low),
        chart.basis.text(total.max.unwrap_or(0.0)),
        leaders.join(", ")
    )
}

/// The sentence below the chart: unit and time of its values.
pub fn sentence(chart: &Chart) -> String {
    let clock = |ms| timeline::clock(ms, chart.times.offset_ms, true);
    let phrase = chart.basis.phrase(&chart.whole);
    format!(
        "Values in {phrase}. Mean and max are of the {} shown, {} to {}, in steps of {}.{}",
        format::span(chart.frame.to_ms() - chart.frame.from_ms),
        clock(chart.frame.from_ms),
        clock(chart.frame.to_ms()),
        step(chart.frame.step_ms),
        chart.band.as_ref().map_or(String::new(), |band| {
            format!(
                " The grey band is the 95 % interval of {} in each step.",
                band.label
            )
        }),
    )
}

/// The tip over a layer in a step, as markup: its value then, and of an estimate its interval, numbers
/// of CPUs.
pub fn tip(
    chart: &Chart,
    layer: &Layer,
    step: usize,
    when: &str,
    interval: Option<(f64, f64)>,
) -> String {
    let value = layer.value_at(step);
    let value = value.map_or("–".to_owned(), |value| chart.basis.text(value));
    let interval = interval.map_or(String::new(), |(low, high)| {
        let [low, high] = [low, high].map(|cpus| chart.amount(cpus, step));
        let range = chart.basis.range(low, high);
        format!(
            "<dt>95 % interval</dt><dd>{}</dd>",
            format::escape_html(&range)
        )
    });
    format!(
        "<strong><i class=\"swatch\" style=\"background:{}\"></i>{}</strong><dl><dt>{when}</dt><dd>{}</dd>{interval}</dl>",
        layer.color.css(),
        format::escape_html(&layer.label),
        format::escape_html(&value),
    )
}

fn step(ms: f64) -> String {
    match ms {
        short if short < 1_000.0 => format!("{short:.0} ms"),
        long => format::span(long),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, FRAME};

    #[test]
    fn a_chart_holds_the_parts_that_appear_and_the_whole_if_there_are_none() {
        let (info, history) = (fixture::info(), fixture::history(&[1, 2, 3]));
        let keys = |whole: &str| -> Vec<String> {
            let chart = parts_chart(
                &info,
                &history,
                whole,
                FRAME,
                (Basis::Host, 2),
                Times::default(),
                None,
            );
            chart.layers.into_iter().map(|layer| layer.key).collect()
        };
        assert_eq!(keys("network"), ["tx_syscall", "rx_softirq"]);
        assert_eq!(keys("rx_softirq"), ["driver_poll", "local_delivery_v4"]);
        assert_eq!(keys("tx_syscall"), ["send_copy"]);
        assert_eq!(keys("nothing"), Vec::<String>::new());

        let (mut history, mut last) = (History::new(&info), fixture::snapshot(1));
        last.time_unix_ns = 500 * fixture::MS;
        fixture::cost(&mut last).components[info.row_of("tx_softirq").unwrap()] =
            Some(vec![fixture::MS, 0]);
        history.push(&last);
        let whole = parts_chart(
            &info,
            &history,
            "tx_softirq",
            FRAME,
            (Basis::Host, 2),
            Times::default(),
            None,
        );
        assert_eq!(whole.layers[0].key, "tx_softirq");
    }

    #[test]
    fn the_text_alternative_says_what_the_eye_would_see() {
        let (info, history) = (fixture::info(), fixture::history(&[1, 2, 3]));
        let of = |basis| {
            parts_chart(
                &info,
                &history,
                "network",
                FRAME,
                (basis, 2),
                Times::default(),
                None,
            )
        };
        let text = spoken(&of(Basis::Host), "Events");
        for part in [
            "Events over 3 s: ",
            "% of this host's CPU on average",
            "152.0 %",
            "Last: RX softirq 150.0 %",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let text = spoken(&of(Basis::Cpus), "Events");
        assert!(text.contains("Last: RX softirq 3.00 CPUs"), "{text}");
        let empty = parts_chart(
            &info,
            &history,
            "nothing",
            FRAME,
            (Basis::Host, 2),
            Times::default(),
            None,
        );
        assert!(spoken(&empty, "Events").contains("nothing was measured"));
    }

    #[test]
    fn a_tip_names_the_layer_its_value_and_its_interval_in_that_step() {
        let (info, history) = (fixture::info(), fixture::history(&[1, 2, 3]));
        let basis = (Basis::Host, 2);
        let chart = parts_chart(
            &info,
            &history,
            "network",
            FRAME,
            basis,
            Times::default(),
            None,
        );
        let layer = chart.layers.last().unwrap();
        let step = (0..FRAME.steps)
            .rev()
            .find(|step| layer.value_at(*step).is_some());
        let tip = tip(&chart, layer, step.unwrap(), "14:05:30", Some((1.0, 1.4)));
        for part in [
            "RX softirq</strong>",
            "<dt>14:05:30</dt><dd>150.0 %</dd>",
            "<dt>95 % interval</dt><dd>50.0–70.0 %</dd>",
        ] {
            assert!(tip.contains(part), "{part} in {tip}");
        }
    }

    /// Half seconds in which a sample of the fixture's parts stands for so many milliseconds / 100.
    fn sampled(hundredths: u64) -> (Info, History) {
        let info = fixture::info();
        let mut history = History::new(&info);
        for number in 1..=6 {
            let mut snapshot = fixture::snapshot(number);
            snapshot.time_unix_ns = number * 500 * fixture::MS;
            let sample_ns_ms = fixture::cost(&mut snapshot).sample_ns_ms.as_mut().unwrap();
            sample_ns_ms
                .iter_mut()
                .for_each(|value| *value = *value * hundredths / 100);
            history.push(&snapshot);
        }
        (info, history)
    }

    #[test]
    fn the_interval_of_the_part_at_the_pointer_is_a_band_above_those_below_it() {
        let (info, history) = sampled(10_000);
        let of = |pointed| {
            let basis = (Basis::Parent, 2);
            let times = Times::default();
            parts_chart(&info, &history, "rx_softirq", FRAME, basis, times, pointed)
        };
        let band = of(Some("local_delivery_v4")).band.unwrap();
        assert_eq!(
            band.label,
            info.components[info.row_of("local_delivery_v4").unwrap()].label
        );
        // Three quarters of a softirq that has two samples in a second, above a quarter.
        for edges in &band.edges {
            let (low, high) = edges.unwrap();
            assert!(
                (25.0..75.0).contains(&low) && (99.0..=125.1).contains(&high),
                "{low} … {high}"
            );
        }
        assert!(
            sentence(&of(Some("local_delivery_v4")))
                .ends_with("The grey band is the 95 % interval of Local delivery v4 in each step.")
        );
        // The softirq itself is timed.
        assert_eq!(of(None).band, None);
        assert_eq!(of(Some("gro")).band, None, "it is not drawn");
    }

    #[test]
    fn a_component_without_parts_has_its_own_interval_and_a_narrow_one_is_not_drawn() {
        let of = |(info, history): (Info, History)| {
            let basis = (Basis::Host, 2);
            let times = Times::default();
            parts_chart(&info, &history, "driver_poll", FRAME, basis, times, None)
        };
        let wide = of(sampled(10_000)).band.unwrap();
        assert_eq!(wide.label, "Driver poll");
        assert!(wide.edges[0].unwrap().0 < 1.0 && wide.edges[0].unwrap().1 > 5.0);
        assert_eq!(of(sampled(1)).band, None);
    }

    #[test]
    fn the_sentence_below_says_basis_and_time() {
        let (info, history) = (fixture::info(), fixture::history(&[1, 2, 3]));
        let of = |whole: &str, basis| {
            let chart = parts_chart(
                &info,
                &history,
                whole,
                FRAME,
                (basis, 2),
                Times::default(),
                None,
            );
            sentence(&chart)
        };
        assert_eq!(
            of("network", Basis::Parent),
            "Values in % of all networking. Mean and max are of the 3 s shown, \
             00:00:00 to 00:00:03, in steps of 1 s."
        );
        for (whole, basis, phrase) in [
            ("rx_softirq", Basis::Parent, "Values in % of RX softirq."),
            ("gro", Basis::Parent, "Values in % of RX softirq."),
            (
                "local_ipc",
                Basis::Parent,
                "Values in % of this host's CPU.",
            ),
            ("rx_softirq", Basis::Host, "Values in % of this host's CPU."),
            ("rx_softirq", Basis::Cpus, "Values in CPUs' worth of time."),
        ] {
            let text = of(whole, basis);
            assert!(text.starts_with(phrase), "{whole}: {text}");
        }
    }
}
