//! The thread that waits for the network: pushes queued exports, oldest first, with retries.
//!
//! A receiver that is gone, slow or full ends nothing. This file also words the warnings about it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message as _;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::channel::{Export, ExportChannel};
use super::target::Target;
use netto_pipeline::metrics_collector::{Sink, SinkDrops};
use netto_pipeline::supervisor::Watch;

/// Timeout of one try.
const TRY: Duration = Duration::from_secs(10);
/// Pause before the second try, doubled for each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause, whatever the receiver requests.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Most bytes read of an answer.
const MOST_ANSWER_BYTES: u64 = 64 << 10;
/// Least time between two warnings about refusals.
const QUIET: Duration = Duration::from_secs(60);

/// The result of a try.
#[derive(Debug)]
enum Outcome {
    Accepted,
    /// To be tried again, after this time if given.
    Again(String, Option<Duration>),
    /// Another try is useless.
    Refused(String),
}

/// A client for this receiver only.
///
/// # Errors
/// The receiver requires TLS, and this host has no trusted certificates.
pub(super) fn client(target: &Target) -> anyhow::Result<Agent> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .user_agent(concat!("netto/", env!("CARGO_PKG_VERSION")));
    if target.is_encrypted() {
        let found = rustls_native_certs::load_native_certs();
        let roots: Vec<_> = found
            .certs
            .iter()
            .map(|der| Certificate::from_der(der).to_owned())
            .collect();
        ensure!(
            !roots.is_empty(),
            "cannot push to {}: this host has no CA certificates; install ca-certificates, or set \
             SSL_CERT_FILE to a file with them",
            target.url
        );
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        config = config.tls_config(
            TlsConfig::builder()
                .unversioned_rustls_crypto_provider(provider)
                .root_certs(RootCerts::new_with_certs(&roots))
                .build(),
        );
    }
    Ok(Agent::new_with_config(config.build()))
}

/// A period without successful pushes.
struct Trouble {
    since: Instant,
    tries: u32,
}

/// The state of the thread.
pub(super) struct Sender {
    pub(super) client: Agent,
    pub(super) target: Target,
    pub(super) channel: Arc<ExportChannel>,
    pub(super) drops: Arc<SinkDrops>,
    pub(super) watch: Watch,
}

impl Sender {
    /// Pushes until the end.
    pub(super) fn run(mut self) {
        let mut trouble = None;
        let mut refused_at = None;
        while let Some(export) = self.channel.next() {
            match self.attempt(&export) {
                Outcome::Accepted => {
                    self.channel.done(&export);
                    self.recovered(&mut trouble);
                }
                Outcome::Refused(cause) => {
                    self.channel.done(&export);
                    self.drops.count(Sink::Otlp);
                    self.refused(&mut refused_at, &cause);
                }
                Outcome::Again(cause, after) => {
                    if self.channel.deadline().is_some() {
                        let lost = self.channel.waiting();
                        tracing::warn!("{lost} exports did not reach {}: {cause}", self.target.url);
                        break;
                    }
                    let pause = self.failed(&mut trouble, &cause);
                    self.channel
                        .pause(after.unwrap_or(pause).min(LONGEST_PAUSE));
                }
            }
        }
        self.watch.settle();
        self.channel.ended();
    }

    fn attempt(&self, export: &Export) -> Outcome {
        let left = self
            .channel
            .deadline()
            .map(|at| at.saturating_duration_since(Instant::now()));
        let limit = left.map_or(TRY, |left| left.min(TRY));
        if limit.is_zero() {
            return Outcome::Again("netto ends".to_owned(), None);
        }
        let mut request = self
            .client
            .post(&self.target.url)
            .config()
            .timeout_global(Some(limit))
            .build()
            .header("content-type", "application/x-protobuf")
            .header("content-encoding", "gzip");
        for (name, value) in &self.target.headers {
            request = request.header(name, value);
        }
        let mut answer = match request.send(&export.bytes[..]) {
            Ok(answer) => answer,
            Err(error) => return Outcome::Again(error.to_string(), None),
        };
        let status = answer.status();
        let retry_after = answer
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        let body = answer
            .body_mut()
            .with_config()
            .limit(MOST_ANSWER_BYTES)
            .read_to_vec();
        match status.as_u16() {
            200..=299 => {
                self.read_answer(&body.unwrap_or_default());
                Outcome::Accepted
            }
            // As the OTLP/HTTP specification requires.
            429 | 502..=504 => Outcome::Again(format!("it answers {status}"), retry_after),
            _ => Outcome::Refused(format!("it answers {status}")),
        }
    }

    /// Reports a partial success; trying again would not help.
    fn read_answer(&self, body: &[u8]) {
        let answer = ExportMetricsServiceResponse::decode(body).unwrap_or_default();
        if let Some(partial) = answer
            .partial_success
            .filter(|p| p.rejected_data_points > 0)
        {
            tracing::warn!(
                "{} rejected {} points: {}",
                self.target.url,
                partial.rejected_data_points,
                partial.error_message.escape_debug()
            );
        }
    }

    /// Warns at the first failure; returns the pause before the next try.
    fn failed(&self, trouble: &mut Option<Trouble>, cause: &str) -> Duration {
        if trouble.is_none() {
            tracing::warn!(
                "cannot push to {}: {cause}; netto continues measuring, retries, and keeps the \
                 newest exports until then",
                self.target.url
            );
        }
        let trouble = trouble.get_or_insert_with(|| Trouble {
            since: Instant::now(),
            tries: 0,
        });
        let pause = backoff(trouble.tries, RandomState::new().build_hasher().finish());
        trouble.tries += 1;
        pause
    }

    fn recovered(&self, trouble: &mut Option<Trouble>) {
        if let Some(trouble) = trouble.take() {
            tracing::info!(
                "{} accepts metrics again after {:.0} s; {} exports are queued",
                self.target.url,
                trouble.since.elapsed().as_secs_f64(),
                self.channel.waiting()
            );
        }
    }

    fn refused(&self, said_at: &mut Option<Instant>, cause: &str) {
        if said_at.is_none_or(|at| at.elapsed() > QUIET) {
            *said_at = Some(Instant::now());
            tracing::error!(
                "{} rejects metrics: {cause}; see --otlp-endpoint and --otlp-headers",
                self.target.url
            );
        }
    }
}

/// The pause after this many tries: doubled each time, its second half random, so that a fleet does
/// not retry at once.
fn backoff(tries: u32, random: u64) -> Duration {
    let longest = FIRST_PAUSE
        .saturating_mul(1 << tries.min(10))
        .min(LONGEST_PAUSE / 2);
    let half = longest / 2;
    half + half.mul_f64(random as f64 / u64::MAX as f64)
}

/// Starts the thread, which does this first.
///
/// # Errors
/// If no more threads can be started.
pub(super) fn start(sender: Sender, begin: fn()) -> anyhow::Result<()> {
    std::thread::Builder::new()
        .name("netto-otlp".to_owned())
        .spawn(move || {
            begin();
            sender.run();
        })
        .map(drop)
        .context("cannot start the thread that pushes metrics")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_minute_and_are_never_the_same_for_all() {
        for (tries, most_s) in [(0, 1), (1, 2), (2, 4), (4, 16), (5, 30), (1000, 30)] {
            let most = Duration::from_secs(most_s);
            assert_eq!(backoff(tries, u64::MAX), most);
            assert_eq!(backoff(tries, 0), most / 2);
        }
    }
}
