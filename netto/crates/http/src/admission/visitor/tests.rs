//! What connections hold and give way, and whose turn comes; no socket.

use std::net::Ipv4Addr;
use std::pin::Pin;

use futures_util::future::join_all;
use proptest::prelude::*;

use super::*;

fn accounts(unauthenticated: usize, active: usize, dashboards: usize) -> Rc<Accounts> {
    let limits = Limits {
        unauthenticated,
        active,
        dashboards,
        bytes: 1 << 20,
    };
    Accounts::new(limits, Arc::default(), || {})
}

fn host(number: u8) -> Peer {
    Peer::new(Ipv4Addr::new(192, 0, number, 1).into(), None)
}

/// A connection of accounts of its own.
pub(crate) fn admitted(number: u8) -> Slot {
    accounts(9, 9, 9).admit(host(number)).unwrap()
}

/// Polls a future once.
pub(crate) async fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Option<F::Output> {
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await
}

fn are_gone(slots: &[&Slot]) -> Vec<bool> {
    let is_evicted = |slot: &&Slot| slot.connection().is_evicted();
    slots.iter().map(is_evicted).collect()
}

#[test]
fn strangers_never_take_the_place_of_a_guest_or_a_dashboard() {
    let all = accounts(1, 1, 1);
    let guest = all.admit(host(1)).unwrap();
    guest.visitor().mark_active();
    let dashboard = all.admit(host(1)).unwrap();
    let _open = dashboard.visitor().open_dashboard().unwrap();
    let crowd: Vec<_> = (0..200)
        .filter_map(|number| all.admit(host(number)))
        .collect();
    assert_eq!(crowd.len(), 200);
    assert_eq!(are_gone(&[&guest, &dashboard]), [false, false]);
    let is_there = |slot: &&Slot| !slot.connection().is_evicted();
    assert_eq!(crowd.iter().filter(is_there).count(), 1);
}

#[test]
fn one_peer_cannot_keep_all_dashboards() {
    let all = accounts(9, 9, 2);
    let open = |number| {
        let slot = all.admit(host(number)).unwrap();
        let dashboard = slot.visitor().open_dashboard();
        (slot, dashboard)
    };
    let (older, _a) = open(1);
    let (newer, _b) = open(1);
    assert!(open(1).1.is_none(), "it has its share already");
    let (other, dashboard) = open(2);
    assert!(dashboard.is_some());
    assert_eq!(are_gone(&[&older, &newer, &other]), [false, true, false]);
    assert!(open(3).1.is_none(), "everybody has one");
    assert_eq!(all.evictions.load(Ordering::Relaxed), 1);
}

#[test]
fn a_closing_dashboard_counts_as_a_stranger() {
    let all = accounts(1, 1, 8);
    let lingering: Vec<_> = (0..6)
        .map(|_| {
            let slot = all.admit(host(1)).unwrap();
            drop(slot.visitor().open_dashboard().unwrap());
            slot
        })
        .collect();
    let kept = lingering
        .iter()
        .filter(|slot| !slot.connection().is_evicted());
    assert!(kept.count() <= 1);
}

#[test]
fn bytes_are_held_until_they_are_read() {
    let all = accounts(9, 9, 9);
    let [one, other] = [1, 2].map(|number| all.admit(host(number)).unwrap());
    let page = Bytes::from(vec![0; 600_000]);
    let first = one.visitor().hold(&page).unwrap();
    let _again = other.visitor().hold(&page).unwrap();
    assert!(one.visitor().hold_bytes(600_000).is_none());
    drop(first);
    assert!(
        one.visitor().hold_bytes(600_000).is_none(),
        "the other reads it"
    );
    assert_eq!(are_gone(&[&one, &other]), [false, false]);
}

#[actix_web::test]
async fn profiles_are_shared_by_customer_and_a_place_is_free_once_a_recording_has_ended() {
    let all = accounts(9, 9, 9);
    let slots: Vec<_> = (0..5).map(|_| all.admit(host(1)).unwrap()).collect();
    let mut held = Vec::new();
    for slot in &slots[..2] {
        held.push(slot.visitor().profile().await.unwrap());
    }
    assert!(
        slots[2].visitor().profile().await.is_none(),
        "two places are kept"
    );
    let user = |number| all.admit(Peer::User(number)).unwrap();
    let (one, other) = (user(1), user(2));
    for slot in [&one, &other] {
        held.push(slot.visitor().profile().await.unwrap());
    }
    let third = user(3);
    let visitor = third.visitor();
    let mut waiting = Box::pin(visitor.profile());
    assert!(
        poll_once(&mut waiting).await.is_none(),
        "until the end of another"
    );
    assert_eq!(
        are_gone(&[&slots[0], &slots[1], &one, &other]),
        [false, true, false, false]
    );
    drop(held.remove(1));
    assert!(waiting.await.is_some());
}

#[actix_web::test]
async fn who_waits_for_a_turn_is_not_working_and_work_goes_on_without_its_client() {
    let all = accounts(9, 9, 9);
    let slots = [1, 2].map(|number| all.admit(host(number)).unwrap());
    let [one, other] = slots.each_ref().map(Slot::visitor);
    let (go, permission) = std::sync::mpsc::channel();
    let (tell, mut started) = oneshot::channel();
    let work = move || {
        let _ = permission.recv();
        let _ = tell.send(());
    };
    let mut first = Box::pin(one.in_turn(Work::Question, work, |()| true));
    assert!(poll_once(&mut first).await.is_none());
    let mut second = Box::pin(other.in_turn(Work::Question, || 7, |_| true));
    assert!(poll_once(&mut second).await.is_none());
    assert!(one.connection.waits_since().is_none());
    assert!(other.connection.waits_since().is_some());
    drop(first);
    assert!(
        poll_once(&mut second).await.is_none(),
        "the work still counts"
    );
    go.send(()).unwrap();
    assert_eq!(second.await, Some(7));
    assert!(started.try_recv().is_ok());
    let failed = one
        .in_turn(Work::Password, || panic!("no paper"), |()| true)
        .await;
    assert_eq!(failed, None);
    assert_eq!(one.in_turn(Work::Password, || 1, |_| true).await, Some(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A step polls a request or drops it, in any state: waiting, chosen, or working.
    #[test]
    fn however_requests_end_every_turn_comes_and_never_two_work_at_once(
        addresses in proptest::collection::vec(0_u8..4, 1..9),
        steps in proptest::collection::vec((0_usize..24, 0_u8..4), 0..100),
    ) {
        actix_web::rt::System::new().block_on(async {
            let all = accounts(64, 9, 9);
            let working = Arc::new(AtomicU64::new(0));
            let visitors: Vec<_> = addresses
                .iter()
                .map(|number| all.admit(host(*number)).unwrap())
                .collect();
            let mut waiting: Vec<_> = visitors
                .iter()
                .map(|slot| {
                    let (visitor, working) = (slot.visitor(), working.clone());
                    let work = move || {
                        assert_eq!(working.fetch_add(1, Ordering::SeqCst), 0);
                        working.fetch_sub(1, Ordering::SeqCst);
                    };
                    let turn = async move { visitor.in_turn(Work::Password, work, |()| false).await };
                    Some(Box::pin(turn))
                })
                .collect();
            for (index, action) in steps {
                let request = &mut waiting[index % addresses.len()];
                if action == 0 {
                    *request = None;
                } else if let Some(turn) = request
                    && let Some(done) = poll_once(turn).await
                {
                    assert!(done.is_some());
                    *request = None;
                }
            }
            let all_done = join_all(waiting.into_iter().flatten()).await;
            assert!(all_done.iter().all(Option::is_some));
            let slot = all.admit(Peer::User(1)).unwrap();
            assert_eq!(slot.visitor().in_turn(Work::Password, || 1, |_| true).await, Some(1));
        });
    }

    /// No order of events exceeds a budget.
    #[test]
    fn no_budget_is_ever_exceeded(steps in prop::collection::vec((0u8..6, 0u8..5, 0usize..40), 0..300)) {
        let all = accounts(5, 3, 2);
        let mut inside: Vec<(Slot, Option<Dashboard>)> = Vec::new();
        for (action, address, which) in steps {
            let chosen = which % inside.len().max(1);
            match action {
                0 => inside.extend(all.admit(host(address)).map(|slot| (slot, None))),
                1 if !inside.is_empty() => drop(inside.swap_remove(chosen)),
                2 if !inside.is_empty() => inside[chosen].0.visitor().mark_active(),
                3 if !inside.is_empty() => {
                    let opened = inside[chosen].0.visitor().open_dashboard();
                    if opened.is_some() {
                        inside[chosen].1 = opened;
                    }
                }
                4 if !inside.is_empty() => inside[chosen].1 = None,
                5 if !inside.is_empty() => inside[chosen].0.connection().enter(Phase::Working),
                _ => {}
            }
            // An evicted connection leaves as soon as its task runs.
            inside.retain(|(slot, _)| !slot.connection().is_evicted());
            let mut held = 0;
            for (pool, most) in all.pools.borrow().iter().zip([5, 3, 2]) {
                prop_assert!(pool.count() <= most);
                held += pool.count();
            }
            prop_assert_eq!(held, inside.len());
        }
    }
}
