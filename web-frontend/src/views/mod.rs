//! The views of the page, one folder each. A folder contains the markup (`view.html`), the content
//! as plain values (`model`), its drawing (`draw`), the reader's choices (`choices`), and the part
//! that accesses the DOM (`page`). A view of one table or list has its markup in `mod.rs`, and no more.
//! The list below says which section of a snapshot a view needs, and on which pages it is.
//!
//! **To add a view, add its folder, its name to the list below, and a line `<!-- view: NAME -->` to
//! `www/index.html` at its position.** The build inserts the markup there, in an element with
//! `data-view="NAME"`, which is hidden as a whole. No view knows another; they share the scene, and
//! [`crate::state`]. The view of the example feature is for tests only (`example`).

use crate::view_info::{Pages, ViewInfo};

macro_rules! views {
    (@needs) => { None };
    (@needs $needs:literal) => { Some($needs) };
    (@view $name:ident $context:tt) => { $name::page::start $context };
    (@view $name:ident $context:tt $view:expr) => { Box::new($view) };
    ($($(#[cfg($when:meta)])? $name:ident $(needs $needs:literal)? on $pages:ident $(= $view:expr)?;)*) => {
        $($(#[cfg($when)])? pub mod $name;)*

        /// All views, in the order of drawing.
        pub const VIEWS: &[ViewInfo] = &[
            $($(#[cfg($when)])? ViewInfo {
                name: stringify!($name),
                needs: views!(@needs $($needs)?),
                pages: Pages::$pages,
            }),*
        ];

        /// The markup of each by its name, in the same order.
        pub const MARKUP: &[(&str, &str)] = &[
            $($(#[cfg($when)])? (stringify!($name), include_str!(concat!(stringify!($name), "/view.html")))),*
        ];

        /// The view objects, in the same order. `redraw` requests a drawing.
        #[cfg(target_arch = "wasm32")]
        pub fn all(
            window: &web_sys::Window,
            redraw: &std::rc::Rc<dyn Fn()>,
        ) -> Vec<(&'static ViewInfo, Box<dyn crate::view::View>)> {
            use crate::page::simple::{ListView, TableView};
            let views: [Box<dyn crate::view::View>; VIEWS.len()] =
                [$($(#[cfg($when)])? views!(@view $name (window, redraw) $($view)?)),*];
            VIEWS.iter().zip(views).collect()
        }
    };
}

views! {
    headline  needs "cost"       on Every;
    status                       on Every;
    own       needs "own"        on Every;
    replay                       on Every;
    notes                        on Every        = ListView { id: "notes", html: notes::html };
    about     needs "cost"       on Component;
    now       needs "cost"       on Overview;
    map       needs "cost"       on Overview;
    advice                       on Overview;
    anomalies                    on Overview;
    time      needs "cost"       on Overview;
    owners    needs "owners"     on OverviewAndComponent;
    cpus      needs "cost"       on OverviewAndComponent;
    table     needs "cost"       on Overview;
    traffic   needs "traffic"    on Overview;
    programs  needs "programs"   on Overview     = TableView { name: "programs", html: programs::of };
    slowest   needs "slowest"    on Overview;
    intruders needs "intruders"  on Overview     = TableView { name: "intruders", html: intruders::of };
    flows     needs "flows"      on Overview     = TableView { name: "flows", html: flows::of };
    latency   needs "latency"    on Overview;
    health                       on Overview;
    flame     needs "cost"       on OverviewAndComponent;
    missing                      on Overview     = ListView { id: "missing", html: missing::html };
    #[cfg(feature = "example")]
    ticks     needs "ticks"      on Overview;
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::Sections;

    use super::*;

    #[test]
    fn every_view_has_its_place_on_the_page_and_every_place_a_view() {
        let page = include_str!("../../../www/index.html");
        let is_there =
            |line: &&str| cfg!(feature = "example") || !line.contains("<!-- example -->");
        let lines = page.lines().filter(is_there);
        let mut places: Vec<&str> = lines
            .filter_map(|line| line.split_once("<!-- view: ")?.1.split_once(" -->"))
            .map(|(name, _)| name)
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
