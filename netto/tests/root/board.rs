//! The queries of the shipped boards, put to a Prometheus as Grafana would put them. Grafana itself is
//! in no registry that the tests fetch from (neither Debian nor crates.io), so how the board looks is not tested.

use std::collections::BTreeSet;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::prometheus::Server;

/// The board of hosts, one of them in detail.
pub const HOST: &str = include_str!("../../../dist/grafana/netto.json");
/// The board of all hosts together.
pub const FLEET: &str = include_str!("../../../dist/grafana/netto-fleet.json");

/// One query of one panel.
struct Query {
    /// The panel's title.
    panel: String,
    /// PromQL with Grafana's variables in it.
    text: String,
    /// Whether it is asked for one moment, or for the range shown.
    is_instant: bool,
}

fn queries(board: &str) -> Result<Vec<Query>> {
    let board: Value = serde_json::from_str(board).context("the board is no JSON")?;
    let mut queries = Vec::new();
    for panel in board["panels"].as_array().context("no panels")? {
        for target in panel["targets"].as_array().into_iter().flatten() {
            queries.push(Query {
                panel: panel["title"].as_str().context("no title")?.to_owned(),
                text: target["expr"].as_str().context("no query")?.to_owned(),
                is_instant: target["instant"] == true,
            });
        }
    }
    Ok(queries)
}

/// The query as Grafana sends it when everything is chosen and this host is shown.
fn filled(text: &str, host: &str) -> String {
    [
        ("$__rate_interval", "4s"),
        ("$__range", "30s"),
        ("$cluster", ".*"),
        ("$job", ".*"),
        ("$instance", ".*"),
        ("$event", ".*"),
        ("$host", host),
    ]
    .iter()
    .fold(text.to_owned(), |text, (name, value)| {
        text.replace(name, value)
    })
}

/// The metrics that a query names and this page does not have.
fn absent<'a>(query: &'a str, page: &str) -> Vec<&'a str> {
    query
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("netto_"))
        .filter(|name| !page.contains(&format!("# TYPE {name} ")))
        .collect()
}

/// Puts all queries with this host chosen: each is understood, and has an answer unless it is
/// about a metric that this host's page does not have, or about network cards. Gives the panels without an answer.
pub fn check(board: &str, server: &Server, host: &str, page: &str) -> Result<BTreeSet<String>> {
    let mut empty = BTreeSet::new();
    for query in queries(board)? {
        let text = filled(&query.text, host);
        let result = if query.is_instant {
            server.query(&text)
        } else {
            server.query_range(&text)
        };
        let panel = &query.panel;
        let result = result.with_context(|| format!("the panel \"{panel}\" of {host}"))?;
        if result.is_empty() {
            let lacking = absent(&query.text, page);
            // Traffic between namespaces uses no hardware; and some queries only show problems.
            let shows_problems = ["> 0", "== 1"].iter().any(|end| query.text.ends_with(end));
            let may_be_empty = query.text.contains("hardware=\"true\"") || shows_problems;
            ensure!(
                !lacking.is_empty() || may_be_empty,
                "the panel \"{panel}\" of {host} is empty: {text}"
            );
            empty.insert(query.panel);
        }
    }
    Ok(empty)
}

/// The panels whose queries name this metric.
pub fn panels_with(board: &str, metric: &str) -> Result<BTreeSet<String>> {
    let all = queries(board)?.into_iter();
    let of_it = all.filter(|query| query.text.contains(metric));
    Ok(of_it.map(|query| query.panel).collect())
}

/// The panels of the board, and for how long the server computes all that each asks for, seconds.
pub fn times(board: &str, server: &Server) -> Result<Vec<(String, f64)>> {
    let timed = |query: Query| {
        let text = filled(&query.text, "");
        let begun = Instant::now();
        if query.is_instant {
            server.query(&text)?
        } else {
            server.query_range(&text)?
        };
        Ok((query.panel, begun.elapsed().as_secs_f64()))
    };
    queries(board)?.into_iter().map(timed).collect()
}

/// That each of the board's variables finds something to choose, given those before it.
pub fn check_variables(board: &str, server: &Server, host: &str) -> Result<()> {
    let board: Value = serde_json::from_str(board).context("the board is no JSON")?;
    for variable in board["templating"]["list"].as_array().context("no list")? {
        let Some(query) = variable["query"]["query"].as_str() else {
            continue;
        };
        let inner = query
            .strip_prefix("label_values(")
            .and_then(|rest| rest.strip_suffix(')'));
        let (series, label) = inner
            .and_then(|inner| inner.rsplit_once(", "))
            .with_context(|| format!("not understood: {query}"))?;
        let found = server.query(&format!("count by ({label}) ({})", filled(series, host)))?;
        let is_named = |one: &Value| one["metric"][label].is_string();
        // Scrapers may add a cluster label.
        ensure!(
            label == "cluster" || (!found.is_empty() && found.iter().all(is_named)),
            "{query} finds {found:?}"
        );
    }
    Ok(())
}
