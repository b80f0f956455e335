//! The reader's choices in the table. Pure.

use crate::state::{Address, Keys, Pairs, name_of, named, toggle};

/// The unit of the table's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// CPU time, in the page's unit.
    Time,
    /// Nanoseconds for each call or softirq, if they are counted.
    PerEntry,
}

impl Unit {
    /// Every unit, with its name in the address.
    pub const ALL: [(Unit, &'static str); 2] = [(Unit::Time, "time"), (Unit::PerEntry, "entry")];
}

/// The choices.
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    /// Unit of the values.
    pub unit: Unit,
    /// Slugs of the rows whose parts are collapsed.
    pub folded: Vec<String>,
}

impl Default for Choices {
    fn default() -> Self {
        Choices {
            unit: Unit::Time,
            // Expanded, these would make the table too long to read.
            folded: ["tx_syscall", "rx_syscall", "other_softirq"]
                .map(str::to_owned)
                .to_vec(),
        }
    }
}

impl Choices {
    /// Collapses or expands a row.
    pub fn toggle_fold(&mut self, slug: &str) {
        toggle(&mut self.folded, slug);
    }
}

impl Keys for Choices {
    fn read(&mut self, pairs: &Pairs) {
        let default = Choices::default();
        let unit = pairs.get("unit").and_then(|name| named(&Unit::ALL, name));
        self.unit = unit.unwrap_or(default.unit);
        self.folded = pairs.slugs("folded").unwrap_or(default.folded);
    }

    fn write(&self, address: &mut Address) {
        let default = Choices::default();
        let name = |unit| name_of(&Unit::ALL, unit);
        address.put("unit", name(self.unit), name(default.unit));
        address.put("folded", &self.folded.join(","), &default.folded.join(","));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::there_and_back;

    #[test]
    fn a_link_reproduces_unit_and_folded_rows() {
        let choices = Choices {
            unit: Unit::PerEntry,
            folded: vec!["rx_softirq".to_owned(), "network".to_owned()],
        };
        assert_eq!(there_and_back(&choices).0, choices);
        assert_eq!(there_and_back(&Choices::default()).1, "");
    }

    #[test]
    fn a_table_with_nothing_folded_stays_so() {
        let mut unfolded = Choices::default();
        for slug in Choices::default().folded {
            unfolded.toggle_fold(&slug);
        }
        assert_eq!(there_and_back(&unfolded).0.folded, Vec::<String>::new());
    }

    #[test]
    fn nonsense_in_an_address_is_ignored() {
        let mut choices = Choices::default();
        choices.read(&Pairs::of("#unit=miles&folded=<b>"));
        assert_eq!(choices.unit, Unit::Time);
        assert!(choices.folded.is_empty());
    }
}
