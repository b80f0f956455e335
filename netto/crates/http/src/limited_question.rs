//! Responses to queries of features, computed from the collector's history and its newest
//! snapshots: one at a time, when the peer's turn has come (`admission` bounds their CPU time), and
//! cached until the source changes, so that many clients with the same query cost as much as one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actix_web::web::Bytes;
use metrics_common::codec::{self, Gap, ServerMessage};
use metrics_common::{Info, Snapshot};
use netto_metrics::prometheus::Metrics;
use netto_pipeline::metrics_collector::CollectorData;
use netto_pipeline::recent::Recent;
use netto_pipeline::shared::Shared;
use netto_questions::api::{Answer, Question, Refusal, Snapshots, sum_of};
use netto_questions::newest::answer as answer_of_section;
use netto_questions::selection::{Selection, When};

use super::admission::{Visitor, Work};

/// Why there is no sum of a time.
const NOT_KEPT: &str =
    "no interval of this time is kept: netto keeps those of the last minutes, and a log file all";
/// Cached responses of one question for the current version, bytes.
const CACHE_BYTES: usize = 4 << 20;

/// A query with its valid responses.
pub struct LimitedQuestion {
    /// The question.
    pub question: &'static Question,
    cache: Arc<Mutex<ResponseCache>>,
}

/// Responses computed from one version of the source.
#[derive(Default)]
struct ResponseCache {
    version: u64,
    answers: Vec<(Selection, Bytes)>,
}

impl ResponseCache {
    fn find(&self, version: u64, question: &Selection) -> Option<Bytes> {
        let mut answers = self.answers.iter().filter(|_| self.version == version);
        let (_, answer) = answers.find(|(known, _)| known == question)?;
        Some(answer.clone())
    }

    fn keep(&mut self, version: u64, question: Selection, answer: &Bytes) {
        if self.version != version {
            *self = ResponseCache::default();
            self.version = version;
        }
        let bytes: usize = self.answers.iter().map(|(_, answer)| answer.len()).sum();
        if bytes + answer.len() <= CACHE_BYTES {
            self.answers.push((question, answer.clone()));
        }
    }
}

fn lock(cache: &Mutex<ResponseCache>) -> MutexGuard<'_, ResponseCache> {
    // A poisoned lock still holds only complete responses.
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LimitedQuestion {
    /// No response is known yet.
    pub fn new(question: &'static Question) -> Self {
        LimitedQuestion {
            question,
            cache: Arc::default(),
        }
    }

    /// The response for this visitor; `None` if it needs snapshots that are not kept because they
    /// come from a log.
    pub async fn answer(
        &self,
        selection: Selection,
        (kept, metrics): (&CollectorData, &Metrics),
        info: Arc<Info>,
        visitor: &Visitor,
    ) -> Option<Result<Bytes, Refusal>> {
        Some(match self.question.answer {
            // It takes as little as any other request, so it need not wait for its turn.
            Answer::State { now, .. } => metrics
                .of_states(|states| now(&selection, states, &info))
                .map(Bytes::from),
            Answer::History(answer) => {
                let make =
                    move |selection: &Selection, past: Arc<_>| answer(selection, &past, &info);
                self.limited(&kept.past, selection, visitor, make).await
            }
            kind @ (Answer::Recent(_) | Answer::Section | Answer::Span) => {
                let name = self.question.name;
                let make = move |selection: &Selection, recent: Arc<Recent>| {
                    let mut snapshots = selected(&recent, selection);
                    match kind {
                        Answer::Recent(answer) => answer(selection, &mut snapshots, &info),
                        Answer::Span => span(&mut snapshots),
                        _ => answer_of_section(name, &mut snapshots, &info),
                    }
                };
                let recent = kept.recent.as_ref()?;
                self.limited(recent, selection, visitor, make).await
            }
        })
    }

    /// The response, computed from the shared data as it is then.
    async fn limited<T: Clone + Send + Sync + 'static>(
        &self,
        shared: &Shared<T>,
        question: Selection,
        visitor: &Visitor,
        make: impl FnOnce(&Selection, Arc<T>) -> Result<Vec<u8>, Refusal> + Send + 'static,
    ) -> Result<Bytes, Refusal> {
        if let Some(answer) = lock(&self.cache).find(shared.get().0, &question) {
            return Ok(answer);
        }
        let (shared, cache) = (shared.clone(), self.cache.clone());
        let work = move || {
            let (version, value) = shared.get();
            // Another client may have asked the same meanwhile.
            if let Some(answer) = lock(&cache).find(version, &question) {
                return Ok(answer);
            }
            let answer = Bytes::from(make(&question, value)?.into_boxed_slice());
            lock(&cache).keep(version, question, &answer);
            Ok(answer)
        };
        let made = visitor.in_turn(Work::Question, work, |_| true).await;
        let failed = || Refusal::Failed("netto could not produce this answer".to_owned());
        made.unwrap_or_else(|| Err(failed()))
    }
}

/// All of these, added up, as a message for dashboards; a gap where there are none.
fn span(snapshots: Snapshots<'_>) -> Result<Vec<u8>, Refusal> {
    let message = match sum_of(snapshots)? {
        Some(sum) => ServerMessage::Snapshot(Box::new(sum)),
        None => ServerMessage::Gap(Gap {
            reason: NOT_KEPT.to_owned(),
            ..Gap::default()
        }),
    };
    let failed = |error| Refusal::Failed(format!("the sum of the intervals: {error}"));
    codec::encode(&message).map_err(failed)
}

/// The kept snapshots of the selected time: those that end in it.
fn selected(
    recent: &Recent,
    selection: &Selection,
) -> impl Iterator<Item = Result<Snapshot, Refusal>> {
    let ends = || recent.entries().map(|entry| entry.time_unix_ns());
    let newest_ns = ends().max().unwrap_or(0);
    let unix_ns = |when: When| (when.unix_ms(newest_ns as f64 / 1e6) * 1e6) as u64;
    let after_ns = match selection.from {
        Some(from) => unix_ns(from),
        None => newest_ns.saturating_sub(selection.last_ns),
    };
    let until_ns = selection.to.map_or(u64::MAX, unix_ns);
    let entries = recent.entries();
    let entries = entries.filter(move |entry| {
        let end_ns = entry.time_unix_ns();
        end_ns > after_ns && end_ns <= until_ns
    });
    entries.filter_map(|entry| match codec::decode(&entry.snapshot) {
        Ok(ServerMessage::Snapshot(snapshot)) => Some(Ok(*snapshot)),
        Ok(_) => None,
        Err(error) => Some(Err(Refusal::Failed(format!(
            "a snapshot that was kept: {error}"
        )))),
    })
}

#[cfg(test)]
mod tests {
    use metrics_common::fixture;
    use metrics_common::history::History;
    use netto_metrics::State;
    use netto_metrics::catalogue::Catalogue;
    use netto_metrics::prometheus::Exported;
    use netto_pipeline::attention::Attention;
    use netto_pipeline::metrics_collector::Latest;
    use netto_pipeline::shared::Shared;
    use netto_questions::history::HISTORY;

    use super::*;
    use crate::admission::visitor;

    const SECOND_NS: u64 = 1_000_000_000;
    /// Answers with the sequence numbers of the snapshots.
    const NUMBERS: Question = Question {
        name: "numbers",
        keys: &["last"],
        answer: Answer::Recent(|_, snapshots, _| {
            let numbers =
                snapshots.map(|snapshot| snapshot.map(|snapshot| snapshot.sequence as u8));
            numbers.collect()
        }),
    };

    fn snapshot(sequence: u64) -> Snapshot {
        Snapshot {
            sequence,
            time_unix_ns: sequence * SECOND_NS,
            interval_ns: SECOND_NS,
            ..Snapshot::default()
        }
    }

    fn kept(snapshots: u64) -> CollectorData {
        let info = Arc::new(fixture::info());
        let mut recent = Recent::default();
        for snapshot in (1..=snapshots).map(snapshot) {
            let bytes = codec::encode_snapshot(&snapshot).unwrap();
            recent.push(&info, &bytes, snapshot.time_unix_ns).unwrap();
        }
        CollectorData {
            latest: Latest::default(),
            attention: Attention::default(),
            past: Shared::new(History::new(&info)),
            recent: Some(Shared::new(recent)),
        }
    }

    /// Keeps the number of intervals.
    #[derive(Debug, Clone, Default)]
    struct Count(u8);

    impl State for Count {
        fn add(&mut self, _: &Snapshot, _: &mut Snapshot) {
            self.0 += 1;
        }

        fn copy(&self) -> Box<dyn State> {
            Box::new(self.clone())
        }
    }

    /// Metrics of three intervals, of which a feature keeps the number.
    fn metrics() -> Metrics {
        let counting = Catalogue {
            state: Some(|| Box::<Count>::default()),
            ..Catalogue::of(&[])
        };
        let info = Arc::new(fixture::info());
        let exported = Exported {
            catalogues: Arc::new([counting]),
            ..Exported::default()
        };
        let metrics = Metrics::new(info.clone(), Default::default(), exported);
        (1..=3).for_each(|number| metrics.add(info.clone(), &snapshot(number)));
        metrics
    }

    async fn answered(
        asked: &LimitedQuestion,
        query: &str,
        kept: &CollectorData,
    ) -> Option<Result<Bytes, Refusal>> {
        let selection = asked.question.parse(query, "").unwrap();
        let info = Arc::new(fixture::info());
        let slot = visitor::tests::admitted(7);
        let sources = (kept, &metrics());
        asked
            .answer(selection, sources, info, &slot.visitor())
            .await
    }

    #[actix_web::test]
    async fn who_asks_the_same_gets_the_same_until_there_is_another_snapshot() {
        let (kept, asked) = (kept(0), LimitedQuestion::new(&HISTORY));
        let answer = async |query| answered(&asked, query, &kept).await.unwrap().unwrap();
        let first = answer("component=rx_softirq").await;
        assert_eq!(
            answer("component=rx_softirq").await.as_ptr(),
            first.as_ptr()
        );
        assert_ne!(answer("component=gro").await, first);
        kept.past.change(|past| past.push(&snapshot(5)));
        assert_ne!(answer("component=rx_softirq").await, first);
    }

    #[actix_web::test]
    async fn a_question_that_cannot_be_answered_is_told_so() {
        let (kept, asked) = (kept(0), LimitedQuestion::new(&HISTORY));
        let answer = answered(&asked, "component=nonsense", &kept).await.unwrap();
        assert!(matches!(answer, Err(Refusal::Wrong(_))), "{answer:?}");
    }

    #[actix_web::test]
    async fn what_a_feature_keeps_of_all_intervals_is_found_by_its_type_without_snapshots_too() {
        const COUNTED: Question = Question {
            name: "counted",
            keys: &[],
            answer: Answer::State {
                now: |_, states, _| {
                    let count = states
                        .iter()
                        .find_map(|state| state.downcast_ref::<Count>());
                    Ok(vec![count.unwrap().0])
                },
                news: |_, _| None,
            },
        };
        let mut kept = kept(0);
        kept.recent = None;
        let asked = LimitedQuestion::new(&COUNTED);
        let answer = answered(&asked, "", &kept).await.unwrap().unwrap();
        assert_eq!(answer, vec![3]);
    }

    #[actix_web::test]
    async fn an_answer_is_of_the_newest_snapshots_of_the_time_that_is_asked_for() {
        let (mut kept, asked) = (kept(100), LimitedQuestion::new(&NUMBERS));
        for (query, first) in [("", 41), ("last=2s", 99), ("last=1h", 1)] {
            let answer = answered(&asked, query, &kept).await.unwrap().unwrap();
            assert_eq!(answer, (first..=100).collect::<Vec<u8>>(), "{query}");
        }
        kept.recent = None;
        assert!(answered(&asked, "", &kept).await.is_none());
    }

    #[actix_web::test]
    async fn a_span_is_one_message_with_the_intervals_that_end_in_it_or_says_that_none_is_kept() {
        let (kept, asked) = (kept(100), LimitedQuestion::new(&Question::SPAN));
        for (query, first, last) in [
            ("from=40&to=50", 41, 50),
            ("from=40.5&to=50.9", 41, 50),
            ("last=2s", 99, 100),
            ("from=-10s", 91, 100),
        ] {
            let answer = answered(&asked, query, &kept).await.unwrap().unwrap();
            let Ok(ServerMessage::Snapshot(sum)) = codec::decode(&answer) else {
                panic!("{query}: no snapshot");
            };
            assert_eq!(sum.time_unix_ns, last * SECOND_NS, "{query}");
            assert_eq!(sum.interval_ns, (last - first + 1) * SECOND_NS, "{query}");
        }
        let none = answered(&asked, "from=1000&to=1010", &kept).await;
        let Ok(ServerMessage::Gap(gap)) = codec::decode(&none.unwrap().unwrap()) else {
            panic!("there is something");
        };
        assert!(gap.reason.contains("log file"), "{}", gap.reason);
    }

    #[test]
    fn answers_are_kept_within_the_bound_and_for_one_version_only() {
        let with_step = |step| HISTORY.parse(&format!("step={step}"), "").unwrap();
        let mut cache = ResponseCache::default();
        let half = Bytes::from(vec![0; CACHE_BYTES / 2]);
        for step in [1, 2, 3] {
            cache.keep(1, with_step(step), &half);
        }
        assert!(cache.find(1, &with_step(2)).is_some());
        assert!(cache.find(1, &with_step(3)).is_none(), "no room");
        assert!(cache.find(2, &with_step(2)).is_none());
        cache.keep(2, with_step(3), &half);
        assert!(cache.find(2, &with_step(3)).is_some());
        assert!(cache.find(1, &with_step(2)).is_none());
    }
}
