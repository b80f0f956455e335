//! What the reader has chosen to see, and how it stands in the page's address,
//! so that a link reproduces the view. Pure.

use std::fmt::Write as _;

/// Lengths of time that can be chosen, in minutes.
pub const WINDOW_MINUTES: [u32; 3] = [1, 5, 15];
/// The shortest stretch that can be looked at, milliseconds.
pub const SHORTEST_MS: f64 = 5_000.0;

/// A zoom into the flame graph goes no deeper.
const MOST_FRAMES: usize = 256;

/// In what the table's values are said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Per cent of one CPU.
    Percent,
    /// Milliseconds of CPU time in a second.
    Milliseconds,
    /// Nanoseconds for each call or softirq, where those are counted.
    PerEntry,
}

impl Unit {
    /// Every unit, with its name in the address.
    pub const ALL: [(Unit, &'static str); 3] = [
        (Unit::Percent, "percent"),
        (Unit::Milliseconds, "ms"),
        (Unit::PerEntry, "entry"),
    ];
}

/// How the CPUs of the heat map are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// By their numbers.
    Number,
    /// The busiest first.
    Load,
}

impl Sort {
    /// Every order, with its name in the address.
    pub const ALL: [(Sort, &'static str); 2] = [(Sort::Number, "number"), (Sort::Load, "load")];
}

/// What the reader has chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewState {
    /// Slug of the component whose parts are shown.
    pub event: String,
    /// Slug of the component that the heat map shows.
    pub component: String,
    /// Length of the stretch of time shown, milliseconds.
    pub span_ms: f64,
    /// Where it ends, milliseconds since the Unix epoch; `None`: now.
    pub until_ms: Option<f64>,
    /// Whether the present stands still too.
    pub paused: bool,
    /// Unit of the table.
    pub unit: Unit,
    /// Order of the heat map.
    pub sort: Sort,
    /// Which CPUs to show; see [`crate::heat::Filter`].
    pub filter: String,
    /// Slugs of the table's rows whose parts are folded away.
    pub folded: Vec<String>,
    /// Whether the flame graph is open.
    pub flame: bool,
    /// Names of the functions down to the one that the flame graph is zoomed into.
    pub zoom: Vec<String>,
    /// Functions to look for in the flame graph.
    pub find: String,
    /// Id of the section to begin with.
    pub view: String,
}

impl Default for ViewState {
    fn default() -> Self {
        ViewState {
            event: "rx_softirq".to_owned(),
            component: "network".to_owned(),
            span_ms: 300_000.0,
            until_ms: None,
            paused: false,
            unit: Unit::Percent,
            sort: Sort::Number,
            filter: String::new(),
            // With these open the table would be longer than anybody reads.
            folded: ["tx_syscall", "rx_syscall", "other_softirq"]
                .map(str::to_owned)
                .to_vec(),
            flame: false,
            zoom: Vec::new(),
            find: String::new(),
            view: String::new(),
        }
    }
}

impl ViewState {
    /// The state that the part of an address behind `#` asks for; what makes
    /// no sense in it is ignored.
    pub fn from_fragment(fragment: &str) -> Self {
        let mut state = ViewState::default();
        for pair in fragment.trim_start_matches('#').split('&') {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value);
            let number = value.parse().ok().filter(|n: &f64| n.is_finite());
            match key {
                "event" if is_slug(&value) => state.event = value,
                "component" if is_slug(&value) => state.component = value,
                "span" => {
                    let seconds = number.unwrap_or(300.0).clamp(1.0, 86_400.0);
                    state.span_ms = (seconds * 1e3).max(SHORTEST_MS);
                }
                "until" => state.until_ms = number.filter(|n| *n > 0.0).map(|n| n * 1e3),
                "paused" => state.paused = true,
                "unit" => state.unit = named(&Unit::ALL, &value).unwrap_or(state.unit),
                "sort" => state.sort = named(&Sort::ALL, &value).unwrap_or(state.sort),
                "only" => state.filter = value.chars().take(200).collect(),
                "folded" => {
                    let slugs = value.split(',').filter(|slug| is_slug(slug));
                    state.folded = slugs.map(str::to_owned).collect();
                }
                "flame" if !value.is_empty() => state.flame = true,
                "zoom" => {
                    let names = value.split(';').filter(|name| !name.is_empty());
                    state.zoom = names.map(plain).take(MOST_FRAMES).collect();
                }
                "find" => state.find = plain(&value),
                // A bare word is the id of a section, as in any page.
                word if value.is_empty() && is_slug(word) => state.view = word.to_owned(),
                _ => {}
            }
        }
        // What stands still must know where.
        state.paused &= state.until_ms.is_some();
        state
    }

    /// The part of the address behind `#`; only what differs from the default.
    pub fn to_fragment(&self) -> String {
        let default = ViewState::default();
        let mut parts: Vec<String> = Vec::new();
        if !self.view.is_empty() {
            parts.push(self.view.clone());
        }
        let mut put = |key: &str, own: String, default: String| {
            if own != default {
                parts.push(format!("{key}={}", encoded(&own)));
            }
        };
        put("event", self.event.clone(), default.event);
        put("component", self.component.clone(), default.component);
        let seconds = |ms: f64| format!("{:.1}", ms / 1e3).replace(".0", "");
        put("span", seconds(self.span_ms), seconds(default.span_ms));
        if let Some(until) = self.until_ms {
            put("until", seconds(until), String::new());
        }
        put(
            "unit",
            name(&Unit::ALL, self.unit),
            name(&Unit::ALL, default.unit),
        );
        put(
            "sort",
            name(&Sort::ALL, self.sort),
            name(&Sort::ALL, default.sort),
        );
        put("only", self.filter.clone(), default.filter);
        put("folded", self.folded.join(","), default.folded.join(","));
        put("zoom", self.zoom.join(";"), String::new());
        put("find", self.find.clone(), String::new());
        for (key, on) in [("flame", self.flame), ("paused", self.paused)] {
            if on {
                parts.push(format!("{key}=1"));
            }
        }
        parts.join("&")
    }

    /// Folds a row of the table, or unfolds it.
    pub fn toggle_fold(&mut self, slug: &str) {
        match self.folded.iter().position(|folded| folded == slug) {
            Some(at) => drop(self.folded.remove(at)),
            None => self.folded.push(slug.to_owned()),
        }
    }

    /// Goes back to the present.
    pub fn go_live(&mut self) {
        self.until_ms = None;
        self.paused = false;
        // What was zoomed into is too short to watch.
        if self.span_ms < 60_000.0 {
            self.span_ms = ViewState::default().span_ms;
        }
    }

    /// Stops at this moment, or goes on.
    pub fn toggle_pause(&mut self, now_ms: f64) {
        if self.paused {
            self.go_live();
        } else {
            self.paused = true;
            self.until_ms.get_or_insert(now_ms);
        }
    }

    /// Looks at this stretch only.
    pub fn zoom_to(&mut self, from_ms: f64, to_ms: f64) {
        let (from, to) = (from_ms.min(to_ms), from_ms.max(to_ms));
        self.span_ms = (to - from).max(SHORTEST_MS);
        self.until_ms = Some(to.max(from + self.span_ms));
    }
}

/// Text of an address that is shown as it is: short, and of one line.
fn plain(text: &str) -> String {
    let seen = text.chars().filter(|c| !c.is_control());
    seen.take(200).collect()
}

fn named<T: Copy>(all: &[(T, &str)], name: &str) -> Option<T> {
    all.iter()
        .find(|(_, own)| *own == name)
        .map(|(value, _)| *value)
}

fn name<T: Copy + PartialEq>(all: &[(T, &str)], value: T) -> String {
    let found = all.iter().find(|(own, _)| *own == value);
    found.map_or(String::new(), |(_, name)| (*name).to_owned())
}

fn is_slug(text: &str) -> bool {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    !text.is_empty() && text.len() < 80 && text.bytes().all(legal)
}

/// Percent-encoding of all that means something in an address.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.,".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) if byte == b'%' => {
                bytes.push(value);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_reproduces_the_view() {
        let mut state = ViewState {
            event: "tx_syscall".to_owned(),
            component: "gro".to_owned(),
            unit: Unit::Milliseconds,
            sort: Sort::Load,
            filter: "0-7,>20 % node1".to_owned(),
            folded: vec!["rx_softirq".to_owned(), "network".to_owned()],
            flame: true,
            zoom: vec!["rx_softirq".to_owned(), "[bpf] a&b".to_owned()],
            find: "tcp_, =x".to_owned(),
            view: "cpus".to_owned(),
            ..ViewState::default()
        };
        state.zoom_to(1_700_000_060_500.0, 1_700_000_000_000.0);
        state.toggle_pause(0.0);
        let fragment = state.to_fragment();
        assert_eq!(ViewState::from_fragment(&format!("#{fragment}")), state);
        // Nothing stands there that an address could lose: plain letters, what divides the
        // settings, and the rest by its number.
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.,=&".contains(&b);
        let mut rest = fragment.as_bytes();
        while let [first, tail @ ..] = rest {
            let is_number = tail.len() >= 2 && tail[..2].iter().all(u8::is_ascii_hexdigit);
            assert!(plain(*first) || *first == b'%' && is_number, "{fragment}");
            rest = tail;
        }
        for lost in [
            "only=0-7,%3E20%20%25%20node1",
            "%5Bbpf%5D%20a%26b",
            "tcp_,%20%3Dx",
        ] {
            assert!(fragment.contains(lost), "no {lost} in {fragment}");
        }
    }

    #[test]
    fn the_default_view_has_a_plain_address() {
        assert_eq!(ViewState::default().to_fragment(), "");
        assert_eq!(ViewState::from_fragment(""), ViewState::default());
        let mut unfolded = ViewState::default();
        for slug in ViewState::default().folded {
            unfolded.toggle_fold(&slug);
        }
        let again = ViewState::from_fragment(&unfolded.to_fragment());
        assert_eq!(again.folded, Vec::<String>::new());
    }

    #[test]
    fn a_section_named_by_its_id_is_not_yet_open() {
        let state = ViewState::from_fragment("#flame");
        assert_eq!((state.view.as_str(), state.flame), ("flame", false));
        assert!(ViewState::from_fragment("#flame&flame=1").flame);
        let long = format!("#zoom={}", "f;".repeat(5_000));
        assert_eq!(ViewState::from_fragment(&long).zoom.len(), MOST_FRAMES);
    }

    #[test]
    fn nonsense_in_an_address_is_ignored() {
        let state = ViewState::from_fragment(
            "#event=<script>&component=&span=nan&until=-1&paused=1&unit=miles&sort=%&x&=&only=%zz",
        );
        assert_eq!(
            (state.event.as_str(), state.component.as_str()),
            ("rx_softirq", "network")
        );
        assert_eq!(
            (state.span_ms, state.until_ms, state.paused),
            (300_000.0, None, false)
        );
        assert_eq!(state.filter, "%zz");
    }

    #[test]
    fn pausing_keeps_the_moment_and_live_leaves_it() {
        let mut state = ViewState::default();
        state.toggle_pause(5_000.0);
        assert_eq!((state.paused, state.until_ms), (true, Some(5_000.0)));
        state.toggle_pause(9_000.0);
        assert_eq!((state.paused, state.until_ms), (false, None));
        state.zoom_to(10_000.0, 10_100.0);
        assert_eq!(state.span_ms, SHORTEST_MS);
        state.toggle_pause(99_000.0);
        assert_eq!(state.until_ms, Some(15_000.0), "a zoom stays where it is");
        state.go_live();
        assert_eq!(state.span_ms, 300_000.0);
    }
}
