//! Names of the kernel's functions by where they start. The BPF side is `bpf/names.bpf.c`.
//!
//! The kernel tells them one by one from Linux 5.14 on. Before, and where it refuses that, the list of all symbols is
//! read, which takes some 50 ms of a CPU whatever is asked. Both happen on a thread of this module: those that ask may not open files
//! (`privileges.rs`), and none of them waits unless it wants to.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anyhow::{Context, ensure};
use libbpf_rs::ProgramInput;
use libbpf_rs::skel::OpenSkel;
use rustc_hash::FxHashMap;

use super::names_skel::{NamesSkel, NamesSkelBuilder};
use super::skeleton;
use super::system::{Roots, thread_cpu_ns};
use netto_analysis::symbols;

/// Names by where functions start; `None` of one that has none, or is to be looked up.
pub type NamesByStart = FxHashMap<u64, Option<String>>;

/// The names, and the CPU time that finding them took, nanoseconds.
pub type Answer = anyhow::Result<(NamesByStart, u64)>;

/// The words of the program's context: the address, and the longest name.
const WORDS: usize = 17;

/// Finds names; see the head of this file.
#[derive(Debug)]
pub struct FunctionNames(Sender<(NamesByStart, Sender<Answer>)>);

impl FunctionNames {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(roots: Roots) -> anyhow::Result<Self> {
        let kernel = load().inspect_err(tell).ok();
        let (questions, asked) = channel::<(NamesByStart, Sender<Answer>)>();
        let serve = move || {
            for (mut names, answer) in asked {
                let before_ns = thread_cpu_ns();
                let found = find(kernel.as_ref(), &roots, &mut names);
                let took_ns = thread_cpu_ns() - before_ns;
                // Who asked may have gone.
                let _ = answer.send(found.map(|()| (names, took_ns)));
            }
        };
        let thread = thread::Builder::new().name("symbols".to_owned());
        thread.spawn(serve).context("cannot start a thread")?;
        Ok(FunctionNames(questions))
    }

    /// Has the names that are missing looked up. The receiver is disconnected without an answer if the thread has ended.
    pub fn look_up(&self, names: NamesByStart) -> Receiver<Answer> {
        let (answer, answered) = channel();
        // Without the thread, the answer's sender is dropped here.
        let _ = self.0.send((names, answer));
        answered
    }
}

fn load() -> anyhow::Result<NamesSkel<'static>> {
    let open = skeleton::open::<NamesSkelBuilder>()?;
    open.load()
        .context("the kernel refuses the program that names functions")
}

fn tell(error: &anyhow::Error) {
    tracing::debug!("names of functions come from the list of symbols: {error:#}");
}

fn find(
    kernel: Option<&NamesSkel<'_>>,
    roots: &Roots,
    names: &mut NamesByStart,
) -> anyhow::Result<()> {
    if let Some(kernel) = kernel {
        match ask(kernel, names) {
            Ok(()) => return Ok(()),
            Err(error) => tell(&error),
        }
    }
    Ok(symbols::name(roots.kallsyms()?, names)?)
}

fn ask(kernel: &NamesSkel<'_>, names: &mut NamesByStart) -> anyhow::Result<()> {
    for (start, name) in names.iter_mut().filter(|(_, name)| name.is_none()) {
        let mut context = [0; 8 * WORDS];
        context[..8].copy_from_slice(&start.to_ne_bytes());
        let input = ProgramInput {
            context_in: Some(&mut context),
            ..ProgramInput::default()
        };
        let run = kernel.progs.netto_name.test_run(input);
        let run = run.context("the kernel does not run the program that names functions")?;
        ensure!(run.return_value == 0, "the kernel prints no name now");
        let printed = context[8..].split(|byte| *byte == 0).next();
        *name = symbols::printed(&String::from_utf8_lossy(printed.unwrap_or_default()));
    }
    Ok(())
}
