//! The flows that an owner's CPU time was for, as samples show it: the largest of each owner.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::Owners;
use crate::sections::FlowEnd;
use crate::sort::sort_by_key;

/// Most flows of one owner in an interval or a sum.
pub const MOST_FLOWS_OF_OWNER: usize = 5;

/// CPU time that an owner caused for one flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerFlow {
    /// Index in [`Owners::owners`].
    pub owner: u32,
    /// Protocol in the IP header.
    pub protocol: u8,
    /// Both ends, in no particular order.
    pub ends: [FlowEnd; 2],
    /// What its packets and sends took on all CPUs, nanoseconds.
    pub ns: u64,
}

impl OwnerFlow {
    fn is_same(&self, other: &OwnerFlow) -> bool {
        (self.owner, self.protocol, self.ends) == (other.owner, other.protocol, other.ends)
    }
}

impl Owners {
    /// The flows of an owner, the largest first.
    pub fn flows_of(&self, owner: usize) -> impl Iterator<Item = &OwnerFlow> {
        self.flows
            .iter()
            .filter(move |flow| flow.owner as usize == owner)
    }

    /// Adds the time of a flow.
    pub fn add_flow(&mut self, more: OwnerFlow) {
        match self.flows.iter_mut().find(|flow| flow.is_same(&more)) {
            Some(flow) => flow.ns = flow.ns.saturating_add(more.ns),
            None => self.flows.push(more),
        }
    }

    /// Keeps the largest of each owner.
    pub fn keep_largest_flows(&mut self) {
        sort_by_key(&mut self.flows, |flow| {
            (flow.owner, Reverse(flow.ns), flow.protocol, flow.ends)
        });
        let mut before = (u32::MAX, 0);
        self.flows.retain(|flow| {
            before = match before {
                (owner, number) if owner == flow.owner => (owner, number + 1),
                _ => (flow.owner, 1),
            };
            before.1 <= MOST_FLOWS_OF_OWNER
        });
    }
}
