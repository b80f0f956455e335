//! `netto list latency`: the points at which latencies can be measured, and what this kernel is
//! hooked at for each.

use std::fmt::Write as _;

use metrics_common::latency::Point;

use crate::analysis::plan;
use crate::kernel::probes::hookable;

/// How this kernel can measure a point, the best means first: what is hooked, or why that is not
/// possible.
type Ways = Vec<Result<String, String>>;

/// How this kernel can measure each point. Nothing is loaded: whether it allows the first of them
/// is told by who tries.
///
/// # Errors
/// If its type information cannot be read.
fn ways() -> anyhow::Result<Vec<(Point, Ways)>> {
    let found = hookable()?;
    let with_ways = |point: &Point| {
        (
            *point,
            plan::ways(*point, |program| found.contains(program.name)),
        )
    };
    Ok(Point::ALL.iter().map(with_ways).collect())
}

/// The list.
pub(crate) fn list() -> String {
    let ways = ways().map_err(|error| format!("{error:#}"));
    text(ways.as_deref().map_err(String::as_str))
}

/// The list, of these ways; or else the reason why they cannot be told.
fn text(ways: Result<&[(Point, Ways)], &str>) -> String {
    let mut out = String::new();
    for point in Point::ALL {
        let twin = match point.netstacklat() {
            Some(_) => "as netstacklat's",
            None => "netstacklat has none",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{} ({twin})\n    {}", point.slug(), point.help());
        let of_point = ways
            .ok()
            .and_then(|ways| ways.iter().find(|(known, _)| *known == point));
        for (number, way) in of_point.iter().flat_map(|(_, ways)| ways).enumerate() {
            let when = match number {
                0 => "hooked at",
                _ => "where that is refused",
            };
            let _ = match way {
                Ok(hooks) => writeln!(out, "    {when}: {hooks}"),
                Err(reason) => writeln!(out, "    {when}: not possible, {reason}"),
            };
        }
    }
    if let Err(reason) = ways {
        let _ = writeln!(out, "\nHooks are not shown: {reason}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_points_says_what_is_hooked_and_what_instead() {
        let ways = [
            (
                Point::UdpStart,
                vec![Ok("udp_rcv".into()), Err("no such thing".into())],
            ),
            (Point::Qdisc, vec![Ok("qdisc_enqueue".into())]),
        ];
        let list = text(Ok(&ways));
        for expected in [
            "udp-start (as netstacklat's)\n    From a packet's arrival until UDP begins with it.\n    \
             hooked at: udp_rcv\n    where that is refused: not possible, no such thing\n",
            "qdisc (netstacklat has none)\n",
        ] {
            assert!(list.contains(expected), "{expected}: {list}");
        }
        assert!(text(Err("hidden")).ends_with("Hooks are not shown: hidden\n"));
    }
}
