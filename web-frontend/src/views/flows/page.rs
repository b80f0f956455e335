//! The table of conversations in the document.

use std::rc::Rc;

use web_sys::Window;

use super::table;
use crate::page::simple::TableView;
use crate::view::View;

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(TableView {
        name: "flows",
        html: table::of,
    })
}
