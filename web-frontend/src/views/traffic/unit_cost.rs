//! Cost in relation to work over time: CPU time of each step divided by its work. Pure.

use metrics_common::Info;
use metrics_common::history::History;

use super::model::time;
use crate::basis::{Amount, Basis, THIS_HOST};
use crate::timeline::{self, Frame};

/// Least events per second for a meaningful figure.
const LEAST: f64 = 1.0;
/// Bytes per second below which the cost is that of an idle host.
const LEAST_BYTES: f64 = 125_000.0;
/// Bytes of a gigabit.
const GIGABIT_BYTES: f64 = 1.25e8;

/// A cost that can be drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ratio {
    /// RX softirq for each packet.
    #[default]
    Packet,
    /// Sends for each message.
    Send,
    /// Receives for each message.
    Receive,
    /// All networking for a gigabit over the wire.
    Wire,
    /// All networking for a gigabit of sockets.
    Sockets,
}

/// Numerator and denominator.
struct Sides {
    slug: &'static str,
    label: &'static str,
    /// Its description, for people.
    sentence: &'static str,
    component: &'static str,
    /// Indices among the series of `traffic`, to be summed.
    series: &'static [usize],
}

impl Ratio {
    /// All of them, in display order.
    pub const ALL: [Ratio; 5] = [
        Ratio::Packet,
        Ratio::Send,
        Ratio::Receive,
        Ratio::Wire,
        Ratio::Sockets,
    ];

    fn sides(self) -> Sides {
        match self {
            Ratio::Packet => Sides {
                slug: "packet",
                label: "RX softirq per packet",
                sentence: "RX softirq per packet, nanoseconds: CPU time of the softirq by packets that went up the stack.",
                component: "rx_softirq",
                series: &[0],
            },
            Ratio::Send => Sides {
                slug: "send",
                label: "Sends per message",
                sentence: "Sends per message, nanoseconds: CPU time of socket sends by messages that were sent.",
                component: "tx_syscall",
                series: &[3],
            },
            Ratio::Receive => Sides {
                slug: "receive",
                label: "Receives per message",
                sentence: "Receives per message, nanoseconds: CPU time of socket receives by messages that were received.",
                component: "rx_syscall",
                series: &[4],
            },
            Ratio::Wire => Sides {
                slug: "wire",
                label: "CPU per gigabit of the wire",
                sentence: "CPU per gigabit: CPU time of all networking by bits over the wire, in and out",
                component: "network",
                series: &[1, 2],
            },
            Ratio::Sockets => Sides {
                slug: "sockets",
                label: "CPU per gigabit of sockets",
                sentence: "CPU per gigabit of sockets: CPU time of all networking by bits that sockets sent and received",
                component: "network",
                series: &[5],
            },
        }
    }

    /// Its name in the page's address.
    pub fn slug(self) -> &'static str {
        self.sides().slug
    }

    /// The one with this name.
    pub fn named(slug: &str) -> Option<Ratio> {
        Ratio::ALL.into_iter().find(|ratio| ratio.slug() == slug)
    }

    /// Its name for people.
    pub fn label(self) -> &'static str {
        self.sides().label
    }

    /// Its description with the unit: that of the page, where it is CPU time per time.
    pub fn sentence(self, basis: Basis) -> String {
        let sentence = self.sides().sentence;
        if self.is_of_bytes() {
            format!(
                "{sentence}, in {} for each Gbit/s.",
                basis.phrase(THIS_HOST)
            )
        } else {
            sentence.to_owned()
        }
    }

    fn is_of_bytes(self) -> bool {
        matches!(self, Ratio::Wire | Ratio::Sockets)
    }

    /// A value with its unit.
    pub fn text(self, value: f64, basis: Basis) -> String {
        if self.is_of_bytes() {
            format!("{} per Gbit/s", basis.text(value))
        } else {
            time(value)
        }
    }

    /// The value in each step, in the unit of [`Ratio::sentence`]; `None` if one of the two sides
    /// is unknown, or there was almost no work.
    pub fn values(
        self,
        info: &Info,
        history: &History,
        frame: &Frame,
        basis: Basis,
    ) -> Vec<Option<f64>> {
        let sides = self.sides();
        let Some(component) = info.row_of(sides.component) else {
            return vec![None; frame.steps];
        };
        let cpus = timeline::means(history, frame, |point| {
            history.component_cpus(component, point)
        });
        let work = timeline::means(history, frame, |point| {
            let series = sides.series.iter();
            series
                .map(|place| history.series().value("traffic", *place, point))
                .sum()
        });
        let (least, scale) = if self.is_of_bytes() {
            let host_cpus = history.cpus().len().max(1);
            let one_cpu = Amount::of_share(1.0 / host_cpus as f64, host_cpus);
            (LEAST_BYTES, basis.value(one_cpu) * GIGABIT_BYTES)
        } else {
            (LEAST, 1e9)
        };
        let divide = |(cpus, work): (Option<f64>, Option<f64>)| {
            let work = work.filter(|work| *work >= least)?;
            Some(cpus? * scale / work)
        };
        cpus.into_iter().zip(work).map(divide).collect()
    }
}

#[cfg(test)]
mod tests {
    use metrics_common::sections::{Sections, Work};

    use super::*;
    use crate::fixture::{self, FRAME};
    use crate::views::traffic::model::tests::measured;

    /// Half seconds with these numbers of packets; the last one is not measured.
    fn history() -> History {
        let mut history = History::new(&fixture::info());
        for (number, packets) in [(1, 50_000), (2, 150_000), (3, 0), (4, 50_000)] {
            let mut snapshot = measured();
            snapshot.sequence = number;
            snapshot.time_unix_ns = number * 500 * fixture::MS;
            let traffic = snapshot.sections.traffic.as_mut().unwrap();
            traffic.softnet = vec![Some(vec![packets, 0])];
            traffic.work = Some(Work {
                counted_ns: snapshot.interval_ns,
                estimated: None,
                counts: [0, 0, 0, 125_000_000, 0, 0].map(Some).to_vec(),
            });
            if number == 4 {
                snapshot.sections = Sections::default();
            }
            history.push(&snapshot);
        }
        history
    }

    #[test]
    fn a_step_is_all_of_its_time_by_all_of_its_packets_and_none_is_no_figure() {
        // Two tenths of a second for 200,000 packets, then one without packets.
        let values = Ratio::Packet.values(&fixture::info(), &history(), &FRAME, Basis::Host);
        assert!((values[0].unwrap() - 1_000.0).abs() < 1.0, "{values:?}");
        assert_eq!(values[1..], [None, None]);
    }

    #[test]
    fn a_gigabit_is_what_sockets_sent_and_received_together() {
        let (info, history) = (fixture::info(), history());
        let values = Ratio::Sockets.values(&info, &history, &FRAME, Basis::Milliseconds);
        let network = info.row_of("network").unwrap();
        let cpus = history.component_cpus(network, 0).unwrap();
        // Two gigabits per second.
        assert!(
            (values[0].unwrap() - cpus * 1e3 / 2.0).abs() < 1.0,
            "{values:?}, {cpus} CPUs"
        );
        let host = Ratio::Sockets.values(&info, &history, &FRAME, Basis::Host);
        assert!(
            (host[0].unwrap() - cpus * 50.0 / 2.0).abs() < 0.1,
            "{host:?}"
        );
        for none in [Ratio::Wire, Ratio::Send] {
            assert_eq!(none.values(&info, &history, &FRAME, Basis::Host), [None; 3]);
        }
        let text = Ratio::Sockets.text(123.4, Basis::Milliseconds);
        assert_eq!(text, "123.4 ms/s per Gbit/s");
        let sentence = Ratio::Wire.sentence(Basis::Cpus);
        assert!(sentence.ends_with("in CPUs' worth of time for each Gbit/s."));
    }
}
