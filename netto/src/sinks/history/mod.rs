//! Answers about the past, out of the ring that the collector keeps.
//!
//! What is asked is the client's, so no two answers need be alike, and what they take must be
//! bounded all the same: they are made one at a time away from the event loop, addresses take
//! turns, and after each there is a pause of several times what it took. An answer is kept
//! until the next snapshot, so that many who ask the same cost as much as one.

pub mod question;
pub mod table;
mod text;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use actix_web::web::{self, Bytes};
use metrics_common::Info;
use metrics_common::history::History;
use tokio::sync::oneshot;

use self::question::{Complaint, Question};
use super::turns::Turns;
use crate::actors::shared::Shared;

/// A pause is so many times as long as the work before it: a tenth of a CPU is the most.
const PAUSE: u32 = 9;
/// Answers that are kept until the next snapshot, bytes.
const KEPT_BYTES: usize = 4 << 20;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There never will be one.
    #[error(transparent)]
    Wrong(#[from] Complaint),
    /// Others are asking too.
    #[error("too many questions about the past wait already; ask again in some seconds")]
    Busy,
    /// It could not be made.
    #[error("{0}")]
    Failed(String),
}

/// See the head of this file.
pub struct Histories {
    past: Shared<History>,
    turns: Turns,
    kept: Arc<Mutex<Kept>>,
}

/// Answers about one version of the past.
#[derive(Default)]
struct Kept {
    version: u64,
    answers: Vec<(Question, Bytes)>,
    bytes: usize,
}

impl Kept {
    fn find(&self, version: u64, question: &Question) -> Option<Bytes> {
        let mut answers = self.answers.iter().filter(|_| self.version == version);
        let (_, answer) = answers.find(|(known, _)| known == question)?;
        Some(answer.clone())
    }

    fn keep(&mut self, version: u64, question: Question, answer: &Bytes) {
        if self.version != version {
            *self = Kept {
                version,
                ..Kept::default()
            };
        }
        if self.bytes + answer.len() <= KEPT_BYTES {
            self.bytes += answer.len();
            self.answers.push((question, answer.clone()));
        }
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    // What is kept is only ever what was made.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Histories {
    /// Answers about this past.
    pub fn new(past: Shared<History>) -> Self {
        Histories {
            past,
            turns: Turns::new(),
            kept: Arc::default(),
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
        if let Some(answer) = lock(&self.kept).find(self.past.get().0, &question) {
            return Ok(answer);
        }
        let place = self.turns.place(from).ok_or(Refusal::Busy)?;
        let turn = place.turn().await.ok_or(Refusal::Busy)?;
        let (past, kept) = (self.past.clone(), self.kept.clone());
        let (tell, told) = oneshot::channel();
        // The work and the pause after it go on without whoever asked.
        actix_web::rt::spawn(async move {
            let begun = Instant::now();
            let made = web::block(move || make(question, &info, &past, &kept)).await;
            let took = begun.elapsed();
            let unfinished = |_| Err(Refusal::Failed("this answer could not be made".to_owned()));
            // Whoever is gone does without.
            let _ = tell.send(made.unwrap_or_else(unfinished));
            tokio::time::sleep((took * PAUSE).min(Duration::from_secs(2))).await;
            drop(turn);
        });
        let ended = |_| Err(Refusal::Failed("netto ends".to_owned()));
        told.await.unwrap_or_else(ended)
    }
}

fn make(
    question: Question,
    info: &Info,
    past: &Shared<History>,
    kept: &Mutex<Kept>,
) -> Result<Bytes, Refusal> {
    let (version, past) = past.get();
    // Somebody else may have asked the same meanwhile.
    if let Some(answer) = lock(kept).find(version, &question) {
        return Ok(answer);
    }
    let table = table::answer(&question, &past, info)?;
    drop(past);
    let text = text::text(&table, question.form).map_err(Refusal::Failed)?;
    let answer = Bytes::from(text.into_boxed_slice());
    lock(kept).keep(version, question, &answer);
    Ok(answer)
}

#[cfg(test)]
mod tests;
