//! The host's interfaces: counts, their sums, and their encoding.

use serde::{Deserialize, Serialize};

use crate::packed::{self, Damaged, Packed};

/// Most interfaces named in a snapshot; the others are summed.
pub const MOST_INTERFACES: usize = 64;
/// Most names in a sum of snapshots: interfaces of containers come and go.
pub(super) const MOST_NAMES: usize = 256;

/// An interface's counts in the interval, from the kernel (`struct rtnl_link_stats64`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceCounts {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received, of whole frames without their checksum.
    pub rx_bytes: u64,
    /// Received packets with errors.
    pub rx_errors: u64,
    /// Received packets dropped for lack of memory, or without a receiver.
    pub rx_dropped: u64,
    /// Packets that the device missed for lack of buffers.
    pub rx_missed: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets out that could not be sent.
    pub tx_errors: u64,
    /// Packets dropped for lack of room before sending.
    pub tx_dropped: u64,
}

impl InterfaceCounts {
    /// Its fields' names, in the order of [`InterfaceCounts::values`].
    pub const NAMES: [&'static str; 9] = [
        "rx_packets",
        "rx_bytes",
        "rx_errors",
        "rx_dropped",
        "rx_missed",
        "tx_packets",
        "tx_bytes",
        "tx_errors",
        "tx_dropped",
    ];

    /// Its fields, in order.
    pub fn values(&self) -> [u64; 9] {
        [
            self.rx_packets,
            self.rx_bytes,
            self.rx_errors,
            self.rx_dropped,
            self.rx_missed,
            self.tx_packets,
            self.tx_bytes,
            self.tx_errors,
            self.tx_dropped,
        ]
    }

    /// The inverse of [`InterfaceCounts::values`].
    pub fn from_values(values: [u64; 9]) -> Self {
        let [
            rx_packets,
            rx_bytes,
            rx_errors,
            rx_dropped,
            rx_missed,
            tx_packets,
            tx_bytes,
            tx_errors,
            tx_dropped,
        ] = values;
        InterfaceCounts {
            rx_packets,
            rx_bytes,
            rx_errors,
            rx_dropped,
            rx_missed,
            tx_packets,
            tx_bytes,
            tx_errors,
            tx_dropped,
        }
    }

    /// Both together.
    pub fn plus(&self, more: &InterfaceCounts) -> InterfaceCounts {
        let mut values = self.values();
        for (value, more) in values.iter_mut().zip(more.values()) {
            *value = value.saturating_add(more);
        }
        InterfaceCounts::from_values(values)
    }

    /// The increase since `before`; `None` if a count has decreased, as after a reset.
    pub fn since(&self, before: &InterfaceCounts) -> Option<InterfaceCounts> {
        let mut values = self.values();
        for (value, before) in values.iter_mut().zip(before.values()) {
            *value = value.checked_sub(before)?;
        }
        Some(InterfaceCounts::from_values(values))
    }

    /// Packets in both directions.
    pub fn packets(&self) -> u64 {
        self.rx_packets.saturating_add(self.tx_packets)
    }
}

/// The driver name used for loopback interfaces.
pub const LOOPBACK: &str = "loopback";

/// An interface of the host's own network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interface {
    /// Its name; bytes that are not UTF-8 are escaped as `\xNN`.
    pub name: String,
    /// The device's driver (`virtio_net`), the kind of virtual device (`veth`, `bridge`), or
    /// `loopback`; empty if unknown.
    pub driver: String,
    /// Whether there is hardware (or a hypervisor's) behind it.
    pub is_hardware: bool,
    /// Number of receive queues.
    pub rx_queues: u32,
    /// Number of transmit queues.
    pub tx_queues: u32,
    /// Its counts.
    #[serde(flatten)]
    pub counts: InterfaceCounts,
}

/// All interfaces of the host's own network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interfaces {
    /// Those with the most packets so far, 64 at most.
    pub named: Vec<Interface>,
    /// Number of other interfaces.
    pub others: u32,
    /// Sum of the other interfaces' counts.
    pub other: InterfaceCounts,
}

impl Interfaces {
    /// Traffic over the wire: of hardware interfaces, or, if there are none, of all except
    /// loopback. Other interfaces count the same packets again.
    pub fn wire(&self) -> InterfaceCounts {
        let has_hardware = self.named.iter().any(|interface| interface.is_hardware);
        let counts = |interface: &&Interface| {
            if has_hardware {
                interface.is_hardware
            } else {
                interface.driver != LOOPBACK
            }
        };
        let named = self.named.iter().filter(counts);
        let sum = named.fold(InterfaceCounts::default(), |sum, interface| {
            sum.plus(&interface.counts)
        });
        if has_hardware {
            sum
        } else {
            sum.plus(&self.other)
        }
    }

    pub(super) fn add(&mut self, later: &Interfaces) {
        let Interfaces {
            named,
            others,
            other,
        } = self;
        *others = later.others;
        *other = other.plus(&later.other);
        for more in &later.named {
            let has_room = named.len() < MOST_NAMES;
            match named
                .iter_mut()
                .find(|interface| interface.name == more.name)
            {
                Some(interface) => {
                    let Interface {
                        name: _,
                        driver,
                        is_hardware,
                        rx_queues,
                        tx_queues,
                        counts,
                    } = more;
                    interface.driver.clone_from(driver);
                    interface.is_hardware = *is_hardware;
                    (interface.rx_queues, interface.tx_queues) = (*rx_queues, *tx_queues);
                    interface.counts = interface.counts.plus(counts);
                }
                None if has_room => named.push(more.clone()),
                None => *other = other.plus(&more.counts),
            }
        }
    }
}

/// [`Interfaces`] on the wire.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct InterfacesWire {
    names: Vec<String>,
    drivers: Vec<String>,
    /// Rows: whether it is hardware, receive queues, transmit queues, then
    /// [`InterfaceCounts::values`]; a last column for the others, with their number as queues.
    table: Packed,
}

/// Rows before the counts.
const HEAD_ROWS: usize = 3;

impl InterfacesWire {
    pub(super) fn of(interfaces: &Interfaces) -> Self {
        let columns = interfaces.named.len() + 1;
        let mut rows = vec![vec![0; columns]; HEAD_ROWS + InterfaceCounts::NAMES.len()];
        let mut put = |column: usize, head: [u64; HEAD_ROWS], counts: &InterfaceCounts| {
            let values = head.into_iter().chain(counts.values());
            for (row, value) in rows.iter_mut().zip(values) {
                row[column] = value;
            }
        };
        for (column, interface) in interfaces.named.iter().enumerate() {
            let (rx, tx) = (interface.rx_queues.into(), interface.tx_queues.into());
            let head = [interface.is_hardware.into(), rx, tx];
            put(column, head, &interface.counts);
        }
        let others = [0, interfaces.others.into(), 0];
        put(columns - 1, others, &interfaces.other);
        InterfacesWire {
            names: interfaces
                .named
                .iter()
                .map(|interface| interface.name.clone())
                .collect(),
            drivers: interfaces
                .named
                .iter()
                .map(|interface| interface.driver.clone())
                .collect(),
            table: packed::pack(rows.iter().map(|row| Some(row.as_slice()))),
        }
    }

    pub(super) fn into_interfaces(self) -> Result<Interfaces, Damaged> {
        let columns = self.names.len();
        if columns > MOST_NAMES || self.drivers.len() != columns {
            return Err(Damaged);
        }
        let rows = packed::unpack(&self.table, columns + 1)?;
        let rows: Vec<Vec<u64>> = rows.into_iter().collect::<Option<_>>().ok_or(Damaged)?;
        // A newer netto may have more rows.
        let (head, counts) = rows.split_at_checked(HEAD_ROWS).ok_or(Damaged)?;
        let [is_hardware, rx_queues, tx_queues] = head else {
            return Err(Damaged);
        };
        let counts = counts.get(..InterfaceCounts::NAMES.len()).ok_or(Damaged)?;
        let counts_of = |column: usize| {
            let mut values = [0; InterfaceCounts::NAMES.len()];
            for (value, row) in values.iter_mut().zip(counts) {
                *value = row[column];
            }
            InterfaceCounts::from_values(values)
        };
        let number = |value: u64| u32::try_from(value).map_err(|_| Damaged);
        let names = self.names.into_iter().zip(self.drivers).enumerate();
        let named = names.map(|(column, (name, driver))| {
            Ok(Interface {
                name,
                driver,
                is_hardware: is_hardware[column] != 0,
                rx_queues: number(rx_queues[column])?,
                tx_queues: number(tx_queues[column])?,
                counts: counts_of(column),
            })
        });
        Ok(Interfaces {
            named: named.collect::<Result<_, _>>()?,
            others: number(rx_queues[columns])?,
            other: counts_of(columns),
        })
    }
}
