//! Generates the object with a program for each combination of features that may want the same
//! hook, from what each of them does there.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{compile_object, headers_of};

/// A BTF tracepoint, and the features that may want it, in the order in which they are called.
#[derive(Debug, Clone, Copy)]
pub struct Hook {
    /// Its name.
    pub tracepoint: &'static str,
    /// Each has a header `FEATURE.bpf.h` with an inline function `netto_FEATURE_at_HOOK`, an object
    /// `FEATURE.bpf.c` with the program that calls it, and `links = "netto-FEATURE"` in the manifest
    /// of its crate, on which the calling one depends.
    pub features: &'static [&'static str],
}

/// Compiles `NAME.bpf.o`, and writes `NAME.rs`, the list of its programs as an expression, with
/// their types unqualified: a slice of `CombinedProgram`.
///
/// # Errors
/// What the compiler says; a crate that is no dependency.
pub fn generate(name: &str, hooks: &[Hook], out_dir: &Path) -> anyhow::Result<()> {
    let features: BTreeSet<&str> = hooks
        .iter()
        .flat_map(|hook| hook.features)
        .copied()
        .collect();
    let mut includes: Vec<PathBuf> = Vec::new();
    for feature in &features {
        includes.extend(headers_of(&format!("netto-{feature}"))?);
    }
    let (c, rust) = (source(&features, hooks)?, list(hooks)?);
    let write = |file: String, text: String| {
        fs::write(out_dir.join(&file), text).with_context(|| format!("cannot write {file}"))
    };
    write(format!("{name}.bpf.c"), c)?;
    write(format!("{name}.rs"), rust)?;
    compile_object(name, &includes, out_dir)
}

/// Combinations of two and more features, in the order of their bits.
fn combinations<'a>(features: &[&'a str]) -> Vec<Vec<&'a str>> {
    let chosen = |bits: u32| {
        let features = features.iter().enumerate();
        let chosen = features.filter(move |(place, _)| bits >> place & 1 == 1);
        chosen.map(|(_, feature)| *feature).collect::<Vec<_>>()
    };
    let all = (0..1_u32 << features.len()).map(chosen);
    all.filter(|features| features.len() > 1).collect()
}

fn program_name(hook: &Hook, features: &[&str]) -> String {
    format!("netto_{}_{}", hook.tracepoint, features.join("_"))
}

fn source(features: &BTreeSet<&str>, hooks: &[Hook]) -> Result<String, std::fmt::Error> {
    let mut c = String::from("/* Generated. */\n");
    for feature in features {
        writeln!(c, "#include \"{feature}.bpf.h\"")?;
    }
    c.push_str("\nchar LICENSE[] SEC(\"license\") = \"Dual MIT/GPL\";\n");
    for hook in hooks {
        for features in combinations(hook.features) {
            let (tracepoint, name) = (hook.tracepoint, program_name(hook, &features));
            write!(
                c,
                "\nSEC(\"tp_btf/{tracepoint}\")\nint {name}(__u64 *ctx)\n{{\n"
            )?;
            for feature in features {
                writeln!(c, "\tnetto_{feature}_at_{tracepoint}(ctx);")?;
            }
            c.push_str("\treturn 0;\n}\n");
        }
    }
    Ok(c)
}

fn list(hooks: &[Hook]) -> Result<String, std::fmt::Error> {
    let mut rust = String::from("&[\n");
    for hook in hooks {
        for features in combinations(hook.features) {
            let (tracepoint, name) = (hook.tracepoint, program_name(hook, &features));
            // As skeletons name their objects.
            let objects: Vec<String> = features
                .iter()
                .map(|feature| format!("{feature}_bpf"))
                .collect();
            writeln!(
                rust,
                "CombinedProgram {{ name: {name:?}, section: \"tp_btf/{tracepoint}\", \
                 objects: &{objects:?} }},"
            )?;
        }
    }
    rust.push(']');
    Ok(rust)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_combination_has_a_program_that_calls_its_features_in_order() {
        const HOOK: Hook = Hook {
            tracepoint: "tide",
            features: &["a", "b", "c"],
        };
        let all = combinations(HOOK.features);
        assert_eq!(
            all,
            [&["a", "b"][..], &["a", "c"], &["b", "c"], &["a", "b", "c"]]
        );
        assert!(combinations(&["a"]).is_empty());
        let c = source(&BTreeSet::from(["a", "b", "c"]), &[HOOK]).unwrap();
        let last = "SEC(\"tp_btf/tide\")\nint netto_tide_a_b_c(__u64 *ctx)\n{\n\
                    \tnetto_a_at_tide(ctx);\n\tnetto_b_at_tide(ctx);\n\tnetto_c_at_tide(ctx);\n\
                    \treturn 0;\n}\n";
        assert!(c.ends_with(last), "{c}");
        assert_eq!(c.matches("SEC(\"tp_btf/").count(), all.len());
        let rust = list(&[HOOK]).unwrap();
        let first = "&[\nCombinedProgram { name: \"netto_tide_a_b\", section: \"tp_btf/tide\", \
                     objects: &[\"a_bpf\", \"b_bpf\"] },\n";
        assert!(rust.starts_with(first), "{rust}");
    }
}
