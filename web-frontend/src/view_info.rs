//! The properties of a view that the page needs, and when it is shown.

use metrics_common::sections::Sections;

use crate::state::Shared;

/// The pages of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// On the overview, and unchanged on a component's page.
    Every,
    /// On the overview; on the page of a component even if the reader has hidden it, showing that
    /// component alone.
    OverviewAndComponent,
    /// On the overview only: it shows all components.
    Overview,
    /// On a component's page only.
    Component,
}

/// The properties of a view.
pub struct ViewInfo {
    /// Its name, used for hiding it.
    pub name: &'static str,
    /// The section that it shows, if any.
    pub needs: Option<&'static str>,
    /// Its pages.
    pub pages: Pages,
}

impl ViewInfo {
    /// Whether its section is present.
    pub fn has_data(&self, sections: &Sections) -> bool {
        self.needs.is_none_or(|section| sections.has(section))
    }

    /// Whether it is shown: it has data, belongs to the page, and the reader has not hidden it.
    pub fn is_shown(&self, sections: &Sections, shared: &Shared) -> bool {
        let is_hidden = || shared.hidden.iter().any(|name| name == self.name);
        let is_overview = shared.about.is_empty();
        let is_wanted = match self.pages {
            Pages::Component => !is_overview,
            Pages::OverviewAndComponent if !is_overview => true,
            Pages::Overview if !is_overview => false,
            _ => !is_hidden(),
        };
        is_wanted && self.has_data(sections)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_view_is_absent_where_its_section_is_and_comes_back_as_the_reader_has_left_it() {
        let of = |needs| ViewInfo {
            name: "a",
            needs,
            pages: Pages::Every,
        };
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
        for (needs, sections, hides, has_data, is_shown) in [
            (Some("cost"), &full, &nothing, true, true),
            (Some("cost"), &without_cost, &nothing, false, false),
            (Some("cost"), &full, &hidden, true, false),
            (Some("cost"), &without_cost, &hidden, false, false),
            (Some("modes"), &without_cost, &nothing, true, true),
            (None, &Sections::default(), &nothing, true, true),
            (None, &full, &hidden, true, false),
        ] {
            let view = of(needs);
            assert_eq!(view.has_data(sections), has_data, "{needs:?} {hides:?}");
            assert_eq!(
                view.is_shown(sections, hides),
                is_shown,
                "{needs:?} {hides:?}"
            );
        }
    }

    #[test]
    fn a_component_page_shows_the_views_that_belong_to_it() {
        let sections = fixture::snapshot(1).sections;
        let is_shown = |pages, about: &str, hidden: &[&str]| {
            let view = ViewInfo {
                name: "a",
                needs: None,
                pages,
            };
            let shared = Shared {
                about: about.to_owned(),
                hidden: hidden.iter().map(|name| (*name).to_owned()).collect(),
                ..Shared::default()
            };
            view.is_shown(&sections, &shared)
        };
        for (pages, overview, hidden, component, component_hidden) in [
            (Pages::Every, true, false, true, false),
            (Pages::OverviewAndComponent, true, false, true, true),
            (Pages::Overview, true, false, false, false),
            (Pages::Component, false, false, true, true),
        ] {
            assert_eq!(is_shown(pages, "", &[]), overview, "{pages:?}");
            assert_eq!(is_shown(pages, "", &["a"]), hidden, "{pages:?}");
            assert_eq!(is_shown(pages, "gro", &[]), component, "{pages:?}");
            assert_eq!(
                is_shown(pages, "gro", &["a"]),
                component_hidden,
                "{pages:?}"
            );
        }
    }
}
