//! Its metrics: time and packets by program.

use metrics_common::sections::{About, Program};
use netto_metrics::catalogue::{Catalogue, Value};
use netto_metrics::metrics;

/// Stands for programs that there was no room for.
const OTHERS: &str = "other programs";

/// What is exported of it.
pub(crate) const METRICS: Catalogue = Catalogue::of(metrics! {
    Counter "netto_program_cpu_seconds_total" Seconds ["id", "program", "type"];
        "CPU time of a BPF program within networking, with what it calls (an estimate, from \
         samples).";
        |inputs, out| {
            let Some(programs) = &inputs.sum().sections.programs else { return };
            for program in &programs.programs {
                let id = program.about.id.to_string();
                out.push(&labels(&program.about, &id), Value::Nanoseconds(program.total_ns()));
            }
            let others_ns = programs.other_cpu_ns.iter().sum();
            if others_ns > 0 {
                out.push(&["", OTHERS, ""], Value::Nanoseconds(others_ns));
            }
        };
    Counter "netto_program_packets_total" Count("packet") ["id", "program", "type"];
        "Packets of the interfaces that a BPF program is attached to, or its runs where the kernel \
         counts them; absent where neither is known.";
        |inputs, out| {
            let programs = inputs.sum().sections.programs.as_ref();
            let programs = programs.map_or(&[][..], |programs| &programs.programs);
            for Program { about, .. } in programs {
                if let Some(packets) = about.packets {
                    let id = about.id.to_string();
                    out.push(&labels(about, &id), Value::Count(packets.count));
                }
            }
        };
});

fn labels<'a>(about: &'a About, id: &'a str) -> [&'a str; 3] {
    [id, &about.name, &about.kind]
}
