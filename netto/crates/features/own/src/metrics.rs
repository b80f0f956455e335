//! The metrics of netto's own cost.

use metrics_common::sections::Price;
use metrics_common::{OwnCost, OwnPart};
use netto_metrics::catalogue::{Catalogue, Inputs, Otlp, Value};
use netto_metrics::metrics;

fn own<'a>(inputs: &Inputs<'a>) -> Option<&'a OwnCost> {
    inputs.sum().sections.own.as_ref()
}

/// By the clock that takes the samples.
fn sample_prices(inputs: &Inputs<'_>) -> impl Iterator<Item = (&'static str, Price)> {
    let price = own(inputs).and_then(|cost| cost.sample_price);
    let of_clocks = price.into_iter();
    of_clocks
        .flat_map(|price| [("perf", Some(price.perf)), ("tick", price.tick)])
        .filter_map(|(clock, price)| Some((clock, price?)))
}

/// The exported metrics.
pub const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_user_cpu_seconds_total" Seconds ["mode"] as Otlp::Named("netto.daemon.cpu.time");
        "CPU time that the netto daemon itself used, by mode. The probes' own time is not in it.";
        |inputs, out| {
            if let Some(own_cost) = own(inputs) {
                out.push(&["user"], Value::Nanoseconds(own_cost.user_ns));
                out.push(&["system"], Value::Nanoseconds(own_cost.system_ns));
            }
        };
    Gauge "netto_resident_memory_bytes" Bytes [] as Otlp::Named("netto.daemon.memory");
        "Resident memory of the netto daemon.";
        |inputs, out| out.push_known(&[], own(inputs).map(|cost| Value::Count(cost.resident_bytes)));
    Counter "netto_own_cpu_seconds_total" Seconds ["cpu", "part"];
        "CPU time that netto took from a CPU, by part: an estimate, of probes by their runs \
         and what one was found to cost.";
        |inputs, out| {
            let Some(own_cost) = own(inputs) else { return };
            let rows = OwnPart::ALL.map(|part| (part.slug(), own_cost.part_ns(part)));
            inputs.per_cpu(|cpu, column| {
                for (slug, row) in rows {
                    let ns = row.and_then(|row| row.get(column));
                    out.push_known(&[cpu, slug], ns.copied().map(Value::Nanoseconds));
                }
            });
        };
    Gauge "netto_overhead_ratio" Ratio [];
        "Share of the time of the CPU that netto costs most, over the last ten seconds: an estimate.";
        |inputs, out| {
            let costliest = own(inputs).and_then(|cost| cost.costliest);
            out.push_known(&[], costliest.map(|cpu| Value::Number(cpu.ratio)));
        };
    Gauge "netto_max_overhead_ratio" Ratio [] as Otlp::Named("netto.overhead.limit");
        "Share of the time of any CPU that netto may cost; absent if that is not limited.";
        |inputs, out| out.push_known(&[], inputs.info.max_overhead_ratio.map(Value::Number));
    Gauge "netto_sampling_hertz" Hertz ["cpu"];
        "Stack samples per second that a CPU is asked for now; 0 while it is left alone.";
        |inputs, out| {
            if let Some(rates) = own(inputs).and_then(|cost| cost.sampling_hz.as_ref()) {
                inputs.push_row(out, rates, Value::Count);
            }
        };
    Gauge "netto_sample_price_seconds" Seconds ["clock"];
        "What a stack sample costs a CPU that does nothing but networking, its interrupt and what the load loses by it \
         included, by the clock that takes it: assumed until trials under this load tell better.";
        |inputs, out| {
            for (clock, price) in sample_prices(inputs) {
                out.push(&[clock], Value::Number(price.ns / 1e9));
            }
        };
    Gauge "netto_sample_price_half_width_seconds" Seconds ["clock"];
        "Half the length of the 95 % interval of netto_sample_price_seconds.";
        |inputs, out| {
            for (clock, price) in sample_prices(inputs) {
                out.push(&[clock], Value::Number(price.half_width_ns / 1e9));
            }
        };
    Gauge "netto_sample_price_trials" Count("trial") [];
        "Trials under this load that netto_sample_price_seconds rests on.";
        |inputs, out| {
            let price = own(inputs).and_then(|cost| cost.sample_price);
            out.push_known(&[], price.map(|price| Value::Count(price.trials)));
        };
    Counter "netto_instrument_analysis_seconds_total" Seconds ["instrument"];
        "Time that the daemon spent on the analysis of an instrument.";
        |inputs, out| for cost in own(inputs).iter().flat_map(|cost| &cost.instruments) {
            out.push(&[&cost.name], Value::Nanoseconds(cost.analysis_ns));
        };
});

#[cfg(test)]
mod tests {
    use metrics_common::fixture::{info, measured};
    use metrics_common::sections::SamplePrice;
    use metrics_common::{CostliestCpu, InstrumentCost};
    use netto_metrics::testing::page_of;

    use super::*;

    #[test]
    fn what_netto_takes_from_a_cpu_is_a_total_and_how_often_it_samples_is_as_of_now() {
        let mut snapshot = measured(1);
        let page = page_of(METRICS, &info(), &[&snapshot]);
        for absent in ["netto_overhead_ratio", "sampling_hertz", "part=", "price"] {
            assert!(!page.contains(absent), "{page}");
        }
        let own_cost = snapshot.sections.own.as_mut().unwrap();
        own_cost.taken_ns = vec![None; OwnPart::ALL.len()];
        own_cost.taken_ns[OwnPart::Sampler as usize] = Some(vec![1_500_000, 0]);
        own_cost.sampling_hz = Some(vec![1000, 0]);
        own_cost.costliest = Some(CostliestCpu {
            cpu: 0,
            ratio: 0.004,
        });
        own_cost.sample_price = Some(SamplePrice {
            perf: Price {
                ns: 500_000.0,
                half_width_ns: 125_000.0,
            },
            tick: None,
            trials: 12,
        });
        own_cost.instruments = vec![InstrumentCost {
            name: "cost".to_owned(),
            analysis_ns: 250_000,
        }];
        let page = page_of(METRICS, &info(), &[&snapshot, &snapshot]);
        for line in [
            "netto_own_cpu_seconds_total{cpu=\"0\",part=\"sampler\"} 0.003\n",
            "netto_own_cpu_seconds_total{cpu=\"1\",part=\"sampler\"} 0\n",
            "netto_sampling_hertz{cpu=\"0\"} 1000\n",
            "netto_sampling_hertz{cpu=\"1\"} 0\n",
            "netto_overhead_ratio 0.004\n",
            "netto_max_overhead_ratio 0.01\n",
            "netto_sample_price_seconds{clock=\"perf\"} 0.0005\n",
            "netto_sample_price_half_width_seconds{clock=\"perf\"} 0.000125\n",
            "netto_sample_price_trials 12\n",
            "netto_instrument_analysis_seconds_total{instrument=\"cost\"} 0.0005\n",
            "netto_user_cpu_seconds_total{mode=\"system\"} 0.004\n",
        ] {
            assert!(page.contains(line), "{line}{page}");
        }
        for absent in ["part=\"sends\"", "clock=\"tick\""] {
            assert!(!page.contains(absent), "not known: {page}");
        }
    }
}
