//! Answers about latency, of the newest snapshots as the collector keeps them. They are made in
//! the turns of the answers about the past.

mod answer;
pub mod question;
pub mod view;

use std::net::IpAddr;
use std::sync::Arc;

use actix_web::web::Bytes;
use metrics_common::Info;

use self::question::Question;
use super::paced::{Paced, Refusal};
use super::turns::Turns;
use netto_pipeline::recent::Recent;
use netto_pipeline::shared::Shared;

/// See the head of this file.
pub struct LatencyAnswers {
    /// `None` where the snapshots are of a log.
    recent: Option<Shared<Recent>>,
    paced: Paced<Question>,
}

impl LatencyAnswers {
    /// Answers about these snapshots, made in these turns.
    pub fn new(recent: Option<Shared<Recent>>, turns: Turns) -> Self {
        LatencyAnswers {
            recent,
            paced: Paced::new(turns),
        }
    }

    /// The answer to a question of somebody at this address; `None` where no snapshots are kept.
    pub async fn answer(
        &self,
        question: Question,
        info: Arc<Info>,
        from: Option<IpAddr>,
    ) -> Option<Result<Bytes, Refusal>> {
        let recent = self.recent.as_ref()?;
        let make = move |question: &Question, recent: Arc<Recent>| {
            answer::text(*question, &recent, &info).map_err(Refusal::Failed)
        };
        Some(self.paced.answer(recent, question, from, make).await)
    }
}
