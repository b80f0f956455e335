//! What latencies are asked for.

use std::ops::RangeInclusive;

use super::ConfigError;
use super::file::FileOptions;
use super::given::{given, in_range};
use crate::cli::RunArgs;
use netto_latency::request::{Request, points};

/// Of so many packets one can be looked at.
const ONE_IN: RangeInclusive<u64> = 1..=1_000_000;
/// A filter can name so many.
const MOST_NAMES: usize = 128;

/// What is asked for; `None` if nothing is.
pub(super) fn request(
    args: &RunArgs,
    file: &mut FileOptions,
) -> Result<Option<Request>, ConfigError> {
    let host = &args.host;
    let args = &args.latency;
    let names = |list: &Vec<String>| Some(list.clone()).filter(|list| !list.is_empty());
    let (points_key, one_in) = (file.latency_points.take(), file.latency_one_in.take());
    let place = &file.place;
    let points = given(
        "latency_points",
        host,
        names(&args.latency_points),
        points_key,
        place,
    )
    .map(|given| given.understood(|list| points(&list)))
    .transpose()?;
    let one_in = given("latency_one_in", host, args.latency_one_in, one_in, place)
        .map(|given| in_range(given, &ONE_IN, "packets"))
        .transpose()?;
    let list = |option, argument: &Vec<String>, key| {
        let found = given(option, host, names(argument), key, place);
        let understood = found.map(|given| given.understood(few));
        understood.transpose().map(Option::unwrap_or_default)
    };
    let interfaces = file.latency_interfaces.take();
    let interfaces = list("latency_interfaces", &args.latency_interfaces, interfaces)?;
    let netns = list(
        "latency_netns",
        &args.latency_netns,
        file.latency_netns.take(),
    )?;
    let cgroups = file.latency_cgroups.take();
    let cgroups = list("latency_cgroups", &args.latency_cgroups, cgroups)?;
    let pids = Some(args.latency_pids.clone()).filter(|pids| !pids.is_empty());
    let pids = given("latency_pids", host, pids, file.latency_pids.take(), place);
    let ports = Some(args.latency_ports.clone()).filter(|ports| !ports.is_empty());
    let ports = given(
        "latency_ports",
        host,
        ports,
        file.latency_ports.take(),
        place,
    );
    let default = Request::default();
    let request = Request {
        points: points.unwrap_or(default.points),
        one_in: one_in.unwrap_or(default.one_in),
        includes_hol: args
            .latency_include_hol
            .or(file.latency_include_hol)
            .unwrap_or(default.includes_hol),
        interfaces,
        netns,
        cgroups,
        pids: pids.map_or(Ok(Vec::new()), |given| given.understood(few))?,
        ports: ports.map_or(Ok(Vec::new()), |given| given.understood(few))?,
        min_queue: args
            .latency_min_queue
            .or(file.latency_min_queue)
            .unwrap_or(default.min_queue),
        grouping: match args.latency_group.or(file.latency_group) {
            Some(name) => name.into(),
            None => default.grouping,
        },
    };
    let is_on = args.latency.or(file.latency).unwrap_or(false);
    Ok(is_on.then_some(request))
}

/// The list, unless it is longer than a filter can be.
fn few<T>(list: Vec<T>) -> Result<Vec<T>, String> {
    match list.len() > MOST_NAMES {
        true => Err(format!("takes {MOST_NAMES} at most, not {}", list.len())),
        false => Ok(list),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use metrics_common::latency::Point;

    use super::*;
    use crate::config::file::parse_file;

    fn resolved(text: &str) -> Result<Option<Request>, String> {
        let mut file = parse_file(text, Path::new("netto.toml")).unwrap();
        request(&RunArgs::default(), &mut file).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_is_measured_unless_asked_for() {
        assert_eq!(resolved(""), Ok(None));
        assert_eq!(resolved("latency-one-in = 7"), Ok(None));
        assert_eq!(resolved("latency = true"), Ok(Some(Request::default())));
    }

    #[test]
    fn keys_make_a_request() {
        let text = "latency = true\nlatency-points = [\"udp-start\"]\nlatency-one-in = 64\n\
                    latency-ports = [53]\nlatency-netns = [\"a\"]\nlatency-group = \"owner\"";
        let found = resolved(text).unwrap().unwrap();
        assert_eq!((found.points, found.one_in), (vec![Point::UdpStart], 64));
        assert_eq!((found.ports, found.netns), (vec![53], vec!["a".to_owned()]));
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let error = resolved("\nlatency-points = [\"x\"]").unwrap_err();
        assert!(
            error.starts_with("netto.toml, line 2: latency-points knows no point \"x\""),
            "{error}"
        );
        let error = resolved("latency-one-in = 0").unwrap_err();
        assert!(
            error.contains("must be 1 to 1000000 packets, not 0"),
            "{error}"
        );
    }
}
