//! The reader's choices in the heat map. Pure.

use crate::state::{Address, Keys, Pairs, name_of, named};

/// How the CPUs are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// By their numbers.
    Number,
    /// The busiest first.
    Load,
}

impl Sort {
    /// Every order, with its name in the address.
    pub const ALL: [(Sort, &'static str); 2] = [(Sort::Number, "number"), (Sort::Load, "load")];
}

/// The choices.
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    /// Order of the CPUs.
    pub sort: Sort,
    /// Which CPUs to show; see [`super::model::Filter`].
    pub filter: String,
}

impl Default for Choices {
    fn default() -> Self {
        Choices {
            sort: Sort::Number,
            filter: String::new(),
        }
    }
}

impl Keys for Choices {
    fn read(&mut self, pairs: &Pairs) {
        let sort = pairs.get("sort").and_then(|name| named(&Sort::ALL, name));
        self.sort = sort.unwrap_or(Sort::Number);
        let filter = pairs.get("only").unwrap_or_default();
        self.filter = filter.chars().take(200).collect();
    }

    fn write(&self, address: &mut Address) {
        let name = |sort| name_of(&Sort::ALL, sort);
        address.put("sort", name(self.sort), name(Sort::Number));
        address.put("only", &self.filter, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::there_and_back;

    #[test]
    fn a_link_reproduces_order_and_filter() {
        let choices = Choices {
            sort: Sort::Load,
            filter: "0-7,>20 % node1".to_owned(),
        };
        let (again, text) = there_and_back(&choices);
        assert_eq!(again, choices);
        assert!(text.contains("only=0-7,%3E20%20%25%20node1"), "{text}");
        assert_eq!(there_and_back(&Choices::default()).1, "");
    }
}
