//! Snapshots come out of every sink with the same values.

use metrics_common::codec::ServerMessage;
use metrics_common::{COMPONENTS, CpuModes, Info, Kind, OwnPart, Snapshot};
use netto::config::{Config, LogSettings};
use netto_judges::Efficiency;

use crate::client::Dashboard;
use crate::support::*;

#[test]
fn the_api_shows_the_snapshot() {
    let daemon = Daemon::start(&config(), endless());
    daemon.ready();
    let json = get(daemon.address, "/api/v1/snapshot", &[]).json();
    let expected = snapshot(json["sequence"].as_u64().expect("a number"));
    assert_eq!(json["interval_ns"], expected.interval_ns);
    assert_eq!(json["time_unix_ns"], expected.time_unix_ns);
    for (component, row) in COMPONENTS.iter().zip(&expected.cost().components) {
        let shown = &json["components"][component.slug];
        match row {
            Some(values) => assert_eq!(shown["cpu_ns"], serde_json::json!(values)),
            None => assert_eq!(shown["unavailable"], "no such function here"),
        }
    }
    assert_eq!(json["cpu_modes"]["host"]["steal_ns"], 16);
    assert_eq!(json["power"]["network_watts"], 10.0);
    assert_eq!(json["own"]["parts"]["sends"]["total_ns"], 1_000_000);
    let traffic = &json["traffic"];
    assert_eq!(traffic["softnet"]["packets"], serde_json::json!([100, 20]));
    let interface = &traffic["interfaces"]["named"][0];
    assert_eq!(interface["name"], "eth\"0\\");
    assert_eq!(interface["tx_bytes"], 250_000);
    assert_eq!(traffic["protocols"]["tcp_segments_out"], 2);
    assert_eq!(json["drops"]["places"][0]["function"], "__udp4_lib_rcv");
    let efficiency = Efficiency::of(&expected);
    let shown = &json["efficiency"];
    let host = serde_json::to_value(efficiency).expect("numbers are JSON");
    assert_eq!(shown["host"], host);
    assert!(efficiency.rx_ns_per_packet > Some(0.0), "{efficiency:?}");
    assert_eq!(shown["messages"]["method"], "tracepoints");
    assert_eq!(shown["messages"]["received"], 30);
    assert_eq!(traffic["work"]["messages_received"], 30);
    assert_eq!(traffic["work"]["counted_ns"], expected.interval_ns);
    assert_eq!(json["own"]["costliest"]["cpu"], 0);
    assert_eq!(json["own"]["max_overhead_ratio"], 0.01);
    let owner = &json["owners"]["owners"][0];
    assert_eq!(owner["label"], "web.service");
    assert_eq!(owner["caused"][0]["component"], "gro");
    assert_eq!(owner["caused"][0]["cpu_ns"][1], 1_000);
    assert_eq!(owner["irq_pressure_ns"], 9);
    assert_eq!(json["owners"]["taken"][0]["payer"], 2);
    assert_eq!(json["owners"]["basis"][0]["event"], "rx_softirq");

    let shown = get(daemon.address, "/api/v1/info", &[]).json();
    assert_eq!(shown, serde_json::to_value(info()).expect("Info is JSON"));
}

#[test]
fn counters_are_the_sums_of_all_snapshots() {
    let daemon = Daemon::start(&config(), endless());
    let page = daemon
        .wait_for("/metrics", |answer| {
            series(&answer.text(), "netto_snapshots_total", &[]) >= Some(5.0)
        })
        .text();
    let count = series(&page, "netto_snapshots_total", &[]).expect("a count") as u64;
    let seen: Vec<Snapshot> = (1..=count).map(snapshot).collect();
    let check = |name: &str, labels: &[(&str, &str)], expected: f64| {
        let found = series(&page, name, labels);
        let close = found.is_some_and(|found| (found - expected).abs() <= expected * 1e-9);
        assert!(
            close,
            "{name} {labels:?} is {found:?}, not {expected}\n{page}"
        );
    };
    for (cpu, column) in [("0", 0), ("1", 1)] {
        for (index, component) in COMPONENTS.iter().enumerate() {
            let event = component.parent.unwrap_or_default();
            let (name, labels): (_, &[_]) = match component.kind {
                Kind::Sum => continue,
                Kind::Timed(..) | Kind::Estimated(_) | Kind::Carved(..) => (
                    "netto_cpu_seconds_total",
                    &[("cpu", cpu), ("event", component.slug)],
                ),
                Kind::Sampled(_) | Kind::Remainder => (
                    "netto_component_cpu_seconds_total",
                    &[
                        ("cpu", cpu),
                        ("event", event),
                        ("component", component.slug),
                    ],
                ),
            };
            if component.slug == HIDDEN {
                assert_eq!(series(&page, name, labels), None);
                continue;
            }
            let sum_ns: u64 = seen
                .iter()
                .map(|snapshot| snapshot.cost().cpu_ns(index).expect("measured")[column])
                .sum();
            check(name, labels, sum_ns as f64 / 1e9);
        }
        for (mode, value) in CpuModes::NAMES.iter().zip([1, 2, 3, 4, 5, 6, 7, 8]) {
            check(
                "netto_cpu_mode_seconds_total",
                &[("cpu", cpu), ("mode", mode)],
                (value * count) as f64 / 1e9,
            );
        }
    }
    let count = count as f64;
    let cpu = [("cpu", "1")];
    check("netto_received_packets_total", &cpu, 20.0 * count);
    check("netto_backlog_dropped_packets_total", &cpu, 20.0 * count);
    check("netto_cpu_dropped_packets_total", &cpu, 3.0 * count);
    let of = |interface, direction| [("interface", interface), ("direction", direction)];
    let interface_name = r#"eth\"0\\"#;
    for (name, labels, each) in [
        (
            "netto_interface_packets_total",
            of(interface_name, "rx"),
            1_000.0,
        ),
        (
            "netto_interface_bytes_total",
            of(interface_name, "tx"),
            250_000.0,
        ),
        (
            "netto_interface_dropped_packets_total",
            of(interface_name, "rx"),
            5.0,
        ),
        (
            "netto_interface_errors_total",
            of(interface_name, "tx"),
            4.0,
        ),
        (
            "netto_interface_packets_total",
            of("other interfaces", "rx"),
            9.0,
        ),
    ] {
        check(name, &labels, each * count);
    }
    let labels = [
        ("interface", interface_name),
        ("driver", "virtio_net"),
        ("hardware", "true"),
    ];
    check("netto_interface_info", &labels, 1.0);
    check(
        "netto_protocol_events_total",
        &[("counter", "tcp_retransmits")],
        3.0 * count,
    );
    for (name, direction, each) in [
        ("netto_socket_messages_total", "sent", 10.0),
        ("netto_socket_bytes_total", "sent", 20.0),
        ("netto_socket_messages_total", "received", 30.0),
        ("netto_socket_bytes_total", "received", 40.0),
    ] {
        check(name, &[("direction", direction)], each * count);
    }
    check("netto_napi_polls_total", &[], 50.0 * count);
    check("netto_napi_packets_total", &[], 60.0 * count);
    check("netto_work_counted_seconds_total", &[], 0.05 * count);
    let labels = [("reason", "NO_SOCKET"), ("function", "__udp4_lib_rcv")];
    check("netto_dropped_packets_total", &labels, 6.0 * count);
    let labels = [("reason", ""), ("function", "other functions")];
    check("netto_dropped_packets_total", &labels, count);
    check("netto_samples_total", &[("cpu", "0")], 50.0 * count);
    check("netto_samples_lost_total", &[("cpu", "1")], 3.0 * count);
    check("netto_network_energy_joules_total", &[], 0.5 * count);
    let of_capacity = "netto_network_capacity_energy_joules_total";
    check(of_capacity, &[], 0.1 * count);
    check(
        "netto_energy_joules_total",
        &[("zone", "package-0")],
        2.0 * count,
    );
    check(
        "netto_user_cpu_seconds_total",
        &[("mode", "user")],
        1e-3 * count,
    );
    for part in OwnPart::ALL {
        for (cpu, ns) in [("0", 1e-3), ("1", 0.0)] {
            check(
                "netto_own_cpu_seconds_total",
                &[("cpu", cpu), ("part", part.slug())],
                ns * count,
            );
        }
    }
    // A process belongs to its group, and time that a group takes from itself is not paid for
    // others.
    let sequences: f64 = seen.iter().map(|snapshot| snapshot.sequence as f64).sum();
    let group = |event: &'static str| {
        [
            ("owner", "cgroup"),
            ("cgroup", "/system.slice/web.service"),
            ("container", ""),
            ("pod", ""),
            ("namespace", ""),
            ("event", event),
        ]
    };
    let caused = "netto_cgroup_network_cpu_seconds_total";
    let received = (sequences + 1_000.0 * count) / 1e9;
    check(caused, &group("rx_softirq"), received);
    check(caused, &group("tx_syscall"), 500e-9 * count);
    let mut nobody = group("rx_softirq");
    (nobody[0].1, nobody[1].1) = ("nobody", "");
    check(caused, &nobody, 10e-9 * count);
    let paid = "netto_cgroup_softirq_paid_seconds_total";
    let mut victim = group("");
    victim[1].1 = "/burn";
    check(paid, &victim[..5], 300e-9 * count);
    assert_eq!(series(&page, paid, &group("")[..5]), None);
    check("netto_owners_limit", &[], 200.0);
    check("netto_owners_given_up_total", &[], 0.0);
    check(
        "netto_instrument_analysis_seconds_total",
        &[("instrument", "cost")],
        2e-3 * count,
    );
    check("netto_sampling_hertz", &[("cpu", "0")], 250.0);
    check("netto_sampling_hertz", &[("cpu", "1")], 0.0);
    check("netto_overhead_ratio", &[], 0.005);
    check("netto_max_overhead_ratio", &[], 0.01);
    check(
        "netto_probe_attached",
        &[("probe", "softirq_entry"), ("method", "tp_btf")],
        1.0,
    );
    check(
        "netto_probe_attached",
        &[("probe", "inet_sendmsg"), ("method", "fentry")],
        0.0,
    );
    check("netto_build_info", &[("version", "9.9.9")], 1.0);
    check(
        "netto_sink_dropped_snapshots_total",
        &[("sink", "file")],
        0.0,
    );
}

#[test]
fn dashboards_and_the_log_see_the_same_snapshots() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("netto.log");
    let config = Config {
        log_file: Some(path.clone()),
        log: LogSettings {
            exact: true,
            ..LogSettings::default()
        },
        ..config()
    };
    let daemon = Daemon::start(&config, endless());
    let mut dashboards = [
        Dashboard::open(daemon.address),
        Dashboard::open(daemon.address),
    ];
    let seen: Vec<Vec<Snapshot>> = dashboards
        .iter_mut()
        .map(|dashboard| {
            dashboard.hello();
            (0..5).map(|_| dashboard.snapshot()).collect()
        })
        .collect();
    daemon.stop().expect("a clean end");

    let (messages, damaged) = read_log(&path);
    assert_eq!(damaged, 0);
    assert_eq!(
        messages.first(),
        Some(&ServerMessage::Hello(Box::new(info())))
    );
    assert_eq!(
        messages.last(),
        Some(&ServerMessage::Bye("the test is over".to_owned()))
    );
    let logged = &messages[1..messages.len() - 1];
    for (index, message) in logged.iter().enumerate() {
        let expected = snapshot(index as u64 + 1);
        assert_eq!(message, &ServerMessage::Snapshot(Box::new(expected)));
    }
    for snapshots in seen {
        for (previous, next) in snapshots.iter().zip(&snapshots[1..]) {
            assert_eq!(next.sequence, previous.sequence + 1);
        }
        for seen in snapshots {
            assert!(logged.contains(&ServerMessage::Snapshot(Box::new(seen))));
        }
    }
}

#[test]
fn clients_get_a_changed_description_before_its_first_snapshot() {
    const AT: u64 = 6;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("netto.log");
    let config = Config {
        log_file: Some(path.clone()),
        log: LogSettings {
            exact: true,
            ..LogSettings::default()
        },
        ..config()
    };
    let daemon = Daemon::start(&config, Source::revealing(AT));
    let mut dashboard = Dashboard::open(daemon.address);
    let mut received = Vec::new();
    // Both descriptions and the first snapshots of the second.
    while received.len() < AT as usize + 4 {
        received.push(dashboard.next().expect("the daemon goes on"));
    }
    let page = get(daemon.address, "/api/v1/info", &[]);
    let shown: Info = serde_json::from_value(page.json()).expect("an Info");
    assert_eq!(shown, revealed_info());
    // Another thread adds up the metrics.
    let hidden = format!("component=\"{HIDDEN}\"");
    daemon.wait_for("/metrics", |answer| answer.text().contains(&hidden));
    // A later client only gets the newest description.
    let mut late = Dashboard::open(daemon.address);
    assert_eq!(
        late.next(),
        Ok(ServerMessage::Hello(Box::new(revealed_info())))
    );
    late.snapshot();
    late.snapshot();
    daemon.stop().expect("a clean end");

    for messages in [received, read_log(&path).0] {
        let mut last_info = None;
        let mut introductions = 0;
        for message in messages {
            match message {
                ServerMessage::Hello(info) => {
                    introductions += 1;
                    last_info = Some(*info);
                }
                ServerMessage::Snapshot(found) => {
                    let (expected, meaning) = match found.sequence {
                        sequence if sequence < AT => (snapshot(sequence), info()),
                        sequence => (revealed(snapshot(sequence)), revealed_info()),
                    };
                    assert_eq!(*found, expected);
                    assert_eq!(last_info.as_ref(), Some(&meaning));
                }
                ServerMessage::History(_)
                | ServerMessage::Bye(_)
                | ServerMessage::Gap(_)
                | ServerMessage::Stacks(_) => {}
            }
        }
        assert_eq!(introductions, 2);
    }
}
