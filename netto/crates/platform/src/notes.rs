//! Notes to the user in [`metrics_common::Info::notes`], which may be withdrawn, by topic. Pure.

use std::collections::BTreeMap;

/// The current notes.
#[derive(Debug, Default)]
pub(super) struct Notes {
    by_topic: BTreeMap<&'static str, Vec<String>>,
    /// Whether there is a change that has not been published.
    pub(super) has_news: bool,
}

impl Notes {
    /// Replaces the note on a topic; returns whether it has changed.
    pub(super) fn set(
        &mut self,
        topic: &'static str,
        texts: Vec<String>,
        shown: &mut Vec<String>,
    ) -> bool {
        let before = self.by_topic.entry(topic).or_default();
        if *before == texts {
            return false;
        }
        shown.retain(|note| !before.contains(note));
        shown.extend_from_slice(&texts);
        *before = texts;
        self.has_news = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_told_once_and_taken_back_without_the_others() {
        let mut notes = Notes::default();
        let mut shown = vec!["from the start".to_owned()];
        let texts = |text: &str| vec![text.to_owned()];
        assert!(notes.set("cpus", texts("one is blind"), &mut shown));
        assert!(notes.set("probes", texts("much was missed"), &mut shown));
        assert!(std::mem::take(&mut notes.has_news));
        assert!(!notes.set("cpus", texts("one is blind"), &mut shown) && !notes.has_news);
        assert!(notes.set("cpus", vec![], &mut shown) && notes.has_news);
        assert_eq!(shown, ["from the start", "much was missed"]);
    }
}
