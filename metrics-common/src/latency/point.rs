//! The table of points. Everything else about a point derives from its row.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! points {
    ($($variant:ident $slug:literal $label:literal $netstacklat:expr, $help:literal,)*) => {
        /// A point on a packet's way at which its latency is measured.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Point {
            $(#[doc = $help] $variant,)*
        }

        impl Point {
            /// All points in the order of a packet's way; those not measured from the packet's
            /// arrival are last.
            pub const ALL: &'static [Point] = &[$(Point::$variant,)*];

            /// Stable name for machines.
            pub fn slug(self) -> &'static str {
                match self { $(Point::$variant => $slug,)* }
            }

            /// Name for people.
            pub fn label(self) -> &'static str {
                match self { $(Point::$variant => $label,)* }
            }

            /// One sentence of explanation.
            pub fn help(self) -> &'static str {
                match self { $(Point::$variant => $help,)* }
            }

            /// Its name in netstacklat; `None` if netstacklat has no such point.
            pub fn netstacklat(self) -> Option<&'static str> {
                match self { $(Point::$variant => $netstacklat,)* }
            }
        }
    };
}

points! {
    IpStart "ip-start" "IP" Some("ip-start"),
        "From a packet's arrival until IP begins with it.",
    TcpStart "tcp-start" "TCP" Some("tcp-start"),
        "From a packet's arrival until TCP begins with it.",
    UdpStart "udp-start" "UDP" Some("udp-start"),
        "From a packet's arrival until UDP begins with it.",
    TcpSocketEnqueued "tcp-socket-enqueued" "TCP socket" Some("tcp-socket-enqueued"),
        "From a segment's arrival until it is in its socket's receive queue.",
    UdpSocketEnqueued "udp-socket-enqueued" "UDP socket" Some("udp-socket-enqueued"),
        "From a datagram's arrival until it is in its socket's receive queue.",
    TcpSocketRead "tcp-socket-read" "TCP read" Some("tcp-socket-read"),
        "From a segment's arrival until the application has read it.",
    UdpSocketRead "udp-socket-read" "UDP read" Some("udp-socket-read"),
        "From a datagram's arrival until the application has read it.",
    DriverToIp "driver-to-ip" "Driver to IP" None,
        "From the driver's poll until IP begins: how long GRO keeps packets back.",
    Qdisc "qdisc" "Queueing discipline" None,
        "How long a packet that is sent waits in the queueing discipline.",
    TcpReadWait "tcp-read-wait" "TCP wait for the reader" None,
        "From a segment's arrival in its socket's queue until it is read: the application, not the stack.",
    UdpReadWait "udp-read-wait" "UDP wait for the reader" None,
        "From a datagram's arrival in its socket's queue until it is read: the application, not the stack.",
}

impl Point {
    /// The point of this name for machines.
    pub fn of_slug(slug: &str) -> Option<Point> {
        let mut all = Point::ALL.iter().copied();
        all.find(|point| point.slug() == slug)
    }

    /// Its index in [`Point::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.slug())
    }
}

impl Serialize for Point {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.slug())
    }
}

impl<'de> Deserialize<'de> for Point {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let slug = String::deserialize(deserializer)?;
        Point::of_slug(&slug).ok_or_else(|| serde::de::Error::custom("no such point of latency"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_found_by_its_name_and_stands_at_its_place() {
        for (index, point) in Point::ALL.iter().enumerate() {
            assert_eq!(Point::of_slug(point.slug()), Some(*point));
            assert_eq!(point.index(), index);
            assert!(point.help().ends_with('.'), "{point}");
        }
    }
}
