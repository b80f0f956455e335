//! The configuration file: its keys, and where in it a value stands.
//!
//! Whether a value makes sense, and whether a flag goes before it, is not known here.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use crate::cli::latency::GroupName;
use crate::cli::log::{Age, Bytes};
use crate::cli::owners::OwnersName;
use crate::cli::{HostArgs, LogLevel, MethodName, SamplerName};

/// The configuration file that is read when none is named, if it exists.
const DEFAULT_FILE: &str = "/etc/netto.toml";

/// The configuration file: the long options as keys.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FileOptions {
    pub(super) frequency: Option<Spanned<u64>>,
    pub(super) max_overhead: Option<Spanned<f64>>,
    pub(super) owners: Option<OwnersName>,
    pub(super) latency: Option<bool>,
    pub(super) latency_points: Option<Spanned<Vec<String>>>,
    pub(super) latency_one_in: Option<Spanned<u64>>,
    pub(super) latency_include_hol: Option<bool>,
    pub(super) latency_interfaces: Option<Spanned<Vec<String>>>,
    pub(super) latency_netns: Option<Spanned<Vec<String>>>,
    pub(super) latency_cgroups: Option<Spanned<Vec<String>>>,
    pub(super) latency_pids: Option<Spanned<Vec<u32>>>,
    pub(super) latency_ports: Option<Spanned<Vec<u16>>>,
    pub(super) latency_min_queue: Option<u32>,
    pub(super) latency_group: Option<GroupName>,
    pub(super) user_period: Option<Spanned<u64>>,
    pub(super) address: Option<IpAddr>,
    pub(super) port: Option<u16>,
    pub(super) log_file: Option<PathBuf>,
    pub(super) log_max_size: Option<Spanned<Bytes>>,
    pub(super) log_max_age: Option<Spanned<Age>>,
    pub(super) log_keep: Option<Spanned<usize>>,
    pub(super) log_flush: Option<Spanned<u64>>,
    pub(super) log_exact: Option<bool>,
    pub(super) log_stacks: Option<bool>,
    pub(super) web_config_file: Option<PathBuf>,
    pub(super) allowed_host: Option<Spanned<Vec<String>>>,
    pub(super) max_clients: Option<Spanned<usize>>,
    pub(super) latency_compat: Option<bool>,
    pub(super) otlp_endpoint: Option<Spanned<String>>,
    pub(super) otlp_headers: Option<Spanned<Vec<String>>>,
    pub(super) otlp_interval: Option<Spanned<u64>>,
    pub(super) proc_root: Option<PathBuf>,
    pub(super) sys_root: Option<PathBuf>,
    pub(super) method: Option<MethodName>,
    pub(super) sampler: Option<SamplerName>,
    pub(super) log_level: Option<LogLevel>,
    #[serde(skip)]
    pub(super) place: Place,
}

/// The configuration file itself, to name places in it.
#[derive(Debug, Default)]
pub(super) struct Place {
    path: String,
    text: String,
}

impl Place {
    /// Whether there is no file.
    pub(super) fn is_nowhere(&self) -> bool {
        self.path.is_empty()
    }

    /// `netto.toml, line 3: `
    pub(super) fn line(&self, at: usize) -> String {
        format!("{}, line {}: ", self.path, line_of(&self.text, at))
    }
}

/// Number of the line, from 1, that holds the byte at this place.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|byte| **byte == b'\n').count() + 1
}

/// The file that is named, or the usual one if it exists.
pub(super) fn read_file(args: &HostArgs) -> Result<FileOptions, ConfigError> {
    let (path, demanded) = match &args.config {
        Some(path) => (path.as_path(), true),
        None => (Path::new(DEFAULT_FILE), false),
    };
    match std::fs::read_to_string(path) {
        Ok(text) => parse_file(&text, path),
        Err(error) if !demanded && error.kind() == std::io::ErrorKind::NotFound => {
            Ok(FileOptions::default())
        }
        Err(source) => Err(ConfigError::Unreadable {
            path: path.display().to_string(),
            source,
        }),
    }
}

pub(super) fn parse_file(text: &str, path: &Path) -> Result<FileOptions, ConfigError> {
    let path = path.display().to_string();
    match toml::from_str::<FileOptions>(text) {
        Ok(mut options) => {
            let text = text.to_owned();
            options.place = Place { path, text };
            Ok(options)
        }
        Err(error) => {
            let line =
                |span: std::ops::Range<usize>| format!("line {}: ", line_of(text, span.start));
            Err(ConfigError::NotUnderstood {
                path,
                place: error.span().map(line).unwrap_or_default(),
                message: error.message().replace('\n', " "),
            })
        }
    }
}
