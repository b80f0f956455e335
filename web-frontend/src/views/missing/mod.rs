//! Components that this host does not measure, and the reasons.

use std::fmt::Write as _;

use metrics_common::Info;

use crate::format::escape_html;
use crate::view_model::missing;

/// Missing measurements with the reasons; empty if there are none.
pub fn html(info: &Info) -> String {
    let mut html = String::new();
    for group in missing(info) {
        let _ = write!(
            html,
            "<dt>{}</dt><dd>{}</dd>",
            escape_html(&group.names.join(", ")),
            escape_html(&group.reason)
        );
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn reasons_are_listed_and_their_absence_is_empty() {
        let mut info = fixture::info();
        assert_eq!(
            html(&info),
            "<dt>Networking&#39;s power</dt><dd>no RAPL</dd>"
        );
        info.power = metrics_common::Availability::by("rapl");
        assert_eq!(html(&info), "");
    }
}
