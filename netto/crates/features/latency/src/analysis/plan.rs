//! Chooses the programs that measure each point, by the hooks that a kernel has and allows.

use std::collections::BTreeSet;

use metrics_common::latency::Point;

use crate::request::Request;

/// The kind of a program's hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// fentry or fexit on the function.
    Function,
    /// The tracepoint.
    Tracepoint,
    /// Sockets of the root control group, on arrival of a packet.
    Cgroup,
}

/// The properties of a packet known at a point, which filters can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KnownFields {
    /// None: there is no packet.
    Nothing,
    /// Its device.
    Device,
    /// Its device and its socket.
    Socket,
    /// Its device, its socket and its reader.
    Reader,
}

/// A program of `latency.bpf.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its name in that file.
    pub name: &'static str,
    /// Its function or tracepoint.
    pub hook: &'static str,
    /// The kind of hook.
    pub by: Attachment,
}

const fn function(name: &'static str, hook: &'static str) -> Program {
    let by = Attachment::Function;
    Program { name, hook, by }
}

const fn tracepoint(name: &'static str, hook: &'static str) -> Program {
    let by = Attachment::Tracepoint;
    Program { name, hook, by }
}

const IP: [Program; 2] = [
    function("netto_ip_v4", "ip_rcv_core"),
    function("netto_ip_v6", "ip6_rcv_core"),
];
const TCP: [Program; 2] = [
    function("netto_tcp_v4", "tcp_v4_rcv"),
    function("netto_tcp_v6", "tcp_v6_rcv"),
];
const UDP: [Program; 2] = [
    function("netto_udp_v4", "udp_rcv"),
    function("netto_udp_v6", "udpv6_rcv"),
];
const TCP_ENQUEUED: Program = function("netto_tcp_enqueued", "tcp_queue_rcv");
const UDP_ENQUEUED: [Program; 2] = [
    function("netto_udp_enqueued", "__udp_enqueue_schedule_skb"),
    function("netto_udp_enqueuing", "__udp_enqueue_schedule_skb"),
];
const TCP_READ: Program = function("netto_tcp_read", "tcp_recv_timestamp");
const UDP_READ: Program = function("netto_udp_read", "skb_consume_udp");

const IP_NEAR: Program = tracepoint("netto_ip_near", "netif_receive_skb");
const START_NEAR: Program = Program {
    name: "netto_start_near",
    hook: "cgroup_skb",
    by: Attachment::Cgroup,
};
const TCP_NEAR: Program = tracepoint("netto_tcp_near", "tcp_probe");
const READY: Program = tracepoint("netto_ready", "sk_data_ready");
const TCP_READ_NEAR: Program = tracepoint("netto_tcp_read_near", "skb_copy_datagram_iovec");
const UDP_READ_NEAR: Program = tracepoint("netto_udp_read_near", "sock_recv_length");

/// Where packets of this host arrive, whose stamps say when they departed.
const ARRIVALS: [Program; 3] = [
    tracepoint("netto_arrives", "netif_rx"),
    tracepoint("netto_arrives_at_once", "netif_receive_skb_entry"),
    GRO[0],
];
const GRO: [Program; 2] = [
    tracepoint("netto_gro", "napi_gro_receive_entry"),
    tracepoint("netto_gro_frags", "napi_gro_frags_entry"),
];
const QUEUED: Program = tracepoint("netto_queued", "qdisc_enqueue");
const UNQUEUED: Program = tracepoint("netto_unqueued", "qdisc_dequeue");

const RAISED: Program = tracepoint("netto_raised", "softirq_raise");
const ENTERED: Program = tracepoint("netto_entered", "softirq_entry");

/// All programs, in the order of attachment, the reverse of that of detachment: arrivals come first, and
/// softirqs are raised only while it is seen that they begin.
pub const PROGRAMS: [Program; 25] = [
    ARRIVALS[0],
    ARRIVALS[1],
    GRO[0],
    IP[0],
    IP[1],
    TCP[0],
    TCP[1],
    UDP[0],
    UDP[1],
    TCP_ENQUEUED,
    UDP_ENQUEUED[0],
    UDP_ENQUEUED[1],
    TCP_READ,
    UDP_READ,
    IP_NEAR,
    START_NEAR,
    TCP_NEAR,
    READY,
    TCP_READ_NEAR,
    UDP_READ_NEAR,
    GRO[1],
    QUEUED,
    UNQUEUED,
    ENTERED,
    RAISED,
];

/// A set of hooks; the best is tried first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Functions.
    Functions,
    /// Tracepoints, and sockets of control groups.
    Sockets,
    /// Tracepoints only.
    Tracepoints,
}

impl Means {
    /// In the order of preference.
    pub const ALL: [Means; 3] = [Means::Functions, Means::Sockets, Means::Tracepoints];

    /// Their cost, as measured by the root test `latency::what_it_costs`.
    pub fn price(self) -> Price {
        match self {
            Means::Functions => Price {
                run_ns: 120,
                pass_ns: 20,
            },
            // Sampling by packet may only be decided after a lookup of its socket.
            Means::Sockets | Means::Tracepoints => Price {
                run_ns: 160,
                pass_ns: 85,
            },
        }
    }
}

/// Cost of a packet at a point, nanoseconds, including the call of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Cost of a measured packet.
    pub run_ns: u64,
    /// Cost of a packet that is passed over.
    pub pass_ns: u64,
}

/// The programs to load, and the measured points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The hooks.
    pub means: Means,
    /// Programs.
    pub programs: Vec<Program>,
    /// Points, with how each is measured.
    pub points: Vec<(Point, String)>,
    /// Requested points that are not measured, with the reason.
    pub missing: Vec<(Point, String)>,
}

/// The requirements of a method for a point: at least one program of each group. `known`: the
/// properties of packets there.
struct Method {
    groups: Vec<Vec<Program>>,
    known: KnownFields,
}

/// Programs that improve accuracy: they tell when a packet arrived, where its stamp does not, and
/// which packet it is.
fn helpers(point: Point, means: Means) -> Vec<Program> {
    let is_tcp = matches!(
        point,
        Point::TcpStart | Point::TcpSocketEnqueued | Point::TcpSocketRead
    );
    let delivery = match (point, means) {
        (Point::DriverToIp | Point::Qdisc | Point::RxSoftirqWait | Point::TxSoftirqWait, _) => {
            return Vec::new();
        }
        (Point::TcpReadWait | Point::UdpReadWait, Means::Sockets) => return vec![START_NEAR],
        (Point::TcpReadWait | Point::UdpReadWait, _) => return Vec::new(),
        (Point::IpStart, _) => Vec::new(),
        (_, Means::Sockets) => vec![START_NEAR],
        (_, Means::Functions) if is_tcp => TCP.to_vec(),
        (_, Means::Functions) => UDP.to_vec(),
        (_, Means::Tracepoints) if is_tcp => vec![TCP_NEAR],
        (_, Means::Tracepoints) => Vec::new(),
    };
    [&ARRIVALS[..], &delivery].concat()
}

fn method(point: Point, means: Means) -> Option<Method> {
    let near = means != Means::Functions;
    let one = |program: Program| vec![program];
    let (groups, known) = match point {
        Point::IpStart if near => (vec![one(IP_NEAR)], KnownFields::Device),
        Point::IpStart => (vec![IP.to_vec()], KnownFields::Device),
        Point::TcpStart | Point::UdpStart if means == Means::Sockets => {
            (vec![one(START_NEAR)], KnownFields::Socket)
        }
        Point::TcpStart if near => (vec![one(TCP_NEAR)], KnownFields::Socket),
        Point::TcpStart => (vec![TCP.to_vec()], KnownFields::Device),
        Point::UdpStart if near => return None,
        Point::UdpStart => (vec![UDP.to_vec()], KnownFields::Device),
        Point::TcpSocketEnqueued | Point::UdpSocketEnqueued if near => {
            (vec![one(READY)], KnownFields::Socket)
        }
        Point::TcpSocketEnqueued => (vec![one(TCP_ENQUEUED)], KnownFields::Socket),
        Point::UdpSocketEnqueued => (vec![UDP_ENQUEUED.to_vec()], KnownFields::Socket),
        Point::TcpSocketRead if near => (vec![one(TCP_READ_NEAR)], KnownFields::Reader),
        Point::TcpSocketRead => (vec![one(TCP_READ)], KnownFields::Reader),
        Point::UdpSocketRead if near => (vec![one(READY), one(UDP_READ_NEAR)], KnownFields::Reader),
        Point::UdpSocketRead => (vec![one(UDP_READ)], KnownFields::Reader),
        Point::TcpReadWait | Point::UdpReadWait => {
            let (from, until) = match point {
                Point::TcpReadWait => (Point::TcpSocketEnqueued, Point::TcpSocketRead),
                _ => (Point::UdpSocketEnqueued, Point::UdpSocketRead),
            };
            let mut groups = method(from, means)?.groups;
            groups.extend(method(until, means)?.groups);
            (groups, KnownFields::Reader)
        }
        Point::DriverToIp => {
            let ip = if near { one(IP_NEAR) } else { IP.to_vec() };
            (vec![GRO.to_vec(), ip], KnownFields::Device)
        }
        Point::Qdisc => (vec![one(QUEUED), one(UNQUEUED)], KnownFields::Socket),
        Point::RxSoftirqWait | Point::TxSoftirqWait => {
            (vec![one(RAISED), one(ENTERED)], KnownFields::Nothing)
        }
    };
    Some(Method { groups, known })
}

/// The first filter that uses a property unknown at a point; `None` if all can be applied.
fn unknown(request: &Request, known: KnownFields) -> Option<&'static str> {
    let asked = [
        (
            !request.interfaces.is_empty() || !request.netns.is_empty(),
            KnownFields::Device,
            "device",
        ),
        (
            !request.cgroups.is_empty(),
            KnownFields::Socket,
            "control group",
        ),
        (!request.ports.is_empty(), KnownFields::Socket, "ports"),
        (request.min_queue > 0, KnownFields::Socket, "socket's queue"),
        (!request.pids.is_empty(), KnownFields::Reader, "reader"),
    ];
    let lacking = asked
        .iter()
        .find(|(is_asked, needs, _)| *is_asked && *needs > known);
    lacking.map(|(_, _, what)| *what)
}

impl Plan {
    /// A plan with these hooks, on a kernel that has these functions and tracepoints.
    pub fn new(request: &Request, means: Means, has: impl Fn(&Program) -> bool) -> Plan {
        let mut chosen = BTreeSet::new();
        let (mut points, mut missing) = (Vec::new(), Vec::new());
        for &point in &request.points {
            match one(request, point, means, &has) {
                Ok((programs, method)) => {
                    let helpers = helpers(point, means).into_iter().filter(&has);
                    chosen.extend(
                        programs
                            .into_iter()
                            .chain(helpers)
                            .map(|program| program.name),
                    );
                    points.push((point, method));
                }
                Err(reason) => missing.push((point, reason)),
            }
        }
        let programs = PROGRAMS.iter().copied();
        Plan {
            means,
            programs: programs
                .filter(|program| chosen.contains(program.name))
                .collect(),
            points,
            missing,
        }
    }

    /// The points as bits for the programs.
    pub fn mask(&self) -> u64 {
        let bits = self.points.iter().map(|(point, _)| 1 << point.index());
        bits.fold(0, |mask, bit: u64| mask | bit)
    }
}

/// How a kernel with these functions and tracepoints can measure a point: for each set of hooks in
/// order of preference, the hooks used, or why it is not possible.
pub fn ways(point: Point, has: impl Fn(&Program) -> bool) -> Vec<Result<String, String>> {
    let request = Request::default();
    let mut ways: Vec<Result<String, String>> = Vec::new();
    for means in Means::ALL {
        let way = one(&request, point, means, &has).map(|(programs, _)| {
            let mut hooks: Vec<&str> = programs.iter().map(|program| program.hook).collect();
            hooks.dedup();
            hooks.join(" ")
        });
        if ways.last() != Some(&way) {
            ways.push(way);
        }
    }
    ways
}

/// The programs of a point and its method, or why it is not measured.
fn one(
    request: &Request,
    point: Point,
    means: Means,
    has: impl Fn(&Program) -> bool,
) -> Result<(Vec<Program>, String), String> {
    let Some(way) = method(point, means) else {
        let reason = "this kernel refuses fentry, or netto programs at sockets of control groups, \
                      and has no tracepoint there";
        return Err(reason.to_owned());
    };
    if let Some(what) = unknown(request, way.known) {
        return Err(format!(
            "packets are filtered by their {what}, which is not known there"
        ));
    }
    let (mut programs, mut methods) = (Vec::new(), Vec::new());
    for group in &way.groups {
        let found: Vec<Program> = group
            .iter()
            .copied()
            .filter(|program| has(program))
            .collect();
        let Some(first) = found.first() else {
            return Err(format!("this kernel has no {} to hook", group[0].hook));
        };
        let method = match first.by {
            Attachment::Function => "fentry",
            Attachment::Tracepoint | Attachment::Cgroup => first.hook,
        };
        if !methods.contains(&method) {
            methods.push(method);
        }
        programs.extend(found);
    }
    Ok((programs, methods.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plan: &Plan) -> Vec<&str> {
        plan.programs.iter().map(|program| program.name).collect()
    }

    fn of(points: &[Point]) -> Request {
        Request {
            points: points.to_vec(),
            ..Request::default()
        }
    }

    #[test]
    fn functions_are_hooked_where_they_are() {
        let plan = Plan::new(&of(&[Point::IpStart]), Means::Functions, |_| true);
        let arrivals = ["netto_arrives", "netto_arrives_at_once", "netto_gro"];
        let with_arrivals = |others: &[&'static str]| [&arrivals, others].concat();
        assert_eq!(names(&plan), with_arrivals(&["netto_ip_v4", "netto_ip_v6"]));
        assert_eq!(plan.points, [(Point::IpStart, "fentry".to_owned())]);
        let without_v6 = |program: &Program| program.hook != "ip6_rcv_core";
        let plan = Plan::new(&of(&[Point::IpStart]), Means::Functions, without_v6);
        assert_eq!(names(&plan), with_arrivals(&["netto_ip_v4"]));
        let plan = Plan::new(&of(&[Point::IpStart]), Means::Functions, |_| false);
        assert_eq!(plan.points, []);
        assert_eq!(plan.missing[0].1, "this kernel has no ip_rcv_core to hook");
    }

    #[test]
    fn what_is_nearest_stands_in() {
        let request = of(&[Point::UdpStart, Point::UdpReadWait]);
        let plan = Plan::new(&request, Means::Sockets, |_| true);
        assert_eq!(
            names(&plan),
            [
                "netto_arrives",
                "netto_arrives_at_once",
                "netto_gro",
                "netto_start_near",
                "netto_ready",
                "netto_udp_read_near"
            ]
        );
        assert_eq!(plan.points[0].1, "cgroup_skb");
        assert_eq!(plan.points[1].1, "sk_data_ready, sock_recv_length");
        assert_eq!(plan.mask(), 1 << 2 | 1 << 10);
        let plan = Plan::new(&request, Means::Tracepoints, |_| true);
        assert_eq!(plan.missing[0].0, Point::UdpStart);
    }

    #[test]
    fn where_functions_cannot_be_hooked_none_is() {
        for means in [Means::Tracepoints, Means::Sockets] {
            let plan = Plan::new(&of(&Point::ALL), means, |_| true);
            let functions: Vec<&str> = (plan.programs.iter())
                .filter(|program| program.by == Attachment::Function)
                .map(|program| program.hook)
                .collect();
            assert!(functions.is_empty(), "{means:?}: {functions:?}");
        }
    }

    #[test]
    fn each_means_that_differs_is_named() {
        let all = |_: &Program| true;
        assert_eq!(
            ways(Point::Qdisc, all),
            [Ok("qdisc_enqueue qdisc_dequeue".to_owned())]
        );
        let udp = ways(Point::UdpStart, all);
        assert_eq!(
            udp[..2],
            [
                Ok("udp_rcv udpv6_rcv".to_owned()),
                Ok("cgroup_skb".to_owned())
            ]
        );
        assert!(udp[2].as_ref().unwrap_err().contains("no tracepoint there"));
        let none = ways(Point::Qdisc, |_| false);
        assert_eq!(
            none,
            [Err("this kernel has no qdisc_enqueue to hook".to_owned())]
        );
    }

    #[test]
    fn a_point_that_cannot_tell_what_is_filtered_is_not_measured() {
        let request = Request {
            pids: vec![7],
            ..Request::default()
        };
        let plan = Plan::new(&request, Means::Functions, |_| true);
        let points: Vec<Point> = plan.points.iter().map(|(point, _)| *point).collect();
        let readers = [
            Point::TcpSocketRead,
            Point::UdpSocketRead,
            Point::TcpReadWait,
            Point::UdpReadWait,
        ];
        assert_eq!(points, readers);
    }
}
