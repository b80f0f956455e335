//! The reader's choices in the flame graph. Pure.

use crate::state::{Address, Keys, Pairs, plain};

/// Deepest zoom.
const MOST_FRAMES: usize = 256;

/// The choices.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choices {
    /// Whether it is closed.
    pub is_closed: bool,
    /// Names of the functions from the root down to the zoomed one.
    pub zoom: Vec<String>,
    /// The search text.
    pub find: String,
}

impl Keys for Choices {
    fn read(&mut self, pairs: &Pairs) {
        self.is_closed = pairs.get("flame") == Some("0");
        let zoom = pairs.get("zoom").unwrap_or_default();
        let names = zoom.split(';').filter(|name| !name.is_empty());
        self.zoom = names.map(plain).take(MOST_FRAMES).collect();
        self.find = plain(pairs.get("find").unwrap_or_default());
    }

    fn write(&self, address: &mut Address) {
        address.put("zoom", &self.zoom.join(";"), "");
        address.put("find", &self.find, "");
        let open = if self.is_closed { "0" } else { "1" };
        address.put("flame", open, "1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::there_and_back;

    #[test]
    fn a_link_reproduces_the_zoom_and_the_search() {
        let choices = Choices {
            is_closed: true,
            zoom: vec!["rx_softirq".to_owned(), "[bpf] a&b".to_owned()],
            find: "tcp_, =x".to_owned(),
        };
        let (again, text) = there_and_back(&choices);
        assert_eq!(again, choices);
        for lost in ["%5Bbpf%5D%20a%26b", "tcp_,%20%3Dx"] {
            assert!(text.contains(lost), "no {lost} in {text}");
        }
        assert_eq!(there_and_back(&Choices::default()).1, "");
    }

    #[test]
    fn it_is_open_unless_the_reader_has_closed_it() {
        let read = |fragment: &str| {
            let mut choices = Choices::default();
            choices.read(&Pairs::of(fragment));
            choices
        };
        assert!(!read("#flame").is_closed);
        assert!(!read("#flame=1").is_closed);
        assert!(read("#flame&flame=0").is_closed);
        let long = format!("#zoom={}", "f;".repeat(5_000));
        assert_eq!(read(&long).zoom.len(), MOST_FRAMES);
    }
}
