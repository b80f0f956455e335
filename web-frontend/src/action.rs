//! Actions of the page's buttons. The document contains them as a word, some with an object:
//! `unit:entry`. Only this file reads and writes that form. Pure.

use std::fmt;
use std::str::FromStr;

use crate::basis::Basis;
use crate::format::escape_html;
use crate::state::{name_of, named};
use crate::views::cpus::choices::Sort;
use crate::views::table::choices::Unit;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A drawing.
    Svg,
    /// A picture.
    Png,
    /// Comma-separated values.
    Csv,
    /// Comma-separated values on the clipboard.
    Copy,
    /// Stacks in the format of flame graph tools.
    Folded,
}

impl Format {
    /// Every format, with its name, which is also the file's ending.
    pub const ALL: [(Format, &'static str); 5] = [
        (Format::Svg, "svg"),
        (Format::Png, "png"),
        (Format::Csv, "csv"),
        (Format::Copy, "copy"),
        (Format::Folded, "folded"),
    ];
}

/// The action of a button, a click in a drawing, or a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Show live data.
    Live,
    /// Pause, or continue.
    Pause,
    /// Play a recording, or pause it.
    Play,
    /// Play a recording at this multiple of its speed.
    Speed(u32),
    /// Show this many minutes.
    Span(u32),
    /// Show all figures of these minutes, or of the last seconds.
    OfRange,
    /// Show the parts of the component with this slug.
    Event(String),
    /// Show the component with this slug by CPU.
    Component(String),
    /// Show the page of the component with this slug: its time, CPUs, functions, and help.
    About(String),
    /// Show the overview of all components.
    Overview,
    /// Show all values in this unit of CPU time.
    Basis(Basis),
    /// Show the table's values in this unit.
    Unit(Unit),
    /// Order the CPUs in this way.
    Sort(Sort),
    /// Collapse or expand the parts of the component with this slug.
    Fold(String),
    /// Show or hide the parts without time of the bar with this number.
    Zeros(usize),
    /// Open the flame graph, or close it.
    Flame,
    /// Expand or collapse the components of the owner with this key.
    Owner(String),
    /// Order the owners by the column of this name.
    OwnersBy(String),
    /// Zoom out in the flame graph to this depth below the root.
    Zoom(usize),
    /// Enable or disable shortcuts of single keys.
    Keys,
    /// Hide the view of this name, or show it.
    Hide(String),
    /// Scroll to the view of this name.
    Jump(String),
    /// Offer the drawing of this name as a file.
    Save(String, Format),
}

/// The text is not an [`Action`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoAction;

impl Action {
    /// The attribute of a button in the document for this action, preceded by a space.
    pub fn attribute(&self) -> String {
        format!(" data-act=\"{}\"", escape_html(&self.to_string()))
    }
}

/// The button that expands an event into its parts.
pub fn parts_button(slug: &str, label: &str) -> String {
    format!(
        "<button class=\"unfold\"{act} aria-label=\"Parts of {label}\" title=\"Show its parts\">▸</button>",
        act = Action::Event(slug.to_owned()).attribute(),
        label = escape_html(label),
    )
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Live => f.write_str("live"),
            Action::Pause => f.write_str("pause"),
            Action::Play => f.write_str("play"),
            Action::Speed(times) => write!(f, "speed:{times}"),
            Action::Span(minutes) => write!(f, "span:{minutes}"),
            Action::OfRange => f.write_str("of-range"),
            Action::Event(slug) => write!(f, "event:{slug}"),
            Action::Component(slug) => write!(f, "component:{slug}"),
            Action::About(slug) => write!(f, "about:{slug}"),
            Action::Overview => f.write_str("overview"),
            Action::Basis(basis) => write!(f, "basis:{}", name_of(&Basis::ALL, *basis)),
            Action::Unit(unit) => write!(f, "unit:{}", name_of(&Unit::ALL, *unit)),
            Action::Sort(sort) => write!(f, "sort:{}", name_of(&Sort::ALL, *sort)),
            Action::Fold(slug) => write!(f, "fold:{slug}"),
            Action::Zeros(bar) => write!(f, "zeros:{bar}"),
            Action::Flame => f.write_str("flame"),
            Action::Owner(key) => write!(f, "owner:{key}"),
            Action::OwnersBy(column) => write!(f, "owners-by:{column}"),
            Action::Zoom(depth) => write!(f, "zoom:{depth}"),
            Action::Keys => f.write_str("keys"),
            Action::Hide(view) => write!(f, "hide:{view}"),
            Action::Jump(view) => write!(f, "jump:{view}"),
            Action::Save(what, format) => {
                write!(f, "save:{what}:{}", name_of(&Format::ALL, *format))
            }
        }
    }
}

impl FromStr for Action {
    type Err = NoAction;

    fn from_str(text: &str) -> Result<Self, NoAction> {
        let (verb, object) = text.split_once(':').unwrap_or((text, ""));
        let slug = || object.to_owned();
        match verb {
            "live" => Some(Action::Live),
            "pause" => Some(Action::Pause),
            "play" => Some(Action::Play),
            "speed" => object.parse().ok().map(Action::Speed),
            "of-range" => Some(Action::OfRange),
            "span" => object.parse().ok().map(Action::Span),
            "event" => Some(Action::Event(slug())),
            "component" => Some(Action::Component(slug())),
            "about" => Some(Action::About(slug())),
            "overview" => Some(Action::Overview),
            "basis" => named(&Basis::ALL, object).map(Action::Basis),
            "unit" => named(&Unit::ALL, object).map(Action::Unit),
            "sort" => named(&Sort::ALL, object).map(Action::Sort),
            "fold" => Some(Action::Fold(slug())),
            "zeros" => object.parse().ok().map(Action::Zeros),
            "flame" => Some(Action::Flame),
            "owner" => Some(Action::Owner(slug())),
            "owners-by" => Some(Action::OwnersBy(slug())),
            "zoom" => object.parse().ok().map(Action::Zoom),
            "keys" => Some(Action::Keys),
            "hide" => Some(Action::Hide(slug())),
            "jump" => Some(Action::Jump(slug())),
            "save" => object.split_once(':').and_then(|(what, format)| {
                Some(Action::Save(what.to_owned(), named(&Format::ALL, format)?))
            }),
            _ => None,
        }
        .ok_or(NoAction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_survives_the_document() {
        let actions = [
            Action::Live,
            Action::Pause,
            Action::Play,
            Action::Speed(60),
            Action::Span(15),
            Action::OfRange,
            Action::Event("rx_softirq".to_owned()),
            Action::Component("gro".to_owned()),
            Action::About("conntrack".to_owned()),
            Action::Overview,
            Action::Basis(Basis::Milliseconds),
            Action::Unit(Unit::PerEntry),
            Action::Sort(Sort::Load),
            Action::Fold("network".to_owned()),
            Action::Zeros(2),
            Action::Flame,
            Action::Owner("cgroup_77".to_owned()),
            Action::OwnersBy("took".to_owned()),
            Action::Zoom(3),
            Action::Keys,
            Action::Hide("time".to_owned()),
            Action::Jump("owners".to_owned()),
            Action::Save("heat".to_owned(), Format::Png),
        ];
        for action in actions {
            assert_eq!(action.to_string().parse(), Ok(action));
        }
    }

    #[test]
    fn what_is_no_action_is_not_guessed_at() {
        for text in [
            "",
            "span:x",
            "speed:fast",
            "unit:miles",
            "basis:percent",
            "save:heat",
            "save:heat:doc",
            "zoom:-1",
            "launch",
        ] {
            assert_eq!(text.parse::<Action>(), Err(NoAction), "{text}");
        }
    }

    #[test]
    fn every_button_in_the_markup_means_something() {
        let page = include_str!("../../www/index.html");
        let texts = crate::views::MARKUP.iter().map(|(_, html)| *html);
        let mut buttons = 0;
        for html in texts.chain([page]) {
            for act in html.split("data-act=\"").skip(1) {
                let act = act.split('"').next().unwrap_or_default();
                assert!(act.parse::<Action>().is_ok(), "{act}");
                buttons += 1;
            }
        }
        assert!(buttons > 20, "only {buttons} buttons were found");
    }
}
