//! The views of the page, one folder each. A folder holds all that its view is:
//! the markup (`view.html`), what it shows as plain values (`model`), how that is
//! drawn (`draw`), what the reader can choose in it (`choices`), and its hold on
//! the document (`page`, the only part that touches the DOM).
//!
//! **To add a view, add its folder, its name to the list below, and a line
//! `<!-- view: NAME -->` to `www/index.html` where it is to stand.** No view knows
//! another; what they share is the scene that they are shown, and [`crate::state`].

#[cfg(target_arch = "wasm32")]
mod view;
#[cfg(target_arch = "wasm32")]
pub use view::{Pointer, Reply, Scene, View};

macro_rules! views {
    ($($name:ident),* $(,)?) => {
        $(pub mod $name;)*

        /// The markup of each view by its name, in the order in which they are drawn.
        pub const MARKUP: &[(&str, &str)] = &[
            $((stringify!($name), include_str!(concat!(stringify!($name), "/view.html")))),*
        ];

        /// The views by their names, in the same order. `redraw` asks for a drawing soon.
        #[cfg(target_arch = "wasm32")]
        pub fn all(
            window: &web_sys::Window,
            redraw: &std::rc::Rc<dyn Fn()>,
        ) -> Vec<(&'static str, Box<dyn View>)> {
            vec![$((stringify!($name), $name::page::start(window, redraw))),*]
        }
    };
}

views!(headline, status, now, time, cpus, table, flame, notes);

#[cfg(test)]
mod tests {
    use super::MARKUP;

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
