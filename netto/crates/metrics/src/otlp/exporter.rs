//! The actor: keeps totals since the start, and queues an export of them when one is due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::prelude::*;
use metrics_common::Info;
use prost::Message as _;

use super::channel::ExportChannel;
use super::points;
use super::sender::{self, Sender};
use super::target::Target;
use crate::catalogue::{Catalogue, Inputs};
use crate::totals::Totals;
use netto_pipeline::clients::ClientCounts;
use netto_pipeline::compression::gzip;
use netto_pipeline::metrics_collector::{Deliver, Shutdown, Sink, SinkDrops};
use netto_pipeline::supervisor::{Part, Supervisor, Watch};

/// Most queued snapshots; a dropped snapshot would be missing from every sum.
const MAILBOX_MESSAGES: usize = 64;
/// Time for pushing queued exports at shutdown, which is limited to two seconds.
const END: Duration = Duration::from_millis(1500);

/// The actor; see the head of this file.
pub struct OtlpLogger {
    totals: Totals,
    info: Arc<Info>,
    host_id: Option<String>,
    interval: Duration,
    /// Time of the last export, and number of snapshots in it.
    exported: Option<(Instant, u64)>,
    channel: Arc<ExportChannel>,
    drops: Arc<SinkDrops>,
    clients: Arc<ClientCounts>,
    catalogues: Vec<Catalogue>,
    watch: Watch,
}

impl OtlpLogger {
    /// Starts the exporter on two threads of its own, for these metrics of this host. The one that
    /// talks to others does `begin` first: there it gives up its privileges.
    ///
    /// # Errors
    /// If TLS is needed and this host has no trusted certificates, or no more threads can be
    /// started.
    pub fn launch(
        target: Target,
        (info, host_id): (Arc<Info>, Option<String>),
        (drops, clients): (Arc<SinkDrops>, Arc<ClientCounts>),
        catalogues: Vec<Catalogue>,
        (supervisor, begin): (&Supervisor, fn()),
    ) -> anyhow::Result<(Arbiter, Addr<OtlpLogger>)> {
        if let Some(warning) = target.warning() {
            tracing::warn!("{warning}");
        }
        let channel = Arc::new(ExportChannel::default());
        let logger = OtlpLogger {
            totals: Totals::of(catalogues.iter().filter_map(|catalogue| catalogue.state)),
            info,
            host_id,
            interval: target.interval,
            exported: None,
            channel: channel.clone(),
            drops: drops.clone(),
            clients,
            catalogues,
            watch: supervisor.watch(Part::OtlpLogger),
        };
        tracing::info!("pushing metrics to {}", target.url);
        let sender = Sender {
            client: sender::client(&target)?,
            target,
            channel,
            drops,
            watch: supervisor.watch(Part::OtlpLogger),
        };
        sender::start(sender, begin)?;
        let arbiter = Arbiter::new();
        let address = Self::start_in_arbiter(&arbiter.handle(), move |ctx| {
            ctx.set_mailbox_capacity(MAILBOX_MESSAGES);
            logger
        });
        Ok((arbiter, address))
    }

    fn is_due(&self, interval_ns: u64) -> bool {
        // Snapshots have their own times; the one nearest to the due time is exported.
        let early = Duration::from_nanos(interval_ns / 2);
        self.exported
            .is_none_or(|(at, _)| at.elapsed() + early >= self.interval)
    }

    fn export(&mut self) {
        self.exported = Some((Instant::now(), self.totals.snapshots));
        let inputs = Inputs {
            info: &self.info,
            totals: &self.totals,
            drops: &self.drops,
            clients: &self.clients,
        };
        let request = points::request(&inputs, self.host_id.as_deref(), &self.catalogues);
        let dropped = match gzip(&request.encode_to_vec()) {
            Ok(bytes) => self.channel.push(bytes[..].into()),
            Err(error) => {
                tracing::error!("an export was dropped: {error}");
                1
            }
        };
        (0..dropped).for_each(|_| self.drops.count(Sink::Otlp));
    }
}

impl Actor for OtlpLogger {
    type Context = Context<Self>;
}

impl Handler<Deliver> for OtlpLogger {
    type Result = ();

    fn handle(&mut self, Deliver(published): Deliver, _: &mut Self::Context) {
        self.info = published.info.clone();
        self.totals.add(&published.snapshot);
        if self.is_due(published.snapshot.interval_ns) {
            self.export();
        }
    }
}

impl Handler<Shutdown> for OtlpLogger {
    type Result = ();

    fn handle(&mut self, _: Shutdown, ctx: &mut Self::Context) {
        let is_new = |snapshots| self.totals.snapshots > snapshots;
        if is_new(self.exported.map_or(0, |(_, snapshots)| snapshots)) {
            self.export();
        }
        self.channel.end(END);
        self.watch.settle();
        ctx.stop();
    }
}
