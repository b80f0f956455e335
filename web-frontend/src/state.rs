//! The reader's choices shared by all views, and their encoding in the page's address, so that a
//! link reproduces the view. A view's own choices are in its `choices`. Pure.

use crate::basis::Basis;
use crate::format;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The shortest selectable span, milliseconds.
pub const SHORTEST_MS: f64 = 5_000.0;
const DEFAULT_SPAN_MS: f64 = 300_000.0;
/// A time up to now, which all figures are of, ends at such steps, milliseconds: it is asked for anew at each.
const MOVING_MS: f64 = 5_000.0;

/// The characters encoded in an address; the exceptions are more readable as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b',');

/// End of the displayed time span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// The present.
    Now,
    /// This time (milliseconds since the Unix epoch), which all figures are of.
    At(f64),
    /// This time, while other figures are those of the moment of the pause.
    Paused(f64),
}

/// The displayed time span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeRange {
    /// Its length, milliseconds.
    pub span_ms: f64,
    /// Its end.
    pub end: End,
}

impl Default for TimeRange {
    fn default() -> Self {
        TimeRange {
            span_ms: DEFAULT_SPAN_MS,
            end: End::Now,
        }
    }
}

impl TimeRange {
    /// Its end, milliseconds since the Unix epoch; `None`: now.
    pub fn until_ms(&self) -> Option<f64> {
        match self.end {
            End::Now => None,
            End::At(ms) | End::Paused(ms) => Some(ms),
        }
    }

    /// The selected time, milliseconds since the Unix epoch; `None`: no other than now.
    pub fn selected(&self) -> Option<(f64, f64)> {
        match self.end {
            End::At(ms) => Some((ms - self.span_ms, ms)),
            End::Now | End::Paused(_) => None,
        }
    }

    /// Whether the page is paused.
    pub fn is_paused(&self) -> bool {
        matches!(self.end, End::Paused(_))
    }

    /// The mode as the document names it.
    pub fn mode(&self) -> &'static str {
        match self.end {
            End::Now => "live",
            End::At(_) => "zoomed",
            End::Paused(_) => "paused",
        }
    }

    /// Returns to live data.
    pub fn go_live(&mut self) {
        self.end = End::Now;
        // A zoomed span is too short for live data.
        if self.span_ms < 60_000.0 {
            self.span_ms = DEFAULT_SPAN_MS;
        }
    }

    /// Pauses at this time, or continues. A selected time stands still already.
    pub fn toggle_pause(&mut self, now_ms: f64) {
        match self.end {
            End::Paused(_) => self.go_live(),
            End::At(_) => {}
            End::Now => self.end = End::Paused(now_ms),
        }
    }

    /// Selects this span.
    pub fn zoom_to(&mut self, from_ms: f64, to_ms: f64) {
        let (from, to) = (from_ms.min(to_ms), from_ms.max(to_ms));
        self.span_ms = (to - from).max(SHORTEST_MS);
        let until = to.max(from + self.span_ms);
        self.end = End::At(until);
    }
}

/// Choices shared by all views.
#[derive(Debug, Clone, PartialEq)]
pub struct Shared {
    /// Slug of the event whose parts the reader has chosen; empty: those of [`Shared::leading`].
    pub event: String,
    /// Slug of the event that takes most time.
    pub leading: String,
    /// Slug of the component that is shown by CPU.
    pub component: String,
    /// Slug of the component whose own page is shown; empty for the overview.
    pub about: String,
    /// The stretch of time.
    pub range: TimeRange,
    /// Whether all figures are of the charts' time while that ends now, and not of the last seconds.
    pub is_of_range: bool,
    /// The unit of all values.
    pub basis: Basis,
    /// Whether shortcuts of single keys are disabled: they disturb users of speech input, and can
    /// be hit by accident (WCAG 2.1.4).
    pub has_no_shortcuts: bool,
    /// Names of the views that are hidden.
    pub hidden: Vec<String>,
    /// Id of the section to scroll to at the start.
    pub view: String,
}

impl Default for Shared {
    fn default() -> Self {
        Shared {
            event: String::new(),
            leading: "rx_softirq".to_owned(),
            component: "network".to_owned(),
            about: String::new(),
            range: TimeRange::default(),
            is_of_range: false,
            basis: Basis::default(),
            has_no_shortcuts: false,
            hidden: Vec::new(),
            view: String::new(),
        }
    }
}

/// Choices encoded in the address.
pub trait Keys {
    /// Reads choices from the address; missing ones get their defaults, and invalid ones are
    /// ignored.
    fn read(&mut self, _: &Pairs) {}

    /// Writes choices that differ from the defaults.
    fn write(&self, _: &mut Address) {}
}

/// The parsed fragment of an address (the part behind `#`).
#[derive(Debug, Clone, Default)]
pub struct Pairs {
    pairs: Vec<(String, String)>,
    /// Bare words: ids of sections, as in any page.
    words: Vec<String>,
}

impl Pairs {
    /// Reads `#word&key=value&…`.
    pub fn of(fragment: &str) -> Self {
        let mut pairs = Pairs::default();
        for pair in fragment.trim_start_matches('#').split('&') {
            match pair.split_once('=') {
                Some((key, value)) => {
                    let value = percent_decode_str(value).decode_utf8_lossy();
                    pairs.pairs.push((key.to_owned(), value.into_owned()));
                }
                None => pairs.words.push(pair.to_owned()),
            }
        }
        pairs
    }

    /// The last value of this key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.pairs.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// The value of this key, if it could be a component's slug.
    pub fn slug(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|value| is_slug(value))
    }

    /// The slugs in the list of this key; `None` without the key.
    pub fn slugs(&self, key: &str) -> Option<Vec<String>> {
        let list = self.get(key)?.split(',').filter(|slug| is_slug(slug));
        Some(list.map(str::to_owned).collect())
    }

    fn number(&self, key: &str) -> Option<f64> {
        format::parse_decimal(self.get(key)?)
    }

    /// The section to scroll to.
    fn section(&self) -> Option<&str> {
        let mut words = self.words.iter().map(String::as_str);
        words.rfind(|word| is_slug(word))
    }
}

/// Builds the fragment of an address.
#[derive(Debug, Default)]
pub struct Address(Vec<String>);

impl Address {
    /// Adds a choice, unless it is the default.
    pub fn put(&mut self, key: &str, chosen: &str, default: &str) {
        if chosen != default {
            let value = utf8_percent_encode(chosen, ENCODED);
            self.0.push(format!("{key}={value}"));
        }
    }

    /// Adds a flag if it is on.
    pub fn switch(&mut self, key: &str, on: bool) {
        self.put(key, if on { "1" } else { "" }, "");
    }

    /// The text of the fragment.
    pub fn text(&self) -> String {
        self.0.join("&")
    }
}

impl Keys for Shared {
    fn read(&mut self, pairs: &Pairs) {
        *self = Shared {
            leading: std::mem::take(&mut self.leading),
            ..Shared::default()
        };
        if let Some(slug) = pairs.slug("event") {
            self.event = slug.to_owned();
        }
        if let Some(slug) = pairs.slug("component") {
            self.component = slug.to_owned();
        }
        self.about = pairs.slug("about").unwrap_or_default().to_owned();
        if let Some(seconds) = pairs.get("span").map(|_| pairs.number("span")) {
            let seconds = seconds
                .unwrap_or(DEFAULT_SPAN_MS / 1e3)
                .clamp(1.0, 86_400.0);
            self.range.span_ms = (seconds * 1e3).max(SHORTEST_MS);
        }
        let basis = pairs.get("basis").and_then(|name| named(&Basis::ALL, name));
        self.basis = basis.unwrap_or_default();
        self.has_no_shortcuts = pairs.get("no-keys").is_some();
        let until_ms = pairs.number("until").filter(|n| *n > 0.0).map(|n| n * 1e3);
        // Pausing requires a time.
        self.range.end = match (until_ms, pairs.get("paused")) {
            (None, _) => End::Now,
            (Some(ms), None) => End::At(ms),
            (Some(ms), Some(_)) => End::Paused(ms),
        };
        self.is_of_range = pairs.get("of-range").is_some();
        self.hidden = pairs.slugs("hide").unwrap_or_default();
        self.view = pairs.section().unwrap_or_default().to_owned();
    }

    fn write(&self, address: &mut Address) {
        let default = Shared::default();
        if !self.view.is_empty() {
            address.0.push(self.view.clone());
        }
        address.put("event", &self.event, &default.event);
        address.put("component", &self.component, &default.component);
        let name = |basis| name_of(&Basis::ALL, basis);
        address.put("basis", name(self.basis), name(default.basis));
        address.put("about", &self.about, "");
        let seconds = |ms: f64| format!("{:.1}", ms / 1e3).replace(".0", "");
        let default_span = seconds(default.range.span_ms);
        address.put("span", &seconds(self.range.span_ms), &default_span);
        if let Some(until) = self.range.until_ms() {
            address.put("until", &seconds(until), "");
        }
        address.switch("paused", self.range.is_paused());
        address.switch("of-range", self.is_of_range);
        address.switch("no-keys", self.has_no_shortcuts);
        address.put("hide", &self.hidden.join(","), "");
    }
}

impl Shared {
    /// The time that all figures are of, milliseconds since the Unix epoch, where the newest interval ends at
    /// `latest_ms`; `None`: the last seconds.
    pub fn time_of_figures(&self, latest_ms: Option<f64>) -> Option<(f64, f64)> {
        let up_to_now = || {
            let latest_ms = latest_ms.filter(|_| self.is_moving())?;
            let end_ms = (latest_ms / MOVING_MS).floor() * MOVING_MS;
            Some((end_ms - self.range.span_ms, end_ms))
        };
        self.range.selected().or_else(up_to_now)
    }

    /// Whether that time goes on with the present.
    pub fn is_moving(&self) -> bool {
        self.is_of_range && self.range.end == End::Now
    }

    /// Slug of the event whose parts are shown.
    pub fn event(&self) -> &str {
        match self.event.as_str() {
            "" => &self.leading,
            chosen => chosen,
        }
    }

    /// Shows the parts of an event; if they are chosen already, those of the leading event again.
    pub fn choose_event(&mut self, slug: String) {
        self.event = if self.event == slug {
            String::new()
        } else {
            slug
        };
    }

    /// Slug of the component that is shown by CPU.
    pub fn by_cpu(&self) -> &str {
        match self.about.as_str() {
            "" => &self.component,
            about => about,
        }
    }

    /// Hides a view, or shows it.
    pub fn toggle_hidden(&mut self, view: &str) {
        toggle(&mut self.hidden, view);
    }
}

/// Adds a word to a list, or removes it if present.
pub fn toggle(list: &mut Vec<String>, word: &str) {
    match list.iter().position(|listed| listed == word) {
        Some(at) => drop(list.remove(at)),
        None => list.push(word.to_owned()),
    }
}

/// Text of an address that is displayed: short, and one line.
pub fn plain(text: &str) -> String {
    let seen = text.chars().filter(|c| !c.is_control());
    seen.take(200).collect()
}

fn is_slug(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    !text.is_empty() && text.len() < 80 && text.bytes().all(legal)
}

/// The name of a value, from a table of names.
pub fn name_of<T: Copy + PartialEq>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter()
        .find(|(listed, _)| *listed == value)
        .map_or("", |(_, name)| name)
}

/// The value with this name, from a table of names.
pub fn named<T: Copy>(all: &[(T, &'static str)], name: &str) -> Option<T> {
    all.iter()
        .find(|(_, listed)| *listed == name)
        .map(|(value, _)| *value)
}

/// Choices after encoding and decoding, for tests of all choices; the address must contain only
/// safe characters.
#[cfg(test)]
pub fn there_and_back<T: Keys + Default>(choices: &T) -> (T, String) {
    let mut address = Address::default();
    choices.write(&mut address);
    // Plain letters, separators, and percent-encoded characters.
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.,=&".contains(&b);
    let text = address.text();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let is_number = tail.len() >= 2 && tail[..2].iter().all(u8::is_ascii_hexdigit);
        assert!(plain(*first) || *first == b'%' && is_number, "{text}");
        rest = tail;
    }
    let mut again = T::default();
    again.read(&Pairs::of(&format!("#{}", address.text())));
    (again, address.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fragment: &str) -> Shared {
        let mut state = Shared::default();
        state.read(&Pairs::of(fragment));
        state
    }

    #[test]
    fn a_link_reproduces_the_view() {
        let mut state = Shared {
            event: "tx_syscall".to_owned(),
            component: "gro".to_owned(),
            basis: Basis::Cpus,
            about: "conntrack".to_owned(),
            hidden: vec!["time".to_owned(), "flame".to_owned()],
            view: "percpu".to_owned(),
            ..Shared::default()
        };
        state
            .range
            .zoom_to(1_700_000_060_500.0, 1_700_000_000_000.0);
        state.range.toggle_pause(0.0);
        assert_eq!(there_and_back(&state).0, state);
    }

    #[test]
    fn all_figures_may_be_of_the_charts_time_up_to_now_in_steps() {
        let latest_ms = Some(1_002_400.0);
        let live = read("span=60");
        assert_eq!(live.time_of_figures(latest_ms), None);
        let moving = read("span=60&of-range=1");
        let expected = Some((940_000.0, 1_000_000.0));
        assert_eq!(moving.time_of_figures(latest_ms), expected);
        assert_eq!(moving.time_of_figures(None), None);
        // A selected time is one that stands.
        let selected = read("span=60&of-range=1&until=500");
        assert_eq!(
            selected.time_of_figures(latest_ms),
            Some((440_000.0, 500_000.0))
        );
        assert!(moving.is_moving() && !selected.is_moving());
    }

    #[test]
    fn the_default_view_has_a_plain_address() {
        assert_eq!(there_and_back(&Shared::default()).1, "");
        assert_eq!(read(""), Shared::default());
    }

    #[test]
    fn nonsense_in_an_address_is_ignored() {
        let state = read(
            "#event=<script>&component=&span=nan&basis=miles&about=<b>&until=-1&paused=1&x&=&hide=%zz,<b>",
        );
        assert_eq!(
            (state.event(), state.component.as_str()),
            ("rx_softirq", "network")
        );
        assert_eq!(state.range, TimeRange::default());
        assert_eq!(state.basis, Basis::Host);
        assert_eq!((state.about.as_str(), state.by_cpu()), ("", "network"));
        assert_eq!(state.hidden, Vec::<String>::new());
        assert_eq!(Pairs::of("#only=%zz").get("only"), Some("%zz"));
    }

    #[test]
    fn the_leading_event_is_followed_until_another_is_chosen() {
        let mut state = Shared {
            leading: "tx_syscall".to_owned(),
            ..Shared::default()
        };
        assert_eq!(state.event(), "tx_syscall");
        state.choose_event("rx_softirq".to_owned());
        state.leading = "rx_syscall".to_owned();
        assert_eq!(state.event(), "rx_softirq");
        state.choose_event("rx_softirq".to_owned());
        assert_eq!(state.event(), "rx_syscall");
        state.read(&Pairs::of("#"));
        assert_eq!(state.event(), "rx_syscall", "it is no choice");
    }

    #[test]
    fn pausing_keeps_the_moment_and_live_leaves_it() {
        let mut range = TimeRange::default();
        range.toggle_pause(5_000.0);
        assert_eq!(range.end, End::Paused(5_000.0));
        range.toggle_pause(9_000.0);
        assert_eq!(range.end, End::Now);
        range.zoom_to(10_000.0, 10_100.0);
        assert_eq!(range.span_ms, SHORTEST_MS);
        range.toggle_pause(99_000.0);
        assert_eq!(range.until_ms(), Some(15_000.0), "a zoom stays where it is");
        range.go_live();
        assert_eq!(range, TimeRange::default());
    }

    #[test]
    fn a_view_is_hidden_and_comes_back() {
        let mut state = Shared::default();
        state.toggle_hidden("time");
        assert_eq!(there_and_back(&state).1, "hide=time");
        state.toggle_hidden("time");
        assert_eq!(state, Shared::default());
    }
}
