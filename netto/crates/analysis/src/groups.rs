//! Groups of probes that are attached and detached together. Pure.

use metrics_common::Source;

/// A group of probes: one of the clock's, or one that a feature has registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Softirqs, and the interrupts of network devices that raise them.
    Softirqs,
    /// Context switches: without them, calls that sleep cannot be timed. Attached before those.
    Switches,
    /// Sends on Internet and packet sockets.
    Sends,
    /// Receives on them.
    Receives,
    /// Socket calls that never leave the host.
    LocalIpc,
    /// A feature's group, by its number, which is below [`MOST_REGISTERED`].
    Registered(u8),
}

/// Most groups that features can register at the same time.
pub const MOST_REGISTERED: u8 = 11;
/// Most groups.
pub const GROUPS: usize = Group::CLOCK.len() + MOST_REGISTERED as usize;

impl Group {
    /// The clock's groups, in the order of their numbers.
    pub const CLOCK: [Group; 5] = [
        Group::Softirqs,
        Group::Switches,
        Group::Sends,
        Group::Receives,
        Group::LocalIpc,
    ];

    /// The groups that time socket calls, with their sources.
    pub const CALLS: [(Group, Source); 3] = [
        (Group::Sends, Source::SocketSend),
        (Group::Receives, Source::SocketReceive),
        (Group::LocalIpc, Source::LocalIpc),
    ];

    /// All possible groups, in the order of their numbers.
    fn all() -> impl Iterator<Item = Group> {
        let registered = (0..MOST_REGISTERED).map(Group::Registered);
        Group::CLOCK.into_iter().chain(registered)
    }

    /// Its number, below [`GROUPS`].
    pub fn index(self) -> usize {
        match self {
            Group::Softirqs => 0,
            Group::Switches => 1,
            Group::Sends => 2,
            Group::Receives => 3,
            Group::LocalIpc => 4,
            Group::Registered(number) => Group::CLOCK.len() + usize::from(number),
        }
    }

    /// The group that times a source.
    pub fn of(source: Source) -> Group {
        match source {
            Source::Softirq(_) | Source::NicInterrupt => Group::Softirqs,
            Source::SocketSend => Group::Sends,
            Source::SocketReceive => Group::Receives,
            Source::LocalIpc => Group::LocalIpc,
            Source::IoWorker => Group::Switches,
        }
    }

    /// Whether it times socket calls.
    pub fn is_of_sockets(self) -> bool {
        matches!(self, Group::Sends | Group::Receives | Group::LocalIpc)
    }

    /// Whether a feature has registered it.
    pub fn is_registered(self) -> bool {
        matches!(self, Group::Registered(_))
    }

    /// Whether the number of its events can be estimated from their time.
    pub fn is_told_by_time(self) -> bool {
        self.is_of_sockets() || self.is_registered()
    }
}

/// A set of groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupSet(u16);

impl GroupSet {
    /// All possible groups.
    pub const ALL: GroupSet = GroupSet(u16::MAX);
    /// No group.
    pub const NONE: GroupSet = GroupSet(0);

    /// Whether a group is in it.
    pub fn has(self, group: Group) -> bool {
        self.0 & 1 << group.index() != 0
    }

    /// The set with this group added.
    #[must_use]
    pub fn with(self, group: Group) -> GroupSet {
        GroupSet(self.0 | 1 << group.index())
    }

    /// The set without this group and the groups that need it.
    #[must_use]
    pub fn without(self, group: Group) -> GroupSet {
        let gone = Group::all()
            .filter(|&other| other == group || group == Group::Switches && other.is_of_sockets());
        GroupSet(gone.fold(self.0, |set, group| set & !(1 << group.index())))
    }

    /// The difference of two sets.
    #[must_use]
    pub fn minus(self, other: GroupSet) -> GroupSet {
        GroupSet(self.0 & !other.0)
    }

    /// The union of two sets.
    #[must_use]
    pub fn union(self, other: GroupSet) -> GroupSet {
        GroupSet(self.0 | other.0)
    }

    /// The intersection of two sets.
    #[must_use]
    pub fn intersection(self, other: GroupSet) -> GroupSet {
        GroupSet(self.0 & other.0)
    }

    /// The groups, in order.
    pub fn iter(self) -> impl Iterator<Item = Group> {
        Group::all().filter(move |&group| self.has(group))
    }

    /// Whether it has no groups.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Group> for GroupSet {
    fn from_iter<T: IntoIterator<Item = Group>>(groups: T) -> Self {
        groups.into_iter().fold(GroupSet::NONE, GroupSet::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_has_a_number_and_a_bit_of_its_own() {
        let numbers: Vec<usize> = GroupSet::ALL.iter().map(Group::index).collect();
        assert_eq!(numbers, (0..GROUPS).collect::<Vec<_>>());
        assert_eq!(GroupSet::ALL.iter().collect::<GroupSet>(), GroupSet::ALL);
    }

    #[test]
    fn without_context_switches_no_socket_call_is_timed() {
        let all: GroupSet = Group::CLOCK.into_iter().collect();
        let all = all.with(Group::Registered(3));
        let left = all.without(Group::Switches);
        assert_eq!(
            left.iter().collect::<Vec<_>>(),
            [Group::Softirqs, Group::Registered(3)]
        );
    }

    #[test]
    fn a_group_goes_alone_and_comes_back() {
        for group in Group::all().filter(|g| *g != Group::Switches) {
            let left = GroupSet::ALL.without(group);
            assert!(!left.has(group) && left.iter().count() == GROUPS - 1);
            assert_eq!(left.with(group), GroupSet::ALL);
            assert_eq!(
                GroupSet::ALL.minus(left).iter().collect::<Vec<_>>(),
                [group]
            );
        }
    }
}
