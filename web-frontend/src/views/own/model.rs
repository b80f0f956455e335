//! netto's own cost as plain values and markup. Pure.

use std::fmt::Write as _;

use metrics_common::sections::{OwnCost, OwnPart, Price, SamplePrice};
use metrics_common::{Availability, Info, Snapshot};

use crate::format::{self, escape_html};
use crate::view_model::above_budget;

/// netto's cost in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// The line.
    pub text: String,
    /// Whether it is above the limit.
    pub is_loud: bool,
}

/// The figure; `None` if the cost is unknown.
pub fn figure(info: &Info, snapshot: &Snapshot) -> Option<Figure> {
    let own_cost = snapshot.sections.own.as_ref()?;
    let limit = info.max_overhead_ratio;
    let memory = format::megabytes(own_cost.resident_bytes);
    let Some(costliest) = own_cost.costliest else {
        let ns = own_cost.user_ns.saturating_add(own_cost.system_ns);
        let share = format::percent(format::ratio(ns, snapshot.interval_ns));
        return Some(Figure {
            text: format!("netto itself: its process {share} % of one CPU, {memory} resident"),
            is_loud: false,
        });
    };
    let is_loud = above_budget(info, snapshot).is_some();
    let budget = match limit {
        Some(limit) if is_loud => format!("above its budget of {} %", plain_percent(limit)),
        Some(limit) => format!("budget {} %", plain_percent(limit)),
        None => "no budget".to_owned(),
    };
    Some(Figure {
        text: format!(
            "netto itself: {} % of the costliest CPU (CPU {}), {budget}, {memory} resident",
            format::fine_percent(costliest.ratio * 100.0),
            costliest.cpu,
        ),
        is_loud,
    })
}

/// A configured ratio as percent, without additional digits.
fn plain_percent(ratio: f64) -> f64 {
    (ratio * 1e4).round() / 1e2
}

/// The parts as a table, and the sampling rates.
pub fn parts_html(info: &Info, snapshot: &Snapshot) -> String {
    let Some(own_cost) = &snapshot.sections.own else {
        return String::new();
    };
    let cpu = own_cost.costliest.map(|costliest| costliest.cpu);
    let column = cpu.and_then(|cpu| snapshot.cpus.iter().position(|&other| other == cpu));
    let head = match (cpu, column) {
        (Some(cpu), Some(_)) => format!("% of CPU {cpu}"),
        _ => "% of the costliest CPU".to_owned(),
    };
    let share = |ns: Option<u64>, of_ns: u64| match ns {
        Some(ns) => format::fine_percent(format::ratio(ns, of_ns) * 100.0),
        None => "–".to_owned(),
    };
    let mut html = format!(
        "<table><thead><tr><th scope=\"col\">Part</th><th scope=\"col\">% of this host</th>\
         <th scope=\"col\">{head}</th><th scope=\"col\">Now by</th><th scope=\"col\"></th></tr></thead><tbody>"
    );
    let mut row = |slug: &str, label: &str, host, cpu, by: &str, help: &str| {
        let host = share(host, snapshot.capacity_ns());
        let cpu = share(cpu, snapshot.interval_ns);
        let (by, help) = (escape_html(by), escape_html(help));
        let _ = write!(
            html,
            "<tr data-part=\"{slug}\"><th scope=\"row\">{label}</th><td>{host}</td><td>{cpu}</td>\
             <td>{by}</td><td>{help}</td></tr>"
        );
    };
    for part in OwnPart::ALL {
        let Some(ns) = own_cost.part_ns(part) else {
            let by = "not known in this interval";
            row(part.slug(), part.label(), None, None, by, part.help());
            continue;
        };
        let of_cpu = column.and_then(|column| ns.get(column).copied());
        let (by, total) = (method(info, part), own_cost.part_total_ns(part));
        row(part.slug(), part.label(), total, of_cpu, &by, part.help());
    }
    let of_cpu = column.and_then(|column| own_cost.cpu_taken_ns(column));
    let help = "Estimates of this interval; the figure above is the mean of ten seconds.";
    row(
        "all",
        "All parts",
        own_cost.taken_total_ns(),
        of_cpu,
        "",
        help,
    );
    html.push_str("</tbody></table>");
    if let Some(text) = sampled(info, own_cost) {
        let _ = write!(html, "<p>{}</p>", escape_html(&text));
    }
    if let Some(price) = own_cost.sample_price {
        let _ = write!(html, "<p>{}</p>", escape_html(&priced(&price)));
    }
    html
}

/// What a sample costs, and on what that rests.
fn priced(price: &SamplePrice) -> String {
    let of = |price: &Price| {
        let decimals = usize::from(price.ns < 10_000.0);
        let [us, half_width_us] = [price.ns, price.half_width_ns].map(|ns| ns / 1e3);
        format!("{us:.decimals$}\u{202f}±\u{202f}{half_width_us:.decimals$}\u{202f}µs")
    };
    let tick = price.tick.as_ref();
    let tick = tick.map(|tick| format!(", one by the tick {}", of(tick)));
    let rests_on = match price.trials {
        0 => "what other hosts were found to lose".to_owned(),
        1 => "1 trial under this load".to_owned(),
        trials => format!("{} trials under this load", format::count(trials)),
    };
    format!(
        "A sample by perf's clock costs a CPU full of networking {}{}: by {rests_on}.",
        of(&price.perf),
        tick.unwrap_or_default(),
    )
}

/// The current method of the part's events; empty if it does not apply.
fn method(info: &Info, part: OwnPart) -> String {
    let slug = match part {
        OwnPart::Softirqs => "rx_softirq",
        OwnPart::Sends => "tx_syscall",
        OwnPart::Receives => "rx_syscall",
        OwnPart::LocalIpc => "local_ipc",
        OwnPart::Sampler => return info.sampler.clone().unwrap_or_default(),
        OwnPart::Drops | OwnPart::Traffic | OwnPart::Owners | OwnPart::Health => {
            return "tp_btf".to_owned();
        }
        OwnPart::Switches
        | OwnPart::Interrupts
        | OwnPart::Daemon
        | OwnPart::Latency
        | OwnPart::Flows => return String::new(),
    };
    let component = info
        .row_of(slug)
        .and_then(|index| info.components.get(index));
    match component.map(|component| &component.availability) {
        Some(Availability::Available { method }) => method.to_string(),
        _ => String::new(),
    }
}

/// Number of sampled CPUs, and their rate; `None` if nothing is sampled.
fn sampled(info: &Info, own_cost: &OwnCost) -> Option<String> {
    let rates = own_cost.sampling_hz.as_ref()?;
    let at_work = rates.iter().copied().filter(|&hz| hz > 0);
    let all = rates.len();
    let (Some(least), Some(most)) = (at_work.clone().min(), at_work.clone().max()) else {
        return Some(format!(
            "None of {all} CPUs is sampled now: none does networking."
        ));
    };
    let rate = if least == most {
        format::count(most)
    } else {
        format!("{} to {}", format::count(least), format::count(most))
    };
    let limit = if most < info.frequency_hz {
        format!(" (at most {})", format::count(info.frequency_hz))
    } else {
        String::new()
    };
    let count = at_work.count();
    Some(format!(
        "{count} of {all} CPUs are sampled now, at {rate} Hz{limit}."
    ))
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::CostliestCpu;

    use super::*;
    use crate::fixture;

    /// netto takes 0.42 % of CPU 1 over ten seconds; in this interval, 2 ms for samples.
    fn measured() -> Snapshot {
        let mut snapshot = fixture::snapshot(1);
        let own_cost = snapshot.sections.own.as_mut().unwrap();
        own_cost.taken_ns = vec![None; OwnPart::ALL.len()];
        own_cost.taken_ns[OwnPart::Softirqs as usize] = Some(vec![0, fixture::MS]);
        own_cost.taken_ns[OwnPart::Sampler as usize] = Some(vec![0, 2 * fixture::MS]);
        own_cost.sampling_hz = Some(vec![0, 250]);
        own_cost.costliest = Some(CostliestCpu {
            cpu: 1,
            ratio: 0.0042,
        });
        snapshot
    }

    #[test]
    fn one_figure_says_what_the_costliest_cpu_pays_and_may_pay() {
        let (mut info, mut snapshot) = (fixture::info(), measured());
        let line = figure(&info, &snapshot).unwrap();
        assert_eq!(
            line.text,
            "netto itself: 0.42 % of the costliest CPU (CPU 1), budget 1 %, 18.2 MB resident"
        );
        assert!(!line.is_loud);
        let own_cost = snapshot.sections.own.as_mut().unwrap();
        own_cost.costliest.as_mut().unwrap().ratio = 0.0131;
        let line = figure(&info, &snapshot).unwrap();
        assert!(line.is_loud && line.text.contains("1.3 %"), "{line:?}");
        assert!(line.text.contains("above its budget of 1 %"), "{line:?}");
        info.max_overhead_ratio = None;
        let line = figure(&info, &snapshot).unwrap();
        assert!(!line.is_loud && line.text.contains("no budget"), "{line:?}");
    }

    #[test]
    fn of_an_older_daemon_there_is_what_its_process_costs() {
        let line = figure(&fixture::info(), &fixture::snapshot(1)).unwrap();
        assert_eq!(
            line.text,
            "netto itself: its process 0.4 % of one CPU, 18.2 MB resident"
        );
    }

    #[test]
    fn each_part_stands_with_its_shares_and_what_is_unknown_has_none() {
        let html = parts_html(&fixture::info(), &measured());
        for text in [
            "<th scope=\"col\">% of CPU 1</th>",
            // 2 ms of 500, and of the total second of two CPUs.
            "Sampler</th><td>0.20</td><td>0.40</td><td>perf</td>",
            "Softirqs</th><td>0.10</td><td>0.20</td><td>test</td>",
            "Sends</th><td>–</td><td>–</td><td>not known in this interval</td>",
            "All parts</th><td>0.30</td><td>0.60</td>",
            "1 of 2 CPUs are sampled now, at 250 Hz (at most 1\u{202f}000).",
        ] {
            assert!(html.contains(text), "{text} in {html}");
        }
    }

    #[test]
    fn what_a_sample_costs_stands_with_its_interval_and_what_it_rests_on() {
        let mut snapshot = measured();
        let price = |trials| SamplePrice {
            perf: Price {
                ns: 482_400.0,
                half_width_ns: 120_000.0,
            },
            tick: Some(Price {
                ns: 35_000.0,
                half_width_ns: 9_000.0,
            }),
            trials,
        };
        let mut shown = |trials| {
            let own_cost = snapshot.sections.own.as_mut().unwrap();
            own_cost.sample_price = Some(price(trials));
            parts_html(&fixture::info(), &snapshot)
        };
        let prices =
            "482\u{202f}±\u{202f}120\u{202f}µs, one by the tick 35\u{202f}±\u{202f}9\u{202f}µs";
        let html = shown(40);
        assert!(html.contains(prices), "{html}");
        assert!(html.contains("by 40 trials under this load."), "{html}");
        assert!(shown(0).contains("by what other hosts were found to lose."));
        // A cheap one, as on bare metal, is not rounded to nothing.
        let cheap = SamplePrice {
            perf: Price {
                ns: 2_900.0,
                half_width_ns: 700.0,
            },
            tick: None,
            trials: 1,
        };
        assert!(priced(&cheap).contains("2.9\u{202f}±\u{202f}0.7\u{202f}µs:"));
    }

    #[test]
    fn where_all_cpus_are_left_alone_the_page_says_so() {
        let mut snapshot = measured();
        let own_cost = snapshot.sections.own.as_mut().unwrap();
        own_cost.sampling_hz = Some(vec![0, 0]);
        let html = parts_html(&fixture::info(), &snapshot);
        assert!(html.contains("None of 2 CPUs is sampled now"), "{html}");
    }
}
