//! The question about the history: series and CPUs over the time kept by the daemon. Pure.

use metrics_common::Info;
use metrics_common::history::History;

use crate::api::{Answer, Question, Refusal};
use crate::selection::Selection;

pub mod table;
mod text;

/// `/api/v1/history`.
pub const HISTORY: Question = Question {
    name: "history",
    keys: &["component", "cpu", "from", "to", "step", "format"],
    answer: Answer::History(answer),
};

fn answer(selection: &Selection, history: &History, info: &Info) -> Result<Vec<u8>, Refusal> {
    text::text(&table::answer(selection, history, info)?, selection.form)
}
