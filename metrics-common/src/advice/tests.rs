//! The table of advice is complete, and no text is empty.

use super::*;
use crate::COMPONENTS;

#[test]
fn every_component_has_advice_and_no_advice_is_of_none() {
    for component in COMPONENTS {
        let of_it = |(slugs, _): &&(&[&str], &str)| slugs.contains(&component.slug);
        assert_eq!(ADVICE.iter().filter(of_it).count(), 1, "{}", component.slug);
        assert!(advice(component.slug).is_some());
    }
    let slugs = ADVICE.iter().flat_map(|(slugs, _)| *slugs);
    for slug in slugs {
        assert!(COMPONENTS.iter().any(|c| c.slug == *slug), "{slug}");
    }
    assert_eq!(advice("no such row"), None);
}

#[test]
fn advice_is_two_to_four_sentences_and_more_than_the_help() {
    for (slugs, text) in ADVICE {
        let sentences = text.split_terminator(". ").count();
        assert!((2..=4).contains(&sentences), "{slugs:?}: {sentences}");
        assert!(text.ends_with('.') && !text.contains("  "), "{slugs:?}");
        for component in COMPONENTS.iter().filter(|c| slugs.contains(&c.slug)) {
            assert!(!text.contains(component.help), "{}", component.slug);
        }
    }
}
