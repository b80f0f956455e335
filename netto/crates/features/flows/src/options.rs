//! What users may ask of flows: of the daemon, and of the command, whose table has the same options.

use clap::{Args, FromArgMatches};
use netto_feature::options::Options;
use netto_feature::values::{Impossible, Refused, in_range};

use crate::export::target::Target;
use crate::kernel::collector::At;
use crate::kernel::parser::Headers;
use crate::table::Timeouts;

/// Longest name of an interface, bytes (IFNAMSIZ without its end).
const LONGEST_NAME: usize = 15;
const MOST_FLOWS: u32 = 65_536;
const IDLE_SECONDS: u64 = 15;
const ACTIVE_SECONDS: u64 = 60;

/// The options of the daemon.
pub(crate) const OPTIONS: Options = Options {
    arguments: FlowsOptions::augment_args,
    read: |matches, options| {
        let given = FlowsOptions::from_arg_matches(matches).map_err(|error| error.to_string())?;
        Ok(match given.request() {
            Some(request) => options.with(crate::NAME, request),
            None => options,
        })
    },
    is_reread: true,
};

/// What the daemon is to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// Names, each once.
    pub interfaces: Vec<String>,
    pub at: At,
    pub most_flows: u32,
    pub headers: Headers,
    pub timeouts: Timeouts,
    pub export: Option<Target>,
    pub names: bool,
}

#[derive(Debug, Clone, Default, Args)]
struct FlowsOptions {
    /// Count each packet of these interfaces to its flow
    #[arg(long, value_name = "INTERFACE", value_delimiter = ',', value_parser = interface_name)]
    flows: Vec<String>,
    #[command(flatten)]
    table: TableArgs,
}

/// How flows are seen and kept.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TableArgs {
    /// Where received packets are seen: auto (by XDP where the driver has it, else by tc), xdp or tc
    /// [default: auto]
    #[arg(long, value_name = "HOOK", hide_possible_values = true)]
    flows_at: Option<At>,
    /// Most flows under way; others are counted, not listed [default: 65536]
    #[arg(long, value_name = "COUNT", value_parser = in_range(1..=16_777_216_u32, "flows"))]
    flows_max: Option<u32>,
    /// A flow ends after so many seconds without a packet [default: 15]
    #[arg(long, value_name = "SECONDS", value_parser = in_range(1..=86_400_u64, "s"))]
    flows_idle: Option<u64>,
    /// A flow that lasts longer than so many seconds is divided into several records [default: 60]
    #[arg(long, value_name = "SECONDS", value_parser = in_range(1..=86_400_u64, "s"))]
    flows_active: Option<u64>,
    /// Count packets within GRE and VXLAN to their own flows, not to the tunnel's [default: false]
    #[arg(long, value_name = "BOOL")]
    flows_inner: Option<bool>,
    /// Export every record as IPFIX to udp://HOST:PORT, tcp://HOST:PORT or file:PATH
    ///
    #[arg(long, value_name = "TARGET", value_parser = Target::parse)]
    flows_export: Option<Target>,
    /// Show names of hosts by reverse DNS, whose servers so learn which hosts talk [default: false]
    #[arg(long, value_name = "BOOL")]
    flows_names: Option<bool>,
}

impl TableArgs {
    pub(crate) fn at(&self) -> At {
        self.flows_at.unwrap_or(At::Auto)
    }

    pub(crate) fn most_flows(&self) -> u32 {
        self.flows_max.unwrap_or(MOST_FLOWS)
    }

    pub(crate) fn headers(&self) -> Headers {
        match self.flows_inner {
            Some(true) => Headers::Inner,
            _ => Headers::Outer,
        }
    }

    pub(crate) fn export(&self) -> Option<&Target> {
        self.flows_export.as_ref()
    }

    pub(crate) fn names(&self) -> bool {
        self.flows_names.unwrap_or(false)
    }

    pub(crate) fn timeouts(&self) -> Timeouts {
        let ns = |seconds: Option<u64>, default| seconds.unwrap_or(default) * 1_000_000_000;
        Timeouts {
            idle_ns: ns(self.flows_idle, IDLE_SECONDS),
            active_ns: ns(self.flows_active, ACTIVE_SECONDS),
        }
    }
}

impl FlowsOptions {
    /// None without an interface.
    fn request(self) -> Option<Request> {
        let mut interfaces: Vec<String> = Vec::new();
        for name in self.flows {
            if !interfaces.contains(&name) {
                interfaces.push(name);
            }
        }
        (!interfaces.is_empty()).then(|| Request {
            interfaces,
            at: self.table.at(),
            most_flows: self.table.most_flows(),
            headers: self.table.headers(),
            timeouts: self.table.timeouts(),
            names: self.table.names(),
            export: self.table.flows_export,
        })
    }
}

fn interface_name(text: &str) -> Result<String, Refused> {
    let is_odd = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    if (1..=LONGEST_NAME).contains(&text.len()) && !text.contains(is_odd) {
        return Ok(text.to_owned());
    }
    let message = format!(
        "takes names of interfaces separated by commas, such as eth0 (`ip link` lists them), not \"{text}\""
    );
    Err(Impossible(message).into())
}

#[cfg(test)]
mod tests {
    use clap::Command;
    use netto_pipeline::options::FeatureOptions;

    use super::*;

    fn asked(words: &[&str]) -> Result<Option<Request>, String> {
        let command = (OPTIONS.arguments)(Command::new("netto"));
        let matches = command.try_get_matches_from([&["netto"], words].concat());
        let matches = matches.map_err(|error| error.to_string())?;
        let options = (OPTIONS.read)(&matches, FeatureOptions::default())?;
        Ok(options.of::<Request>(crate::NAME).cloned())
    }

    #[test]
    fn flows_are_measured_where_an_interface_is_named_and_each_once() {
        assert_eq!(asked(&[]), Ok(None));
        assert_eq!(asked(&["--flows-max", "5"]), Ok(None));
        let request = asked(&["--flows", "eth0,lan,eth0", "--flows-idle", "3"]);
        let request = request.unwrap().unwrap();
        assert_eq!(request.interfaces, ["eth0", "lan"]);
        assert_eq!((request.at, request.most_flows), (At::Auto, 65_536));
        assert_eq!((request.headers, request.names), (Headers::Outer, false));
        let named = asked(&["--flows", "lan", "--flows-names", "true"]);
        assert!(named.unwrap().unwrap().names);
        let inner = asked(&["--flows", "lan", "--flows-inner", "true"]);
        assert_eq!(inner.unwrap().unwrap().headers, Headers::Inner);
        let timeouts = [3, 60].map(|seconds| seconds * 1_000_000_000);
        assert_eq!(
            [request.timeouts.idle_ns, request.timeouts.active_ns],
            timeouts
        );
    }

    #[test]
    fn what_is_no_name_or_out_of_range_is_refused_with_what_is_taken() {
        for (words, part) in [
            (["--flows", "eth0,"], "names of interfaces"),
            (["--flows", "a/b"], "names of interfaces"),
            (["--flows", "abcdefghijklmnop"], "names of interfaces"),
            (["--flows-max", "0"], "must be 1 to 16777216 flows"),
            (["--flows-at", "nowhere"], "nowhere"),
            (["--flows-export", "collector"], "takes udp://HOST:PORT"),
        ] {
            let refusal = asked(&words).unwrap_err();
            assert!(refusal.contains(part), "{refusal}");
        }
    }
}
