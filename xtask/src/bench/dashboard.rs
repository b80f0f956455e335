//! What the page costs its reader's browser: netto's own benchmark
//! `netto/benches/dashboard/main.rs`, put into a table.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::figures::{Figure, Section, Spread};
use super::read;
use crate::process;

/// Measures; `program` is the benchmark `dashboard`. The page is watched for so many minutes.
pub fn measure(program: &Path, minutes: u16) -> Result<Vec<Section>> {
    eprintln!("xtask: the dashboard in a browser, {minutes} min and a bit");
    let text = process::output(Command::new(program).args(["--minutes", &minutes.to_string()]))?;
    let scaled = |name: &str, factor: f64| read(&text, name).map(|spread| spread.scaled(factor));
    let cpu = |what: &str, name: &str| Figure::new(what, scaled(name, 1.0), "% of a CPU");
    let mut figures = vec![
        Figure::new(
            "bytes of a snapshot on the wire",
            scaled("frame_bytes", 1e-3),
            "kB",
        )
        .at_most(25.0),
        Figure::new(
            "the page's program, compressed",
            scaled("wasm_compressed_bytes", 1e-3),
            "kB",
        )
        .at_most(600.0),
        Figure::new(
            "first paint, nothing cached",
            scaled("first_paint_ms", 1.0),
            "ms",
        )
        .at_most(1_000.0),
        Figure::new(
            "until values are shown",
            scaled("first_values_ms", 1.0),
            "ms",
        ),
        cpu(
            "the process of the page, window of 1400 × 900",
            "usual_renderer_percent",
        )
        .at_most(10.0),
        cpu(
            "the rest of the browser, window of 1400 × 900",
            "usual_other_percent",
        ),
        cpu(
            "the process of the page, every view in sight (1400 × 3200)",
            "tall_renderer_percent",
        )
        .at_most(10.0),
        cpu(
            "the rest of the browser, every view in sight",
            "tall_other_percent",
        ),
    ];
    for (what, name, factor, unit) in [
        ("WebAssembly's memory", "wasm_bytes", 1e-6, "MB"),
        ("JavaScript's heap", "heap_bytes", 1e-6, "MB"),
        ("nodes of the document", "nodes", 1.0, ""),
        (
            "resident memory of the page's process",
            "renderer_bytes",
            1e-6,
            "MB",
        ),
    ] {
        for (moment, suffix) in [("after a minute", "begin"), ("at the end", "end")] {
            let value: Option<Spread> = scaled(&format!("{name}_{suffix}"), factor);
            figures.push(Figure::new(format!("{what}, {moment}"), value, unit));
        }
    }
    let ending = if minutes == 1 { "" } else { "s" };
    Ok(vec![Section {
        title: format!("The dashboard, 128 CPUs at 2 Hz, watched for {minutes} minute{ending}"),
        figures,
    }])
}
