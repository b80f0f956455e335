//! The views of the page, one folder each. A folder holds all that its view is:
//! the markup (`view.html`), what it shows as plain values (`model`), how that is
//! drawn (`draw`), what the reader can choose in it (`choices`), and its hold on
//! the document (`page`, the only part that touches the DOM). Its `NEEDS` names the
//! section of a snapshot without which it has nothing to show.
//!
//! **To add a view, add its folder, its name to the list below, and a line
//! `<!-- view: NAME -->` to `www/index.html` where it is to stand.** The build puts the
//! markup there, in an element with `data-view="NAME"`, which is hidden as a whole. No view
//! knows another; what they share is the scene that they are shown, and [`crate::state`].

use metrics_common::sections::Sections;

use crate::state::Shared;

#[cfg(target_arch = "wasm32")]
mod view;
#[cfg(target_arch = "wasm32")]
pub use view::{Pointer, Reply, Scene, View};

/// What the page knows of each view.
pub struct Entry {
    /// Its name, by which the reader hides it.
    pub name: &'static str,
    /// The section that it shows, if it is of one.
    pub needs: Option<&'static str>,
}

impl Entry {
    /// Whether there is something for it to show.
    pub fn is_there(&self, sections: &Sections) -> bool {
        self.needs.is_none_or(|section| sections.has(section))
    }

    /// Whether it is shown: it is there, and the reader has not hidden it. On a component's
    /// page, what is of that component is, and what is of all is not.
    pub fn is_shown(&self, sections: &Sections, shared: &Shared) -> bool {
        let is_hidden = || shared.hidden.iter().any(|name| name == self.name);
        let is_wanted = match (self.name, shared.about.is_empty()) {
            (OWN_PAGE, is_overview) => !is_overview,
            (name, false) if OF_ONE.contains(&name) => true,
            (name, false) if OF_ALL.contains(&name) => false,
            _ => !is_hidden(),
        };
        is_wanted && self.is_there(sections)
    }
}

/// What is of a component, beside other views that show it too: on its page only.
pub const OWN_PAGE: &str = "about";
/// What can be of one component.
const OF_ONE: &[&str] = &["cpus", "owners", "flame"];
/// What is of all of them, and not on a component's page.
const OF_ALL: &[&str] = &["now", "time", "table", "traffic", "latency", "missing"];

macro_rules! views {
    ($($name:ident),* $(,)?) => {
        $(pub mod $name;)*

        /// All of them, in the order in which they are drawn.
        pub const VIEWS: &[Entry] = &[
            $(Entry { name: stringify!($name), needs: $name::NEEDS }),*
        ];

        /// The markup of each by its name, in the same order.
        pub const MARKUP: &[(&str, &str)] = &[
            $((stringify!($name), include_str!(concat!(stringify!($name), "/view.html")))),*
        ];

        /// The views themselves, in the same order. `redraw` asks for a drawing soon.
        #[cfg(target_arch = "wasm32")]
        pub fn all(
            window: &web_sys::Window,
            redraw: &std::rc::Rc<dyn Fn()>,
        ) -> Vec<(&'static Entry, Box<dyn View>)> {
            let views = [$($name::page::start(window, redraw)),*];
            VIEWS.iter().zip(views).collect()
        }
    };
}

views!(
    headline, status, own, replay, notes, about, now, time, owners, cpus, table, traffic, latency,
    flame, missing
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn every_view_has_its_place_on_the_page_and_every_place_a_view() {
        let page = include_str!("../../../www/index.html");
        let mut places: Vec<&str> = page
            .split("<!-- view: ")
            .skip(1)
            .filter_map(|piece| piece.split_once(" -->").map(|(name, _)| name))
            .collect();
        places.sort_unstable();
        let mut names: Vec<&str> = MARKUP.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        assert_eq!(places, names);
    }

    #[test]
    fn a_view_needs_a_section_that_exists_or_none() {
        for view in VIEWS {
            let exists = |section| Sections::NAMES.contains(&section);
            assert!(view.needs.is_none_or(exists), "{}", view.name);
        }
    }

    #[test]
    fn a_view_is_absent_where_its_section_is_and_comes_back_as_the_reader_has_left_it() {
        let of = |needs| Entry { name: "a", needs };
        let full = fixture::snapshot(1).sections;
        let without_cost = Sections {
            cost: None,
            ..full.clone()
        };
        let nothing = Shared::default();
        let hidden = Shared {
            hidden: vec!["b".to_owned(), "a".to_owned()],
            ..Shared::default()
        };
        for (needs, sections, hides, is_there, is_shown) in [
            (Some("cost"), &full, &nothing, true, true),
            (Some("cost"), &without_cost, &nothing, false, false),
            (Some("cost"), &full, &hidden, true, false),
            (Some("cost"), &without_cost, &hidden, false, false),
            (Some("modes"), &without_cost, &nothing, true, true),
            (None, &Sections::default(), &nothing, true, true),
            (None, &full, &hidden, true, false),
        ] {
            let view = of(needs);
            assert_eq!(view.is_there(sections), is_there, "{needs:?} {hides:?}");
            assert_eq!(
                view.is_shown(sections, hides),
                is_shown,
                "{needs:?} {hides:?}"
            );
        }
    }

    #[test]
    fn a_components_page_has_what_is_of_it_and_nothing_of_all() {
        let sections = fixture::snapshot(1).sections;
        let mut shared = Shared {
            hidden: vec!["flame".to_owned()],
            ..Shared::default()
        };
        let shown = |shared: &Shared| -> Vec<&str> {
            let views = VIEWS.iter().filter(|view| view.is_shown(&sections, shared));
            views.map(|view| view.name).collect()
        };
        let overview = shown(&shared);
        assert!(overview.contains(&"table") && !overview.contains(&"about"));
        shared.about = "gro".to_owned();
        let own = shown(&shared);
        for name in ["headline", "about", "cpus", "flame"] {
            assert!(own.contains(&name), "no {name}");
        }
        assert!(OF_ALL.iter().all(|name| !own.contains(name)), "{own:?}");
        let is_a_view = |name: &&&str| VIEWS.iter().any(|view| view.name == **name);
        let named = OF_ONE.iter().chain(OF_ALL).chain([&OWN_PAGE]);
        assert_eq!(named.clone().filter(is_a_view).count(), named.count());
    }

    #[test]
    fn no_two_views_use_the_same_id() {
        let page = include_str!("../../../www/index.html");
        let texts = MARKUP.iter().map(|(_, html)| *html).chain([page]);
        let mut ids: Vec<&str> = texts
            .flat_map(|html| html.split(" id=\"").skip(1))
            .filter_map(|piece| piece.split('"').next())
            .collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert!(count > 40, "only {count} ids were found");
        assert_eq!(ids.len(), count);
    }
}
