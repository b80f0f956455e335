//! The reader's choices for owners. Pure.

use crate::state::{Address, Keys, Pairs, toggle};
use metrics_common::component::NETWORK;

/// The choices.
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    /// Slug of the component whose owners are shown.
    pub component: String,
    /// Keys of the owners whose components are shown.
    pub open: Vec<String>,
    /// Name of the column by which owners are ordered; empty: by all that they cause and pay.
    pub by: String,
}

impl Default for Choices {
    fn default() -> Self {
        Choices {
            component: NETWORK.to_owned(),
            open: Vec::new(),
            by: String::new(),
        }
    }
}

impl Choices {
    /// Expands or collapses an owner's components.
    pub fn toggle_open(&mut self, key: &str) {
        toggle(&mut self.open, key);
    }

    /// Orders by this column, or as before if it was ordered by it.
    pub fn order_by(&mut self, column: &str) {
        if self.by == column {
            self.by.clear();
        } else {
            column.clone_into(&mut self.by);
        }
    }
}

impl Keys for Choices {
    fn read(&mut self, pairs: &Pairs) {
        let default = Choices::default();
        let component = pairs.slug("owners-of").map(str::to_owned);
        self.component = component.unwrap_or(default.component);
        self.open = pairs.slugs("owner").unwrap_or_default();
        self.by = pairs.slug("owners-by").unwrap_or_default().to_owned();
    }

    fn write(&self, address: &mut Address) {
        address.put("owners-of", &self.component, NETWORK);
        address.put("owner", &self.open.join(","), "");
        address.put("owners-by", &self.by, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::there_and_back;

    #[test]
    fn a_link_reproduces_the_component_and_the_owners_that_are_open() {
        let choices = Choices {
            component: "gro".to_owned(),
            open: vec!["cgroup_77".to_owned(), "nobody".to_owned()],
            by: "took".to_owned(),
        };
        assert_eq!(there_and_back(&choices).0, choices);
        assert_eq!(there_and_back(&Choices::default()).1, "");
    }
}
