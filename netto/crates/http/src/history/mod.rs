//! Answers about the past, out of the ring that the collector keeps; `paced` says how they are
//! bounded.

pub mod question;
pub mod table;
mod text;

use std::net::IpAddr;
use std::sync::Arc;

use actix_web::web::Bytes;
use metrics_common::Info;
use metrics_common::history::History;

use self::question::Question;
use super::paced::{Paced, Refusal};
use super::turns::Turns;
use netto_pipeline::shared::Shared;

/// See the head of this file.
pub struct Histories {
    past: Shared<History>,
    paced: Paced<Question>,
}

impl Histories {
    /// Answers about this past, made in these turns.
    pub fn new(past: Shared<History>, turns: Turns) -> Self {
        Histories {
            past,
            paced: Paced::new(turns),
        }
    }

    /// The answer to a question of somebody at this address.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn answer(
        &self,
        question: Question,
        info: Arc<Info>,
        from: Option<IpAddr>,
    ) -> Result<Bytes, Refusal> {
        let make = move |question: &Question, past: Arc<History>| {
            let table = table::answer(question, &past, &info)?;
            drop(past);
            text::text(&table, question.form).map_err(Refusal::Failed)
        };
        self.paced.answer(&self.past, question, from, make).await
    }
}

#[cfg(test)]
mod tests;
