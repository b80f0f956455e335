//! The cost by work that is drawn over time. Pure.

use super::unit_cost::Ratio;
use crate::state::{Address, Keys, Pairs};

/// The choices.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Choices {
    /// The selected cost.
    pub ratio: Ratio,
}

impl Keys for Choices {
    fn read(&mut self, pairs: &Pairs) {
        self.ratio = pairs
            .slug("each")
            .and_then(Ratio::named)
            .unwrap_or_default();
    }

    fn write(&self, address: &mut Address) {
        address.put("each", self.ratio.slug(), Ratio::default().slug());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::there_and_back;

    #[test]
    fn a_link_reproduces_what_is_drawn() {
        for ratio in Ratio::ALL {
            let choices = Choices { ratio };
            assert_eq!(there_and_back(&choices).0, choices);
        }
        assert_eq!(there_and_back(&Choices::default()).1, "");
    }
}
