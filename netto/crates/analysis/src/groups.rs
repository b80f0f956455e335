//! Probes that come and go together, because one means nothing without the others. Pure.

use metrics_common::Source;

/// What a group of probes times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Softirqs, and the interrupts of network devices that raise them.
    Softirqs,
    /// Sends on Internet and packet sockets.
    Sends,
    /// Receives on them.
    Receives,
    /// Socket calls that never leave the host.
    LocalIpc,
    /// Context switches: without them no call can be timed that sleeps.
    Switches,
    /// Sockets and packets that softirqs meet, by which their work has an owner.
    Owners,
}

/// How many groups there are.
pub const GROUPS: usize = Group::ALL.len();

impl Group {
    /// All of them, in the order of their numbers.
    pub const ALL: [Group; 6] = [
        Group::Softirqs,
        Group::Sends,
        Group::Receives,
        Group::LocalIpc,
        Group::Switches,
        Group::Owners,
    ];

    /// Those that time socket calls, and which.
    pub const CALLS: [(Group, Source); 3] = [
        (Group::Sends, Source::SocketSend),
        (Group::Receives, Source::SocketReceive),
        (Group::LocalIpc, Source::LocalIpc),
    ];

    /// The probes without which a source is not timed.
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

    /// Whether the number of its events can be told by the time that they take.
    pub fn is_told_by_time(self) -> bool {
        self.is_of_sockets() || self == Group::Owners
    }

    /// Its name for people.
    pub fn label(self) -> &'static str {
        match self {
            Group::Softirqs => "softirqs",
            Group::Sends => "socket sends",
            Group::Receives => "socket receives",
            Group::LocalIpc => "local IPC",
            Group::Switches => "context switches",
            Group::Owners => "owners of softirqs",
        }
    }
}

/// A set of groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupSet(u8);

impl GroupSet {
    /// Every group.
    pub const ALL: GroupSet = GroupSet((1 << GROUPS) - 1);
    /// None.
    pub const NONE: GroupSet = GroupSet(0);

    /// Whether a group is in it.
    pub fn has(self, group: Group) -> bool {
        self.0 & 1 << group as u8 != 0
    }

    /// With this group, too.
    #[must_use]
    pub fn with(self, group: Group) -> GroupSet {
        GroupSet(self.0 | 1 << group as u8)
    }

    /// Without this group, and without those that mean nothing when it is gone.
    #[must_use]
    pub fn without(self, group: Group) -> GroupSet {
        let gone = Group::ALL
            .into_iter()
            .filter(|&other| other == group || group == Group::Switches && other.is_of_sockets());
        GroupSet(gone.fold(self.0, |set, group| set & !(1 << group as u8)))
    }

    /// Those of it that are not in another.
    #[must_use]
    pub fn minus(self, other: GroupSet) -> GroupSet {
        GroupSet(self.0 & !other.0)
    }

    /// Those of it that are in another, too.
    #[must_use]
    pub fn intersection(self, other: GroupSet) -> GroupSet {
        GroupSet(self.0 & other.0)
    }

    /// Its groups, in order.
    pub fn iter(self) -> impl Iterator<Item = Group> {
        Group::ALL.into_iter().filter(move |&group| self.has(group))
    }

    /// Whether there is none.
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
    fn without_context_switches_no_socket_call_is_timed() {
        let left = GroupSet::ALL.without(Group::Switches);
        assert_eq!(
            left.iter().collect::<Vec<_>>(),
            [Group::Softirqs, Group::Owners]
        );
    }

    #[test]
    fn a_group_goes_alone_and_comes_back() {
        for group in Group::ALL.into_iter().filter(|g| *g != Group::Switches) {
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
