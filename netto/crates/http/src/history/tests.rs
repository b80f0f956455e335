//! How answers about the past are given: each once, and none twice.

use actix_web::http::header::HeaderMap;
use metrics_common::{Snapshot, fixture};

use super::question::question;
use super::*;

fn past() -> Shared<History> {
    Shared::new(History::new(&fixture::info()))
}

fn asked(query: &str) -> Question {
    question(query, &HeaderMap::new()).unwrap()
}

async fn answered(histories: &Histories, query: &str) -> Result<Bytes, Refusal> {
    let info = Arc::new(fixture::info());
    histories.answer(asked(query), info, None).await
}

#[actix_web::test]
async fn who_asks_the_same_gets_the_same_until_there_is_another_snapshot() {
    let past = past();
    let histories = Histories::new(past.clone(), Turns::new());
    let first = answered(&histories, "component=rx_softirq").await.unwrap();
    let again = answered(&histories, "component=rx_softirq").await.unwrap();
    assert_eq!(again.as_ptr(), first.as_ptr());
    let other = answered(&histories, "component=gro").await.unwrap();
    assert_ne!(other, first);
    past.change(|past| {
        past.push(&Snapshot {
            sequence: 1,
            time_unix_ns: 5_000_000_000,
            interval_ns: 500_000_000,
            ..Snapshot::default()
        });
    });
    let later = answered(&histories, "component=rx_softirq").await.unwrap();
    assert_ne!(later, first);
}

#[actix_web::test]
async fn a_question_that_cannot_be_answered_is_told_so() {
    let histories = Histories::new(past(), Turns::new());
    let refused = answered(&histories, "component=nonsense")
        .await
        .unwrap_err();
    assert!(matches!(refused, Refusal::Wrong(_)), "{refused:?}");
}
