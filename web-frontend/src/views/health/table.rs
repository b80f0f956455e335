//! Expected times, and what they are made of, as markup. Pure.

use metrics_common::text::escape_html;

/// Reads, or writes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Side {
    /// Which.
    pub name: &'static str,
    /// The expected time, seconds; `None` if nothing of it is known.
    pub seconds: Option<f64>,
    /// The score and the weighted sum, 0 to 100.
    pub scores: [Option<f64>; 2],
    /// Parts with their time, if it is known, and where it is from.
    pub parts: Vec<(String, Option<f64>, String)>,
}

/// A table of both.
pub fn of(sides: &[Side]) -> String {
    let mut html = String::new();
    for Side {
        name,
        seconds,
        scores,
        parts,
    } in sides
    {
        let mut notes = String::new();
        for (score, name) in scores.iter().zip(["score", "weighted sum"]) {
            if let Some(score) = score {
                notes += &format!("{name} {score:.0} ");
            }
        }
        html += &row("h", name, *seconds, &notes);
        for (name, seconds, because) in parts {
            html += &row("d", name, *seconds, because);
        }
    }
    format!("<table>{html}</table>")
}

fn row(cell: &str, name: &str, seconds: Option<f64>, because: &str) -> String {
    let time = seconds.map_or_else(
        || "–".to_owned(),
        |seconds| format!("{:.3} ms", 1e3 * seconds),
    );
    format!(
        "<tr><t{cell}>{}</t{cell}><t{cell} class=\"num\">{time}</t{cell}><td>{}</td></tr>",
        escape_html(name),
        escape_html(because)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_has_its_time_scores_and_parts_and_what_is_not_known_is_a_dash() {
        let side = Side {
            name: "Reads",
            seconds: Some(0.001_25),
            scores: [None, Some(81.4)],
            parts: vec![
                ("storage".to_owned(), Some(0.001), "<sda>".to_owned()),
                ("network".to_owned(), None, "no connection".to_owned()),
            ],
        };
        assert_eq!(
            of(&[side]),
            "<table><tr><th>Reads</th><th class=\"num\">1.250 ms</th><td>weighted sum 81 </td></tr>\
             <tr><td>storage</td><td class=\"num\">1.000 ms</td><td>&lt;sda&gt;</td></tr>\
             <tr><td>network</td><td class=\"num\">–</td><td>no connection</td></tr></table>"
        );
    }
}
