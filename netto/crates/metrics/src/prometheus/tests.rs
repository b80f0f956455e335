//! The content of scrapes, and when it is made.

use super::*;
use metrics_common::fixture::{info, measured as snapshot};

#[actix_web::test]
async fn a_page_is_the_same_bytes_until_the_next_snapshot() {
    let metrics = Metrics::new(Arc::new(info()), Default::default(), Default::default());
    for count in 1..=2 {
        metrics.shared.newest().totals.add(&snapshot(count));
        let page = metrics.page(Form::Text).await.unwrap();
        let text = String::from_utf8_lossy(&page);
        assert!(
            text.contains(&format!("netto_snapshots_total {count}\n")),
            "{text}"
        );
        // Many in less time than a page is kept without a new snapshot.
        let again = futures_util::future::join_all((0..50).map(|_| metrics.page(Form::Text))).await;
        for other in again {
            assert_eq!(other.unwrap().as_ptr(), page.as_ptr());
        }
    }
}
