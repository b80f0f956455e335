//! Ten questions of somebody who sees netto for the first time, each answered in at most three steps on the page
//! and on a terminal. docs/QUESTIONS.md has them for its readers, in the same words.

use std::cell::Cell;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::browser::Browser;
use crate::child;
use crate::demo::Demo;
use crate::http;
use crate::pty::OnTerminal;
use crate::trial::tests;

tests! {
    page;
    tasks::ten_questions_are_answered_in_three_steps;
    tasks::the_keyboard_alone_is_enough_for_them;
}

const DOCUMENTED: &str = include_str!("../../../docs/QUESTIONS.md");
const MOST_STEPS: u32 = 3;

/// A question, how the page answers it, the commands that answer it, and words of what they print.
struct Task {
    question: &'static str,
    on_page: fn(&Reader) -> Result<()>,
    commands: &'static [&'static str],
    answer: &'static str,
}

const TASKS: [Task; 10] = [
    Task {
        question: "Is networking a problem on this host, and whose?",
        on_page: |reader| {
            let verdict = reader.read("#verdict-name")?;
            ensure!(["It hurts", "One CPU full", "High", "Calm"].contains(&verdict.as_str()));
            reader.read("#lead-causes").map(drop)
        },
        commands: &["netto top"],
        answer: "Largest",
    },
    Task {
        question: "Which part of the stack costs most, and what makes it large?",
        on_page: |reader| {
            reader.press("#lead-part")?;
            reader.read("#about-advice").map(drop)
        },
        commands: &["netto dump -o netto.log", "netto report netto.log"],
        answer: "Largest part",
    },
    Task {
        question: "Which CPU carries it?",
        on_page: |reader| {
            let hottest = reader.read("#map-hottest dt")?;
            ensure!(hottest.starts_with("CPU "), "{hottest}");
            reader.press("#map-cells")?;
            let note = reader.read("#heat-note")?;
            ensure!(note.contains("busiest: CPU "), "{note}");
            Ok(())
        },
        commands: &["netto top"],
        answer: "CPU",
    },
    Task {
        question: "Whose was that spike?",
        on_page: |reader| {
            reader.zoom()?;
            let selected = "return document.getElementById('netto').dataset.selected === 'shown'";
            reader
                .browser
                .wait_until("its figures are shown", selected)?;
            let window = reader.read("#owners-window")?;
            ensure!(window.contains(" to "), "{window}");
            reader.read("#owners-table .owner").map(drop)
        },
        commands: &[
            "netto dump -o netto.log",
            "netto report netto.log --last 1m",
        ],
        answer: "caused most by",
    },
    Task {
        question: "Is this figure sure enough to act on?",
        on_page: |reader| {
            reader.look_at("[data-bar='3'][data-ratio]:not([data-ratio='0']) .entry")?;
            let tip = reader.read("#tip")?;
            ensure!(tip.contains("95 % interval"), "{tip}");
            Ok(())
        },
        commands: &["netto dump -o netto.log", "netto report netto.log"],
        answer: "95 %",
    },
    Task {
        question: "What can I do about it?",
        on_page: |reader| {
            reader.press("#verdict")?;
            let command = reader.read("#advice-list pre")?;
            ensure!(!command.is_empty());
            ensure!(reader.has("#advice-list [data-act$=\":copy\"]")?);
            Ok(())
        },
        commands: &["netto advise --once"],
        answer: "  gain ",
    },
    Task {
        question: "Is what I see still now?",
        on_page: |reader| {
            ensure!(reader.read("#link")? == "live");
            ensure!(reader.browser.text("#mode")?.is_empty());
            Ok(())
        },
        commands: &["netto top"],
        answer: "demo-16",
    },
    Task {
        question: "Do packets wait longer where networking costs more?",
        on_page: |reader| {
            reader.press("#lead-latency")?;
            let table = reader.read("#latency-table")?;
            ensure!(table.contains("TCP"), "{table}");
            Ok(())
        },
        commands: &["netto latency --once"],
        answer: "TCP",
    },
    Task {
        question: "What does a packet cost?",
        on_page: |reader| {
            reader.press(".sections [data-act='jump:traffic']")?;
            let figures = reader.read("#traffic-figures")?;
            ensure!(
                figures.contains("RX softirq per packet") && figures.contains(" ns"),
                "{figures}"
            );
            Ok(())
        },
        commands: &["netto dump -o netto.log", "netto report netto.log"],
        answer: "Per packet",
    },
    Task {
        question: "What is not measured here, and why?",
        on_page: |reader| {
            reader.press(".sections [data-act='jump:missing']")?;
            let missing = reader.read("#missing")?;
            ensure!(missing.contains("NF ingress"), "{missing}");
            Ok(())
        },
        commands: &["netto dump -o netto.log", "netto report netto.log"],
        answer: "Not measured",
    },
];

/// A reader of the page, whose steps are counted.
struct Reader {
    browser: Browser,
    steps: Cell<u32>,
    has_keyboard_only: bool,
}

impl Reader {
    fn step(&self) {
        self.steps.set(self.steps.get() + 1);
    }

    /// Presses a button, with the pointer or the keyboard.
    fn press(&self, selector: &str) -> Result<()> {
        self.step();
        if self.has_keyboard_only {
            self.focus(selector)?;
            self.browser.key("Enter")
        } else {
            let click = format!("document.querySelector({selector:?}).click()");
            self.browser.script(&click).map(drop)
        }
    }

    /// Rests on something that has a tip.
    fn look_at(&self, selector: &str) -> Result<()> {
        self.step();
        if self.has_keyboard_only {
            return self.focus(selector);
        }
        let [left, top, width, height] = self.browser.place(selector)?;
        self.browser
            .mouse("mouseMoved", left + width / 2.0, top + height / 2.0)
    }

    /// What the tab key leads to has the focus.
    fn focus(&self, selector: &str) -> Result<()> {
        let focused = self.browser.script(&format!(
            "const e = document.querySelector({selector:?}); e.focus(); \
             return document.activeElement === e && e.tabIndex >= 0"
        ))?;
        ensure!(focused == true, "{selector} is not reached by the keyboard");
        Ok(())
    }

    /// Selects a time in the charts.
    fn zoom(&self) -> Result<()> {
        self.step();
        if self.has_keyboard_only {
            self.focus("#events")?;
            // The cursor is moved from the end into the time that the daemon keeps.
            self.browser.key("ArrowLeft")?;
            return self.browser.key("+");
        }
        let [left, top, width, height] = self.browser.place("#events")?;
        let y = top + height / 2.0;
        for (kind, at) in [
            ("mouseMoved", 0.9),
            ("mousePressed", 0.9),
            ("mouseMoved", 0.98),
            ("mouseReleased", 0.98),
        ] {
            self.browser.mouse(kind, left + width * at, y)?;
        }
        Ok(())
    }

    /// The text of what is there, once it has one.
    fn read(&self, selector: &str) -> Result<String> {
        child::eventually(|| {
            let text = self.browser.text(selector)?;
            ensure!(!text.is_empty() && text != "–", "{selector} is empty");
            Ok(text)
        })
    }

    fn has(&self, selector: &str) -> Result<bool> {
        let found = format!("return document.querySelector({selector:?}) !== null");
        Ok(self.browser.script(&found)? == true)
    }
}

/// What a command prints, of this daemon, in this folder.
fn printed(line: &str, demo: &Demo, folder: &Path, answer: &str) -> Result<String> {
    if let Some(path) = line.strip_prefix("curl -s http://127.0.0.1:10880") {
        return Ok(http::get_ok(demo.at, path)?.json()?.to_string());
    }
    let mut words = line.split(' ');
    ensure!(words.next() == Some("netto"), "{line}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_netto"));
    command.current_dir(folder).args(words);
    if !line.contains("netto.log") || line.starts_with("netto dump") {
        command.arg(format!("--connect=http://{}", demo.at));
    }
    if line == "netto top" {
        let terminal = OnTerminal::start(&command, false)?;
        return child::eventually(|| {
            let screen = terminal.screen();
            ensure!(screen.contains(answer), "no {answer:?} on the terminal");
            Ok(screen)
        });
    }
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {} {error}", output.status);
    Ok(text)
}

/// A demonstration that has advised for long enough, and keeps some time.
fn demo() -> Result<Demo> {
    let demo = Demo::with(&["--latency"])?;
    child::eventually(|| {
        let sequence = demo.snapshot()?["sequence"].as_u64();
        ensure!(sequence.context("no sequence")? > 80);
        Ok(())
    })?;
    Ok(demo)
}

fn on_page(task: &Task, demo: &Demo, has_keyboard_only: bool) -> Result<()> {
    let reader = Reader {
        browser: Browser::tall()?,
        steps: Cell::new(0),
        has_keyboard_only,
    };
    reader.browser.open(&demo.page("span=60"))?;
    // Advice comes with the answer to the first question of the page.
    child::eventually(|| {
        ensure!(reader.has("#advice-list article")?);
        Ok(())
    })?;
    (task.on_page)(&reader).with_context(|| task.question)?;
    let steps = reader.steps.get();
    ensure!(steps <= MOST_STEPS, "{}: {steps} steps", task.question);
    reader.browser.must_be_content()
}

fn ten_questions_are_answered_in_three_steps() -> Result<()> {
    let demo = demo()?;
    let folder = tempfile::tempdir()?;
    for task in &TASKS {
        ensure!(DOCUMENTED.contains(task.question), "{}", task.question);
        on_page(task, &demo, false)?;
        ensure!(task.commands.len() <= MOST_STEPS as usize);
        let mut text = String::new();
        for line in task.commands {
            ensure!(DOCUMENTED.contains(&format!("`{line}`")), "{line}");
            let log = folder.path().join("netto.log");
            if line.starts_with("netto dump") && log.exists() {
                std::fs::remove_file(log)?;
            }
            text =
                printed(line, &demo, folder.path(), task.answer).with_context(|| task.question)?;
        }
        if !text.contains(task.answer) {
            bail!("{}: no {:?} in {text}", task.question, task.answer);
        }
    }
    Ok(())
}

fn the_keyboard_alone_is_enough_for_them() -> Result<()> {
    let demo = demo()?;
    for task in &TASKS {
        on_page(task, &demo, true)?;
    }
    Ok(())
}
