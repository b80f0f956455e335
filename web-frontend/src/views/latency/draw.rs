//! The table of latencies as markup. Pure.

use std::fmt::Write as _;

use metrics_common::latency::PERCENTILES;

use super::model::LatencyRow;
use crate::format::escape_html;

/// The table.
pub fn table(lines: &[LatencyRow]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut html = "<table><caption>Points of a packet's way</caption><thead><tr>\
                    <th scope=\"col\">Point</th>"
        .to_owned();
    for (_, name) in PERCENTILES {
        let _ = write!(html, "<th scope=\"col\">{name}</th>");
    }
    html.push_str(
        "<th scope=\"col\">Number /s</th><th scope=\"col\">64 ns to 17 s</th></tr></thead><tbody>",
    );
    for line in lines {
        let slug = line.point.slug();
        let (class, name) = match &line.group {
            None => ("point", line.point.label()),
            Some(group) => ("group", group.as_str()),
        };
        let _ = write!(
            html,
            "<tr class=\"{class}\" data-point=\"{slug}\"><th scope=\"row\" title=\"{}\">{}</th>",
            escape_html(line.point.help()),
            escape_html(name),
        );
        for figure in &line.figures {
            let (bounds, value) = (&figure.bounds, &figure.value);
            let _ = write!(html, "<td title=\"{bounds}\">{value}</td>");
        }
        let (rate, bars) = (&line.rate, &line.bars);
        let _ = write!(
            html,
            "<td>{rate}</td><td class=\"bars\" aria-hidden=\"true\">{bars}</td></tr>"
        );
    }
    html.push_str("</tbody></table>");
    html
}

#[cfg(test)]
mod tests {
    use super::super::choices::Grouping;
    use super::super::model::{lines, tests::measured};
    use super::*;

    #[test]
    fn names_of_groups_are_no_markup() {
        let mut snapshot = measured();
        let latency = snapshot.sections.latency.as_mut().unwrap();
        latency.groups[0].name = Some("<b>".to_owned());
        let html = table(&lines(&snapshot, Grouping::Owner));
        assert!(
            html.contains("&lt;b&gt;") && !html.contains("<b>"),
            "{html}"
        );
        assert!(html.contains("data-point=\"tcp-socket-read\""));
        assert_eq!(table(&[]), "");
    }
}
