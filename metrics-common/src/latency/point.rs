//! The table of points. Everything else about a point derives from its row.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::named;

named! {
    /// A point on a packet's way at which its latency is measured, in the order of that way; those not
    /// measured from the packet's arrival are last.
    #[derive(PartialOrd, Ord)]
    #[cfg_attr(
        feature = "schema",
        derive(schemars::JsonSchema),
        schemars(with = "String", extend("enum" = Point::ALL.map(Point::slug)))
    )]
    Point:
    IpStart "ip-start" "IP"
        "From a packet's arrival until IP begins with it.";
    TcpStart "tcp-start" "TCP"
        "From a packet's arrival until TCP begins with it.";
    UdpStart "udp-start" "UDP"
        "From a packet's arrival until UDP begins with it.";
    TcpSocketEnqueued "tcp-socket-enqueued" "TCP socket"
        "From a segment's arrival until it is in its socket's receive queue.";
    UdpSocketEnqueued "udp-socket-enqueued" "UDP socket"
        "From a datagram's arrival until it is in its socket's receive queue.";
    TcpSocketRead "tcp-socket-read" "TCP read"
        "From a segment's arrival until the application has read it.";
    UdpSocketRead "udp-socket-read" "UDP read"
        "From a datagram's arrival until the application has read it.";
    DriverToIp "driver-to-ip" "Driver to IP"
        "From the driver's poll until IP begins: how long GRO keeps packets back.";
    Qdisc "qdisc" "Queueing discipline"
        "How long a packet that is sent waits in the queueing discipline.";
    TcpReadWait "tcp-read-wait" "TCP wait for the reader"
        "From a segment's arrival in its socket's queue until it is read: the application, not the stack.";
    UdpReadWait "udp-read-wait" "UDP wait for the reader"
        "From a datagram's arrival in its socket's queue until it is read: the application, not the stack.";
    RxSoftirqWait "rx-softirq-wait" "Wait for the RX softirq"
        "From raising a CPU's NET_RX softirq, while none is pending, until it begins.";
    TxSoftirqWait "tx-softirq-wait" "Wait for the TX softirq"
        "From raising a CPU's NET_TX softirq, while none is pending, until it begins.";
}

impl Point {
    /// The point of this name for machines.
    pub fn of_slug(slug: &str) -> Option<Point> {
        let mut all = Point::ALL.into_iter();
        all.find(|point| point.slug() == slug)
    }

    /// Its name in netstacklat; `None` if netstacklat has no such point.
    pub fn netstacklat(self) -> Option<&'static str> {
        (self <= Point::UdpSocketRead).then(|| self.slug())
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
