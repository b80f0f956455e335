//! The reader's choices for latency. Pure.

use metrics_common::latency::Point;

use crate::state::{Address, Keys, Pairs, name_of, named};

/// The grouping of figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grouping {
    /// No groups.
    #[default]
    None,
    /// By the receiving interface.
    Interface,
    /// By the owner of their socket.
    Owner,
}

impl Grouping {
    /// Every grouping, by its name.
    pub const ALL: [(Grouping, &'static str); 3] = [
        (Grouping::None, "none"),
        (Grouping::Interface, "interface"),
        (Grouping::Owner, "owner"),
    ];
}

/// The choices.
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    /// The point that is shown over time.
    pub point: Point,
    /// The grouping of figures.
    pub grouping: Grouping,
}

impl Default for Choices {
    fn default() -> Self {
        Choices {
            point: Point::TcpSocketRead,
            grouping: Grouping::None,
        }
    }
}

impl Keys for Choices {
    fn read(&mut self, pairs: &Pairs) {
        let default = Choices::default();
        let point = pairs.get("latency-of").and_then(Point::of_slug);
        self.point = point.unwrap_or(default.point);
        let grouping = pairs.get("latency-by");
        let grouping = grouping.and_then(|name| named(&Grouping::ALL, name));
        self.grouping = grouping.unwrap_or_default();
    }

    fn write(&self, address: &mut Address) {
        let default = Choices::default();
        address.put("latency-of", self.point.slug(), default.point.slug());
        let name = |grouping| name_of(&Grouping::ALL, grouping);
        address.put("latency-by", name(self.grouping), name(default.grouping));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::there_and_back;

    #[test]
    fn a_link_reproduces_the_point_and_the_grouping() {
        let choices = Choices {
            point: Point::Qdisc,
            grouping: Grouping::Owner,
        };
        assert_eq!(there_and_back(&choices).0, choices);
        assert_eq!(there_and_back(&Choices::default()).1, "");
    }
}
