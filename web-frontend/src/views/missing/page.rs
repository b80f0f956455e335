//! Missing measurements in the document.

use std::rc::Rc;

use web_sys::Window;

use super::model;
use crate::page::simple::ListView;
use crate::view::View;

/// The view, before anything is shown.
pub fn start(_: &Window, _: &Rc<dyn Fn()>) -> Box<dyn View> {
    Box::new(ListView {
        id: "missing",
        html: model::html,
    })
}
