//! Advice as markup. Pure.

use metrics_common::text::escape_html;

use crate::action::{Action, Format};
use netto_judges::advice::{Advice, silent_words};

/// Begin of the name by which a rule's commands are copied.
pub const COMMANDS: &str = "try-";

/// A part for each rule that is said, and when it held last: what is wrong, the evidence, what to try, and
/// what could be gained. `open` names the rules of which the reader has opened the details.
pub fn of<'a>(
    all: impl Iterator<Item = (&'a Advice, u64)>,
    now_ns: u64,
    open: &[String],
) -> String {
    let mut html = String::new();
    for (advice, held_unix_ns) in all {
        let commands = advice.commands.iter();
        let commands: Vec<String> = commands.map(|line| escape_html(line)).collect();
        let silent = silent_words(now_ns, held_unix_ns);
        let is_open = open.iter().any(|rule| rule == advice.rule);
        html += &format!(
            "<article><h3>{}{silent}</h3><p>{}</p><div class=\"try\"><pre>{}</pre>\
             <span class=\"save\"><button{}>Copy</button></span></div><p>Gain: {}</p>\
             <details data-rule=\"{}\"{}><summary>More</summary><p>{} See {}.</p></details></article>",
            escape_html(advice.name),
            escape_html(&advice.evidence),
            commands.join("\n"),
            Action::Save(format!("{COMMANDS}{}", advice.rule), Format::Copy).attribute(),
            escape_html(&advice.gain_words()),
            advice.rule,
            if is_open { " open" } else { "" },
            escape_html(advice.more),
            escape_html(&advice.link),
        );
    }
    html
}

#[cfg(test)]
mod tests {
    use netto_judges::advice::{Adviser, fixture};

    use super::*;
    use crate::basis::Basis;

    #[test]
    fn advice_has_its_evidence_commands_and_gain_and_a_hostile_name_is_no_markup() {
        let mut host = fixture::fires("rx-on-one-cpu");
        let traffic = host.sections.traffic.as_mut().unwrap();
        traffic.interfaces.as_mut().unwrap().named[0].name = "<b>".to_owned();
        let in_cpus = |cpus, host_cpus| Basis::Cpus.say_of_host(cpus, host_cpus);
        let judged = Adviser::default().judge_in(&host, &in_cpus).advice;
        let given = || judged.iter().map(|advice| (advice, 7));
        let html = of(given(), 7, &[]);
        for part in [
            "<h3>One CPU is full of receiving while others idle</h3>",
            "CPU 1 spends 90.0 % of its time in the RX softirq",
            "/sys/class/net/'&lt;b&gt;'/queues",
            "Gain: at most 0.90 CPUs",
            "<button data-act=\"save:try-rx-on-one-cpu:copy\">Copy</button>",
            "See docs/ADVICE.md#rx-on-one-cpu.",
        ] {
            assert!(
                html.contains(part) || html.contains(&part.replace('\'', "&#39;")),
                "{part}: {html}"
            );
        }
        assert!(!html.contains("<b>"), "{html}");
        assert!(html.contains("<details data-rule=\"rx-on-one-cpu\"><summary>"));
        let open = of(given(), 7, &["rx-on-one-cpu".to_owned()]);
        assert_eq!(open.matches(" open>").count(), 1, "{open}");
        let html = of(given(), 49_000_000_000, &[]);
        assert!(
            html.contains(" while others idle (not for 40 s)</h3>"),
            "{html}"
        );
        assert_eq!(of([].into_iter(), 7, &[]), "");
    }
}
