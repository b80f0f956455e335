//! A request for latencies: points, sampling, filters, groups.

use metrics_common::latency::Point;

/// The grouping of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grouping {
    /// No groups.
    #[default]
    None,
    /// The receiving interface.
    Interface,
    /// The control group of their socket.
    Owner,
}

/// A validated request, except for names that only the kernel knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The points, in the order of [`Point::ALL`].
    pub points: Vec<Point>,
    /// One packet in this many is measured.
    pub one_in: u64,
    /// Whether segments that waited for an earlier one are counted.
    pub includes_hol: bool,
    /// Names or numbers of interfaces. An empty filter accepts all packets; so do the following.
    pub interfaces: Vec<String>,
    /// Names, paths or inode numbers of network namespaces.
    pub netns: Vec<String>,
    /// Paths or numbers of control groups.
    pub cgroups: Vec<String>,
    /// Processes.
    pub pids: Vec<u32>,
    /// Ports, local or remote.
    pub ports: Vec<u16>,
    /// Least number of packets in a socket's queue.
    pub min_queue: u32,
    /// The grouping of packets.
    pub grouping: Grouping,
}

impl Default for Request {
    fn default() -> Self {
        Request {
            points: Point::ALL.to_vec(),
            one_in: 1,
            includes_hol: false,
            interfaces: Vec::new(),
            netns: Vec::new(),
            cgroups: Vec::new(),
            pids: Vec::new(),
            ports: Vec::new(),
            min_queue: 0,
            grouping: Grouping::None,
        }
    }
}

/// The points of these names.
///
/// # Errors
/// An unknown name, in words that follow the option's name.
pub fn points(names: &[String]) -> Result<Vec<Point>, String> {
    let names = names.iter().map(|name| name.trim());
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    if let Some(name) = names.iter().find(|name| Point::of_slug(name).is_none()) {
        let all: Vec<&str> = Point::ALL.iter().map(|point| point.slug()).collect();
        return Err(format!(
            "knows no point \"{name}\", only {}",
            all.join(", ")
        ));
    }
    let is_asked_for = |point: &Point| names.is_empty() || names.contains(&point.slug());
    Ok(Point::ALL.iter().copied().filter(is_asked_for).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_named_in_any_order_and_no_name_is_all() {
        let names = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let found = points(&names("tcp-socket-read, ip-start")).unwrap();
        assert_eq!(found, [Point::IpStart, Point::TcpSocketRead]);
        assert_eq!(points(&[]).unwrap(), Point::ALL);
        let refusal = points(&names("ip-end")).unwrap_err();
        assert!(refusal.starts_with("knows no point \"ip-end\", only ip-start, "));
    }
}
