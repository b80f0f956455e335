//! `cargo xtask mutants`: whether tests catch the mutants of `xtask/mutants/sample.tsv`, each
//! followed to where its code is now. Needs cargo-mutants, which lists the mutants of a file.
//!
//! Works in a copy of a commit's tree, which has all mutants at once, each with a switch; those
//! that cannot have one are built alone. What was found of a commit is kept, so that a run that was
//! interrupted goes on.

mod copy;
mod mutant;
mod program;
mod sample;
mod schema;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use self::copy::{BuildError, Copy};
use self::mutant::Mutant;
use self::program::{Program, Verdict};
use self::sample::{Drawn, Sample};
use self::schema::Schema;
use crate::process;

/// What can be asked for.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The commit whose tests are tried
    #[arg(long, default_value = "HEAD")]
    tree: String,
    /// Only mutants of this group
    #[arg(long)]
    group: Option<String>,
    /// Only tell where each mutant is now
    #[arg(long)]
    find: bool,
}

/// What became of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// A test failed.
    Caught,
    /// No test did.
    Missed,
    /// Tests did not end: it has escaped.
    TimedOut,
    /// It does not compile.
    Unviable,
    /// Its code is not there any more, as `moved.tsv` says.
    Gone,
    /// Its code is not found: `moved.tsv` must say where it is.
    NotFound,
}

impl Outcome {
    const ALL: [(Outcome, &str); 6] = [
        (Outcome::Caught, "caught"),
        (Outcome::Missed, "missed"),
        (Outcome::TimedOut, "timed out"),
        (Outcome::Unviable, "unviable"),
        (Outcome::Gone, "gone"),
        (Outcome::NotFound, "not found"),
    ];

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    fn from_name(name: &str) -> Option<Outcome> {
        let found = Self::ALL.iter().find(|(_, own)| *own == name);
        found.map(|(outcome, _)| *outcome)
    }
}

/// Tries the mutants and prints, by group, what became of them.
///
/// # Errors
/// The tests fail without any mutant, or a tool is missing.
pub fn run(root: &Path, options: &Options) -> Result<()> {
    ensure!(
        process::find_program("cargo-mutants").is_some(),
        "this needs cargo-mutants: cargo install cargo-mutants --locked"
    );
    let sample = Sample::read(root)?;
    let copy = Copy::new(root, &options.tree)?;
    let mut results = Results::read(copy.own.join("results.tsv"));
    let all = mutant::all(&copy.tree)?;
    let mut mutants = BTreeMap::new();
    let mut elsewhere = Vec::new();
    for (number, drawn) in sample.drawn.iter().enumerate() {
        let group = options.group.as_ref();
        if group.is_some_and(|group| *group != drawn.group) {
            continue;
        }
        let still = mutant::find(&all, drawn).filter(|mutant| mutant.file == drawn.file);
        let moved = sample.moved(drawn);
        let mutant = match still {
            Some(_) => Some(still),
            None => moved.as_ref().map(|moved| mutant::find(&all, moved)),
        };
        let outcome = match mutant {
            Some(Some(mutant)) => {
                if options.find {
                    println!("{}:{}: {}", mutant.file, mutant.line(), mutant.mutation);
                }
                mutants.insert(number, mutant.clone());
                continue;
            }
            Some(None) => Outcome::NotFound,
            None => Outcome::Gone,
        };
        if options.find {
            println!("{}: {} {}", outcome.name(), drawn.file, drawn.mutation);
        }
        elsewhere.push((drawn.id.clone(), outcome));
    }
    if options.find {
        return Ok(());
    }
    mutants.retain(|number, _| !results.known.contains_key(&sample.drawn[*number].id));
    if !mutants.is_empty() {
        let (alone, learned) = try_switched(&copy, &sample, &mutants, &mut results)?;
        for number in alone {
            let (outcome, why) = try_alone(&copy, &mutants[&number], &learned)?;
            results.note(&sample.drawn[number], outcome, &why)?;
        }
    }
    results.known.extend(elsewhere);
    print!("{}", table(&sample.drawn, &results.known));
    Ok(())
}

/// What became of mutants, as it is kept.
struct Results {
    path: PathBuf,
    known: BTreeMap<String, Outcome>,
}

impl Results {
    fn read(path: PathBuf) -> Results {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let known = text.lines().filter_map(|line| {
            let columns: Vec<&str> = line.rsplitn(3, '\t').collect();
            let [_, outcome, id] = columns[..] else {
                return None;
            };
            Some((id.to_owned(), Outcome::from_name(outcome)?))
        });
        let known = known.collect();
        Results { path, known }
    }

    /// Keeps an outcome and what led to it.
    fn note(&mut self, drawn: &Drawn, outcome: Outcome, why: &str) -> Result<()> {
        eprintln!(
            "xtask: {} {}: {why}",
            outcome.name(),
            drawn.id.replace('\t', " ")
        );
        if self.known.insert(drawn.id.clone(), outcome) == Some(outcome) {
            return Ok(());
        }
        let path = &self.path;
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)?;
        writeln!(file, "{}\t{}\t{why}", drawn.id, outcome.name())
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Tries mutants by their switches; returns those that cannot have one, and the test programs.
fn try_switched(
    copy: &Copy,
    sample: &Sample,
    mutants: &BTreeMap<usize, Mutant>,
    results: &mut Results,
) -> Result<(BTreeSet<usize>, Vec<Program>)> {
    let mut alone = BTreeSet::new();
    let mut switched: BTreeSet<usize> = mutants.keys().copied().collect();
    let files: BTreeSet<&str> = mutants
        .values()
        .map(|mutant| mutant.file.as_str())
        .collect();
    let originals = files.into_iter().map(|file| Ok((file, copy.read(file)?)));
    let originals: BTreeMap<&str, String> = originals.collect::<Result<_>>()?;
    let mut programs = loop {
        let mut schemas = BTreeMap::new();
        for (file, original) in &originals {
            let own = mutants
                .iter()
                .filter(|(number, mutant)| mutant.file == **file && switched.contains(*number));
            let own: Vec<(usize, &Mutant)> =
                own.map(|(number, mutant)| (*number, mutant)).collect();
            let schema = Schema::new(original, &own);
            if copy.read(file)? != schema.text {
                copy.write(file, &schema.text)?;
            }
            alone.extend(&schema.alone);
            schemas.insert(*file, schema);
        }
        switched.retain(|number| !alone.contains(number));
        eprintln!("xtask: builds {} mutants with switches", switched.len());
        let errors = match copy.build()? {
            Ok(programs) => break programs,
            Err(errors) => errors,
        };
        let before = switched.len();
        for error in &errors {
            match culprits(error, &schemas) {
                [] => {}
                // Bodies of different types are no fault of the mutant: `impl Trait` is one type.
                [number] if !error.text.contains("have incompatible types") => {
                    if switched.remove(number) {
                        let text = error.text.lines().next().unwrap_or_default();
                        results.note(&sample.drawn[*number], Outcome::Unviable, text)?;
                    }
                }
                numbers => {
                    switched.retain(|number| !numbers.contains(number));
                    let unknown = numbers
                        .iter()
                        .filter(|number| !results.known.contains_key(&sample.drawn[**number].id));
                    alone.extend(unknown);
                }
            }
        }
        if switched.len() == before {
            let texts: Vec<&str> = errors.iter().map(|error| error.text.as_str()).collect();
            bail!("does not compile:\n{}", texts.join("\n"));
        }
    };
    for program in &mut programs {
        program.learn(&copy.own.join("reached").join(program.label()))?;
        let (label, broken) = (program.label(), program.broken());
        eprintln!("xtask: {label}: {:?}, broken: {broken:?}", program.took());
    }
    programs.sort_by_key(Program::took);
    for number in switched {
        let (outcome, why) = match programs.iter().any(|program| program.reaches(number)) {
            true => outcome(&programs, |program| program.try_switched(number))?,
            false => (Outcome::Missed, "no test reaches it".to_owned()),
        };
        results.note(&sample.drawn[number], outcome, &why)?;
    }
    for (file, original) in &originals {
        copy.write(file, original)?;
    }
    Ok((alone, programs))
}

/// The mutants in whose code the compiler found an error.
fn culprits<'a>(error: &BuildError, schemas: &'a BTreeMap<&str, Schema>) -> &'a [usize] {
    let Some((file, byte)) = &error.at else {
        return &[];
    };
    let schema = schemas.get(file.as_str());
    schema.map_or(&[], |schema| schema.at(*byte))
}

/// Tries a mutant that has no switch, with a build of its own.
fn try_alone(copy: &Copy, mutant: &Mutant, learned: &[Program]) -> Result<(Outcome, String)> {
    let original = copy.read(&mutant.file)?;
    copy.write(&mutant.file, &mutant.mutated(&original))?;
    let built = copy.build()?;
    copy.write(&mutant.file, &original)?;
    match built {
        Ok(mut programs) => {
            let position = |program: &Program| {
                let mut labels = learned.iter().map(Program::label);
                labels.position(|label| label == program.label())
            };
            programs.sort_by_key(position);
            outcome(&programs, |program| program.try_alone(learned))
        }
        Err(errors) => {
            let text = errors.first().and_then(|error| error.text.lines().next());
            Ok((Outcome::Unviable, text.unwrap_or_default().to_owned()))
        }
    }
}

/// What test programs say of a mutant, and which of them, by which test.
fn outcome(
    programs: &[Program],
    ask: impl Fn(&Program) -> Result<Verdict>,
) -> Result<(Outcome, String)> {
    let mut escaped = (Outcome::Missed, String::new());
    for program in programs {
        match ask(program)? {
            Verdict::Passed => {}
            Verdict::Failed(tests) => {
                let why = format!("{} {}", program.label(), tests.join(" "));
                return Ok((Outcome::Caught, why));
            }
            Verdict::TimedOut => escaped = (Outcome::TimedOut, program.label()),
        }
    }
    Ok(escaped)
}

/// By group, how many there are of each outcome, and the share that is caught of those that compile.
fn table(sample: &[Drawn], known: &BTreeMap<String, Outcome>) -> String {
    let mut groups: BTreeMap<&str, [usize; Outcome::ALL.len()]> = BTreeMap::new();
    for drawn in sample {
        if let Some(outcome) = known.get(&drawn.id) {
            groups.entry(&drawn.group).or_default()[*outcome as usize] += 1;
            groups.entry("all").or_default()[*outcome as usize] += 1;
        }
    }
    let names = Outcome::ALL.map(|(_, name)| name).join(" | ");
    let mut text = format!("| group | {names} | caught, of those that compile |\n");
    text += &format!("|---|{}\n", "---:|".repeat(Outcome::ALL.len() + 1));
    for (group, counts) in groups {
        let compiled = counts[0] + counts[1] + counts[2];
        let percent = 100.0 * counts[0] as f64 / compiled.max(1) as f64;
        let counts = counts.map(|count| count.to_string()).join(" | ");
        text += &format!("| {group} | {counts} | {percent:.0} % |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_by_group_and_a_mutant_that_times_out_is_not_caught() {
        let drawn = |group: &str, mutation: &str| {
            let line = format!("{group}\ta.rs\tf\t1\t1 of 1\t{mutation}\tsource");
            Drawn::parse(&line).unwrap()
        };
        let sample = [drawn("log", "a"), drawn("log", "b"), drawn("http", "c")];
        let outcomes = [Outcome::Caught, Outcome::TimedOut, Outcome::Unviable];
        let ids = sample.iter().map(|drawn| drawn.id.clone());
        let text = table(&sample, &ids.zip(outcomes).collect());
        assert!(
            text.contains("| log | 1 | 0 | 1 | 0 | 0 | 0 | 50 % |"),
            "{text}"
        );
        assert!(
            text.contains("| http | 0 | 0 | 0 | 1 | 0 | 0 | 0 % |"),
            "{text}"
        );
        for (outcome, name) in Outcome::ALL {
            assert_eq!(Outcome::from_name(outcome.name()), Some(outcome), "{name}");
        }
    }
}
