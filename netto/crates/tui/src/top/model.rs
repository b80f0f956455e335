//! The content of `netto top` as plain values, computed from snapshots and keys. Pure: no terminal,
//! no clock, no connection.

use metrics_common::component::NETWORK;
use metrics_common::snapshot::ratio;
use metrics_common::{Availability, Info, Snapshot, confidence, missed};
use netto_judges::verdict::{self, Courses, Figures, Level, Verdict};

use netto_questions::api::Breakdown;
use netto_questions::line::{Line, Value, rgb};
use netto_questions::window::Window;

/// Selectable lengths of the window, seconds; 0: one interval.
pub const WINDOWS_SECONDS: [u64; 3] = [5, 60, 0];
/// The verdict rests on this time at least, so that it does not change with every interval.
const STEADY_NS: u64 = 5_000_000_000;

/// The action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// One line up.
    Up,
    /// One line down.
    Down,
    /// Into the component of the line.
    In,
    /// Back to the whole.
    Out,
    /// The next order of lines.
    Sort,
    /// The next length of the window.
    Window,
    /// Switches between parts and a breakdown, by its key.
    By(char),
    /// Lists the lines without time, or leaves them out.
    Zeros,
    /// Shows the keys, or hides them.
    Help,
    /// Pauses or continues.
    Pause,
}

/// The order of lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// The most CPU time first.
    #[default]
    Time,
    /// As in netto's table of components, and CPUs by number.
    Table,
}

/// The state of the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SourceState {
    /// No data yet.
    #[default]
    Waiting,
    /// Intervals arrive.
    Live,
    /// The connection was lost, for this reason; it is retried.
    Lost(String),
    /// The intervals have ended, for this reason.
    Ended(String),
}

/// The state of the screen; see the head of this file.
#[derive(Debug, Default)]
pub struct Model {
    info: Option<Info>,
    window: Window,
    /// Index in [`WINDOWS_SECONDS`].
    window_choice: usize,
    is_paused: bool,
    /// The window while paused.
    frozen: Option<Window>,
    /// The sum of what is shown, and the verdict on it.
    sum: Option<Snapshot>,
    judged: Option<(Figures, Verdict)>,
    shows_zeros: bool,
    shows_help: bool,
    /// Slugs of the components from the root to the shown one.
    path: Vec<String>,
    breakdowns: Vec<Breakdown>,
    /// The breakdown shown instead of the parts.
    shown: Option<Breakdown>,
    /// Slug of the selected line, which stays selected when lines move.
    chosen: Option<String>,
    sort: Sort,
    link: SourceState,
    last_sequence: Option<u64>,
    skipped: u64,
}

/// The part above the lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// The three answers ([`verdict::lines`]) and the level of the first; `None` if networking is
    /// not measured.
    pub answers: Option<(Level, [String; 3])>,
    /// Networking on all CPUs, or why it is unknown.
    pub network: Result<Value, String>,
    /// Whether a part of networking is not measured here.
    pub at_least: bool,
    /// Number of CPUs.
    pub cpus: usize,
    /// Power of networking in watts, attributed to what was busy and as a share of capacity, if
    /// known.
    pub network_watts: Option<(f64, f64)>,
    /// netto's cost: share and number of the CPU with the highest cost.
    pub own_costliest: Option<(f64, u32)>,
    /// netto's share of the host, 0 to 1.
    pub own_ratio: Option<f64>,
    /// Stacks lost in the window.
    pub stacks_lost: u64,
    /// Intervals missed since the start.
    pub skipped: u64,
    /// The probe with the most missed events, and their share of all events.
    pub missed: Option<(String, f64)>,
}

/// The content of the screen.
#[derive(Debug, Clone, PartialEq)]
pub struct Screen {
    /// Host and kernel.
    pub host: String,
    /// The label of values that are not live: `DEMO`, `RECORDING`.
    pub badge: Option<&'static str>,
    /// The state of the source.
    pub link: SourceState,
    /// Whether it is paused.
    pub is_paused: bool,
    /// The part above the lines; `None` before the first interval.
    pub headline: Option<Headline>,
    /// Labels of the components from the root to the shown one.
    pub path: Vec<String>,
    /// The parts of the shown component.
    pub lines: Vec<Line>,
    /// Each CPU's share of the selected component.
    pub cpus: Vec<Line>,
    /// Name of that component.
    pub cpus_of: String,
    /// Length of the averaged time, nanoseconds.
    pub window_ns: u64,
    /// End of the newest interval, nanoseconds since the Unix epoch.
    pub time_unix_ns: u64,
    /// The order of lines.
    pub sort: Sort,
    /// Number of lines without time that are left out.
    pub zeros: usize,
    /// Whether the keys are shown instead of lines.
    pub shows_help: bool,
    /// Keys of the breakdowns, with their labels.
    pub breakdowns: Vec<(char, &'static str)>,
}

impl Model {
    /// An empty model. A component's time can be divided by these breakdowns.
    pub fn new(breakdowns: Vec<Breakdown>) -> Self {
        Model {
            breakdowns,
            ..Model::default()
        }
    }

    /// Sets the description of rows.
    pub fn meet(&mut self, info: Info) {
        let slugs = |info: &Info| -> Vec<String> {
            info.components.iter().map(|row| row.slug.clone()).collect()
        };
        if let Some(known) = &self.info
            && (slugs(known) != slugs(&info) || known.hostname != info.hostname)
        {
            self.forget();
            self.path.clear();
        }
        // A restarted daemon starts its numbers again.
        self.last_sequence = None;
        self.info = Some(info);
    }

    /// Drops earlier intervals, which the following ones do not continue.
    pub fn forget(&mut self) {
        self.window.clear();
        self.last_sequence = None;
        (self.sum, self.judged) = (None, None);
    }

    /// Adds an interval.
    pub fn receive(&mut self, snapshot: &Snapshot) {
        if let Some(last) = self.last_sequence
            && snapshot.sequence > last
        {
            self.skipped += snapshot.sequence - last - 1;
        }
        self.last_sequence = Some(snapshot.sequence);
        self.link = SourceState::Live;
        self.window.push(snapshot);
        if !self.is_paused {
            self.sum_up();
        }
    }

    /// Sums what is shown, once for each interval, and judges it.
    fn sum_up(&mut self) {
        let window = self.frozen.as_ref().unwrap_or(&self.window);
        self.sum = window.sum(self.window_ns());
        let Some(info) = &self.info else { return };
        let figures = match self.window_ns() {
            short if short < STEADY_NS => window
                .sum(STEADY_NS)
                .and_then(|sum| Figures::of(info, &sum)),
            _ => self.sum.as_ref().and_then(|sum| Figures::of(info, sum)),
        };
        let before = self.judged.as_ref().map(|(_, verdict)| verdict.level);
        self.judged = figures.map(|figures| {
            let verdict = figures.judge(before);
            (figures, verdict)
        });
    }

    /// Length of the chosen window, nanoseconds.
    fn window_ns(&self) -> u64 {
        let seconds = WINDOWS_SECONDS.get(self.window_choice).copied();
        seconds.unwrap_or(0) * 1_000_000_000
    }

    /// Sets the state of the source.
    pub fn set_link(&mut self, link: SourceState) {
        self.link = link;
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Closes what is in front of the lines, or goes back by one step; returns whether there was one.
    pub fn close(&mut self) -> bool {
        if std::mem::take(&mut self.shows_help) {
            return true;
        }
        if self.shown.take().is_some() {
            self.chosen = None;
            return true;
        }
        let is_inside = !self.path.is_empty();
        self.press(Key::Out);
        is_inside
    }

    /// Handles a key.
    pub fn press(&mut self, key: Key) {
        match key {
            Key::Up => self.choose(|at, _| at.saturating_sub(1)),
            Key::Down => self.choose(|at, last| (at + 1).min(last)),
            Key::In => {
                let lines = self.screen().lines;
                if let Some(line) = lines
                    .into_iter()
                    .find(|line| line.is_chosen && line.has_parts)
                {
                    self.path.push(line.key);
                    self.chosen = None;
                }
            }
            Key::Out => self.chosen = self.path.pop().or(self.chosen.take()),
            Key::Sort => {
                self.sort = match self.sort {
                    Sort::Time => Sort::Table,
                    Sort::Table => Sort::Time,
                };
            }
            Key::Window => {
                self.window_choice = (self.window_choice + 1) % WINDOWS_SECONDS.len();
                self.sum_up();
            }
            Key::Zeros => self.shows_zeros = !self.shows_zeros,
            Key::Help => self.shows_help = !self.shows_help,
            Key::By(key) => {
                if let Some(breakdown) = self
                    .breakdowns
                    .iter()
                    .find(|breakdown| breakdown.key == key)
                {
                    let is_shown = self.shown.is_some_and(|shown| shown.key == key);
                    self.shown = (!is_shown).then_some(*breakdown);
                    self.chosen = None;
                }
            }
            Key::Pause => {
                self.is_paused = !self.is_paused;
                self.frozen = self.is_paused.then(|| self.window.clone());
                self.sum_up();
            }
        }
    }

    fn choose(&mut self, to: impl Fn(usize, usize) -> usize) {
        let lines = self.screen().lines;
        let at = lines.iter().position(|line| line.is_chosen).unwrap_or(0);
        let last = lines.len().saturating_sub(1);
        self.chosen = lines.get(to(at, last)).map(|line| line.key.clone());
    }

    fn answers(&self, info: &Info, window: &Window) -> Option<(Level, [String; 3])> {
        let (figures, verdict) = self.judged.as_ref()?;
        let mut courses = Courses::default();
        window.pieces().for_each(|piece| courses.add(info, piece));
        let latency = courses.found(info);
        Some((verdict.level, verdict::lines(figures, verdict, &latency)))
    }

    /// The current content of the screen.
    pub fn screen(&self) -> Screen {
        let mut screen = Screen {
            host: String::new(),
            badge: None,
            link: self.link.clone(),
            is_paused: self.is_paused,
            headline: None,
            path: Vec::new(),
            lines: Vec::new(),
            cpus: Vec::new(),
            cpus_of: String::new(),
            window_ns: 0,
            time_unix_ns: 0,
            sort: self.sort,
            zeros: 0,
            shows_help: self.shows_help,
            breakdowns: self
                .breakdowns
                .iter()
                .map(|breakdown| (breakdown.key, breakdown.name))
                .collect(),
        };
        let Some(info) = &self.info else {
            return screen;
        };
        screen.host = format!("{} · Linux {}", info.hostname, info.kernel);
        screen.badge = match (info.is_demonstration(), info.is_recording()) {
            (_, true) => Some("RECORDING"),
            (true, false) => Some("DEMO"),
            (false, false) => None,
        };
        let window = self.frozen.as_ref().unwrap_or(&self.window);
        let Some(sum) = &self.sum else {
            return screen;
        };
        let view = View { info, sum };
        screen.window_ns = sum.interval_ns;
        screen.time_unix_ns = sum.time_unix_ns;
        screen.headline = Some(view.headline(self.skipped, self.answers(info, window)));
        let whole = self.path.last().map_or(NETWORK, String::as_str);
        let label = |slug: &str| match view.info.row_of(slug) {
            Some(row) => info.components[row].label.clone(),
            None => slug.to_owned(),
        };
        screen.path.push(label(NETWORK));
        screen.path.extend(self.path.iter().map(|slug| label(slug)));
        screen.lines = match self.shown.zip(view.info.row_of(whole)) {
            Some((breakdown, row)) => {
                screen.path.push(breakdown.name.to_owned());
                (breakdown.lines)(info, sum, row)
            }
            None => view.parts(whole),
        };
        if self.sort == Sort::Time {
            screen.lines.sort_by_key(order);
        }
        if !self.shows_zeros {
            let all = screen.lines.len();
            screen.lines.retain(|line| !is_zero(line));
            screen.zeros = all - screen.lines.len();
        }
        let chosen = self.chosen.as_deref();
        let at = screen
            .lines
            .iter()
            .position(|line| Some(line.key.as_str()) == chosen);
        if let Some(line) = screen.lines.get_mut(at.unwrap_or(0)) {
            line.is_chosen = true;
        }
        // Without a selection, the CPUs are those of the whole.
        let shown = at
            .filter(|_| self.shown.is_none())
            .map_or(whole, |at| screen.lines[at].key.as_str())
            .to_owned();
        screen.cpus = view.cpus(&shown);
        if self.sort == Sort::Time {
            screen.cpus.sort_by_key(order);
        }
        screen.cpus_of = label(&shown);
        screen
    }
}

/// Whether a line has no time; one that is not measured is no such line.
fn is_zero(line: &Line) -> bool {
    line.value.as_ref().is_ok_and(|value| value.ns == 0)
}

/// Descending order, with unknown values last.
fn order(line: &Line) -> std::cmp::Reverse<Option<u64>> {
    std::cmp::Reverse(line.value.as_ref().ok().map(|value| value.ns))
}

/// The window and its description.
struct View<'a> {
    info: &'a Info,
    sum: &'a Snapshot,
}

impl View<'_> {
    fn headline(&self, skipped: u64, answers: Option<(Level, [String; 3])>) -> Headline {
        let sections = &self.sum.sections;
        let network = self.info.row_of(NETWORK).map(|row| self.value(row));
        let is_missing = |row: usize| self.value(row).is_err();
        let own_cost = sections.own.as_ref();
        let taken_ns = own_cost.and_then(|own_cost| own_cost.taken_total_ns());
        Headline {
            answers,
            network: network.unwrap_or_else(|| Err("this netto knows no such total".to_owned())),
            at_least: self.info.parts_of(NETWORK).any(is_missing),
            cpus: self.sum.cpus.len(),
            network_watts: sections
                .power
                .as_ref()
                .map(|power| (power.network_watts, power.network_capacity_watts)),
            own_costliest: own_cost
                .and_then(|own_cost| Some((own_cost.costliest?.ratio, own_cost.costliest?.cpu))),
            own_ratio: taken_ns.map(|ns| ratio(ns, self.sum.capacity_ns())),
            stacks_lost: self.sum.cost().stacks_lost.iter().sum(),
            skipped,
            missed: missed::worst(self.info, self.sum.cost()).map(|(way, counted)| {
                let all = counted.missed.saturating_add(counted.seen);
                (way.probe.clone(), ratio(counted.missed, all))
            }),
        }
    }

    /// A component's share of the host, or why it is unknown.
    fn value(&self, row: usize) -> Result<Value, String> {
        let known = self.info.components.get(row).map(|row| &row.availability);
        if let Some(Availability::Unavailable { reason }) = known {
            return Err(reason.clone());
        }
        let Some(ns) = self.sum.total_ns(row) else {
            return Err("not measured in this interval".to_owned());
        };
        let interval_ns = confidence::of_component(self.info, self.sum, row);
        Ok(Value::of(self.sum, ns, interval_ns))
    }

    fn parts(&self, slug: &str) -> Vec<Line> {
        let line = |row: usize| {
            let component = &self.info.components[row];
            let (slug, color) = (&component.slug, rgb(&component.color));
            Line {
                has_parts: self.info.parts_of(slug).next().is_some(),
                ..Line::new(slug, &component.label, color, self.value(row))
            }
        };
        self.info.parts_of(slug).map(line).collect()
    }

    fn cpus(&self, slug: &str) -> Vec<Line> {
        let Some(row) = self.info.row_of(slug) else {
            return Vec::new();
        };
        let Some(values) = self.sum.cost().cpu_ns(row) else {
            return Vec::new();
        };
        let color = rgb(&self.info.components[row].color);
        let line = |(cpu, &ns): (&u32, &u64)| {
            let of_cpu = ratio(ns, self.sum.interval_ns);
            let value = Value {
                ratio: of_cpu,
                ..Value::of(self.sum, ns, None)
            };
            Line::new(cpu, format!("CPU {cpu}"), color, Ok(value))
        };
        self.sum.cpus.iter().zip(values).map(line).collect()
    }
}

#[cfg(test)]
mod tests;
