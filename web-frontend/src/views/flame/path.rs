//! The path to the zoomed function of the flame graph, as markup. Pure.

use std::fmt::Write as _;

use metrics_common::Info;

use super::model::{self, Profile};
use crate::action::Action;
use crate::format::escape_html;

/// Number of functions named at the end of a long path.
const NAMED_AT_END: usize = 6;

/// The path to the zoomed function, and the functions of it that are not in the current stacks.
pub fn path_html(profile: &Profile, info: &Info, zoom: usize, unknown: &[String]) -> String {
    let line = profile.tree.line_to(zoom);
    if line.is_empty() && unknown.is_empty() {
        return "Click a function to zoom into it".to_owned();
    }
    let mut html = format!(
        "<button class=\"plain\"{}>{}</button>",
        Action::Zoom(0).attribute(),
        profile
            .tree
            .node(0)
            .map_or(String::new(), |root| escape_html(&root.name)),
    );
    let left_out = line.len().saturating_sub(NAMED_AT_END);
    for (depth, &at) in (1..).zip(&line) {
        let Some(node) = profile.tree.node(at) else {
            continue;
        };
        let name = escape_html(&model::label(info, node));
        if depth > 1 && depth <= left_out {
            if depth == 2 {
                html.push_str("<span class=\"gap\">…</span>");
            }
        } else if depth == line.len() {
            let _ = write!(html, "<b>{name}</b>");
        } else {
            let _ = write!(
                html,
                "<button class=\"plain\"{}>{name}</button>",
                Action::Zoom(depth).attribute()
            );
        }
    }
    if let Some(name) = unknown.last() {
        let _ = write!(html, " · {} was not seen lately", escape_html(name));
    }
    html
}
