//! A section of the newest intervals, added up: the answer to a question, and a view on a terminal.

use metrics_common::sections::{Section, Sections, Visitor};
use metrics_common::{Info, Snapshot};

use crate::api::{Measured, NOT_MEASURED, Refusal, Snapshots, TextView, absence, json, sum_of};
use crate::window::Window;

/// The section of this name of the newest snapshots, added up, as JSON.
///
/// # Errors
/// A snapshot cannot be decoded, or the sum not be encoded.
pub fn answer(name: &str, snapshots: Snapshots<'_>, info: &Info) -> Result<Vec<u8>, Refusal> {
    let sum = sum_of(snapshots)?.unwrap_or_default();
    section_json(name, &sum.sections, info)
}

/// A section as JSON, or why it is absent.
fn section_json(name: &str, sections: &Sections, info: &Info) -> Result<Vec<u8>, Refusal> {
    let mut found = NewestSection { name, text: None };
    sections.visit(&mut found)?;
    match found.text {
        Some(text) => Ok(text),
        None => json(&Measured::<()>::of(info, name, None)),
    }
}

struct NewestSection<'a> {
    name: &'a str,
    text: Option<Vec<u8>>,
}

impl Visitor for NewestSection<'_> {
    type Error = Refusal;

    fn visit<S: Section>(&mut self, name: &'static str, section: &S) -> Result<(), Refusal> {
        if name == self.name {
            self.text = Some(json(section)?);
        }
        Ok(())
    }
}

/// The view of a section on a terminal: a table of the newest intervals, added up.
pub struct SectionView<T> {
    name: &'static str,
    window: Window,
    table: T,
}

impl<T: Fn(&Snapshot) -> String> SectionView<T> {
    /// Empty; `table` shows a sum of intervals, and begins with an empty line.
    pub fn new(name: &'static str, table: T) -> Self {
        SectionView {
            name,
            window: Window::default(),
            table,
        }
    }
}

impl<T: Fn(&Snapshot) -> String> TextView for SectionView<T> {
    fn push(&mut self, info: &Info, snapshot: Snapshot) -> Result<(), String> {
        match absence(info, self.name) {
            Some(reason) if !snapshot.sections.has(self.name) => Err(reason.to_owned()),
            _ => {
                self.window.push(&snapshot);
                Ok(())
            }
        }
    }

    fn clear(&mut self) {
        self.window.clear();
    }

    fn text(&self, info: &Info, length_ns: u64) -> String {
        let sum = self.window.sum(length_ns).unwrap_or_default();
        let shown = if sum.sections.has(self.name) {
            (self.table)(&sum)
        } else {
            let reason = absence(info, self.name).unwrap_or(NOT_MEASURED);
            format!("\n{reason}\n")
        };
        format!("netto {} · {}\n{shown}", self.name, info.hostname)
    }

    fn json(&self, info: &Info, length_ns: u64) -> Result<Vec<u8>, Refusal> {
        let sum = self.window.sum(length_ns).unwrap_or_default();
        section_json(self.name, &sum.sections, info)
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::Drops;
    use metrics_common::{Availability, InstrumentInfo, fixture};

    use super::*;

    fn snapshot(packets: u64) -> Snapshot {
        let mut snapshot = Snapshot {
            interval_ns: 500_000_000,
            cpus: vec![0],
            ..Snapshot::default()
        };
        snapshot.sections.drops = Some(Drops {
            cpus: vec![packets],
            ..Drops::default()
        });
        snapshot
    }

    #[test]
    fn question_and_terminal_have_the_same_sum_or_the_same_reason() {
        let mut info = fixture::info();
        let table = |sum: &Snapshot| {
            let drops = sum.sections.drops.as_ref().unwrap();
            format!("\n{} dropped\n", drops.total())
        };
        let mut view = SectionView::new("drops", table);
        let nothing = view.text(&info, 0);
        assert!(
            nothing.ends_with("\n\nnot measured in this time\n"),
            "{nothing}"
        );
        let both = [snapshot(3), snapshot(4)];
        both.iter()
            .for_each(|snapshot| view.push(&info, snapshot.clone()).unwrap());
        let title = format!("netto drops · {}\n\n7 dropped\n", info.hostname);
        assert_eq!(view.text(&info, 1_000_000_000), title);
        let shown = view.json(&info, 1_000_000_000).unwrap();
        let mut asked = both.map(Ok).into_iter();
        assert_eq!(answer("drops", &mut asked, &info).unwrap(), shown);
        assert!(String::from_utf8(shown).unwrap().contains("\"cpus\":[7]"));

        info.instruments = vec![InstrumentInfo {
            name: "drops".to_owned(),
            availability: Availability::missing("no such tracepoint"),
        }];
        let refused = view.push(&info, Snapshot::default()).unwrap_err();
        assert_eq!(refused, "no such tracepoint");
        view.clear();
        assert!(view.text(&info, 0).ends_with("\n\nno such tracepoint\n"));
        let absent = br#"{"unavailable":"no such tracepoint"}"#;
        assert_eq!(view.json(&info, 0).unwrap(), absent);
        assert_eq!(
            answer("drops", &mut std::iter::empty(), &info).unwrap(),
            absent
        );
    }
}
