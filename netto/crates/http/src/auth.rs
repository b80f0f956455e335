//! Basic authentication with bcrypt hashes, as in Prometheus' exporter-toolkit.
//!
//! bcrypt is slow on purpose, so it runs off the event loop, one check at a time, and a correct
//! password is remembered (as a keyed digest, in memory only, one for each user) so that a scrape
//! does not pay for it again. An unknown user costs as much as a wrong password, so that timing
//! reveals no names. `admission` orders the checks.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::http::header::HeaderValue;
use anyhow::{Context, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::rand::SystemRandom;

use super::admission::{Visitor, Work};

/// Usable bcrypt costs: 4 is bcrypt's least, and above 16 one check takes several seconds, during
/// which no other password is checked.
const COSTS: RangeInclusive<u32> = 4..=16;

/// The verdict on a request's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A known user with the right password.
    Accepted,
    /// Anything else.
    Refused,
}

/// The users and the recently accepted passwords.
pub struct Auth {
    users: HashMap<String, String>,
    /// Checked in place of an unknown user's hash.
    decoy: String,
    key: hmac::Key,
    verified: Mutex<HashMap<String, hmac::Tag>>,
}

impl Auth {
    /// Takes users with their bcrypt hashes; `None` if there are no users.
    ///
    /// # Errors
    /// If a hash is not one of bcrypt, or takes too long to check.
    pub fn new(users: HashMap<String, String>) -> anyhow::Result<Option<Arc<Auth>>> {
        let Some(decoy) = users.values().next().cloned() else {
            return Ok(None);
        };
        for (user, hash) in &users {
            if user.contains(':') {
                bail!(
                    "the user name \"{user}\" contains a colon, which basic authentication cannot carry"
                );
            }
            let parts = bcrypt::HashParts::from_str(hash).map_err(|error| {
                anyhow!("the password of user \"{user}\" is not a bcrypt hash ({error}); make one with `htpasswd -nBC 10 \"\"`")
            })?;
            let cost = parts.get_cost();
            if !COSTS.contains(&cost) {
                bail!(
                    "the password hash of user \"{user}\" has a bcrypt cost of {cost}, and netto takes {} to {}: \
                     each step doubles the time of a login; make one with `htpasswd -nBC 10 \"\"`",
                    COSTS.start(),
                    COSTS.end()
                );
            }
        }
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| anyhow!("no random numbers"))
            .context("cannot make a key for remembering passwords")?;
        Ok(Some(Arc::new(Auth {
            users,
            decoy,
            key,
            verified: Mutex::default(),
        })))
    }

    /// Checks the `Authorization` header of a visitor's request.
    ///
    /// A dropped future leaves at most the one check that is running for it.
    pub async fn check(
        self: &Arc<Self>,
        header: Option<&HeaderValue>,
        visitor: &Visitor,
    ) -> Verdict {
        let Some((user, password)) = header.and_then(credentials) else {
            return Verdict::Refused;
        };
        let message = [user.as_bytes(), &[0], password.as_bytes()].concat();
        if self.remembers(&user, &message) {
            return Verdict::Accepted;
        }
        let auth = self.clone();
        let work = move || {
            // The same password may have been accepted for another request meanwhile.
            let is_right = auth.remembers(&user, &message) || auth.verify(&user, &password);
            if is_right {
                auth.remember(user, &message);
            }
            is_right
        };
        match visitor
            .in_turn(Work::Password, work, |is_right| !is_right)
            .await
        {
            Some(true) => Verdict::Accepted,
            Some(false) | None => Verdict::Refused,
        }
    }

    fn remember(&self, user: String, message: &[u8]) {
        let tag = hmac::sign(&self.key, message);
        self.verified
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(user, tag);
    }

    fn remembers(&self, user: &str, message: &[u8]) -> bool {
        self.verified
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(user)
            .is_some_and(|tag| hmac::verify(&self.key, message, tag.as_ref()).is_ok())
    }

    /// Slow: runs bcrypt.
    fn verify(&self, user: &str, password: &str) -> bool {
        let known = self.users.get(user);
        let hash = known.unwrap_or(&self.decoy);
        let matches = bcrypt::verify(password, hash).unwrap_or(false);
        known.is_some() && matches
    }
}

/// User and password of a `Basic` header; `None` if it is anything else.
fn credentials(header: &HeaderValue) -> Option<(String, String)> {
    let (scheme, encoded) = header.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (user, password) = decoded.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;
    use crate::admission::Slot;
    use crate::admission::visitor::tests::{admitted, poll_once};

    /// The lowest cost that bcrypt has, so that the tests are quick.
    const COST: u32 = 4;

    fn auth() -> Arc<Auth> {
        static HASH: LazyLock<String> =
            LazyLock::new(|| bcrypt::hash("s3cret:with colon", COST).unwrap());
        let hash = HASH.clone();
        Auth::new(HashMap::from([("ada".to_owned(), hash)]))
            .unwrap()
            .expect("there is a user")
    }

    fn basic(text: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(text))).unwrap()
    }

    #[actix_web::test]
    async fn the_right_password_is_accepted_and_remembered() {
        let (auth, slot) = (auth(), admitted(1));
        let visitor = slot.visitor();
        let header = basic("ada:s3cret:with colon");
        assert_eq!(auth.check(Some(&header), &visitor).await, Verdict::Accepted);
        assert!(auth.remembers("ada", b"ada\0s3cret:with colon"));
        // While another one is checked only the memory can answer.
        let other = basic("ada:wrong");
        let mut checked = Box::pin(auth.check(Some(&other), &visitor));
        assert_eq!(poll_once(&mut checked).await, None);
        assert_eq!(auth.check(Some(&header), &visitor).await, Verdict::Accepted);
        assert_eq!(checked.await, Verdict::Refused);
    }

    #[actix_web::test]
    async fn everything_else_is_refused() {
        let (auth, slot) = (auth(), admitted(1));
        let visitor = slot.visitor();
        assert_eq!(auth.check(None, &visitor).await, Verdict::Refused);
        for header in [
            basic("ada:wrong"),
            basic("ada"),
            basic("eve:s3cret:with colon"),
            basic(":"),
            HeaderValue::from_static("Basic ???"),
            HeaderValue::from_static("Bearer abc"),
            HeaderValue::from_static("Basic"),
        ] {
            assert_eq!(
                auth.check(Some(&header), &visitor).await,
                Verdict::Refused,
                "{header:?}"
            );
        }
    }

    #[test]
    fn a_plain_password_is_not_a_hash() {
        let users = HashMap::from([("ada".to_owned(), "hunter2".to_owned())]);
        let error = Auth::new(users).err().expect("refused").to_string();
        assert!(error.contains("ada") && error.contains("bcrypt"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Requests are polled and dropped in any order, at any of their awaits; a pause lets work
        /// be finished that no request is waiting for.
        #[test]
        fn requests_that_are_dropped_leave_their_places_to_others(
            requests in proptest::collection::vec((0_u8..3, any::<bool>()), 1..12),
            steps in proptest::collection::vec((0_usize..12, 0_u8..6), 0..40),
        ) {
            actix_web::rt::System::new().block_on(async {
                let (auth, slots) = (auth(), [0, 1, 2].map(admitted));
                let visitors = slots.each_ref().map(Slot::visitor);
                let (right, wrong) = (basic("ada:s3cret:with colon"), basic("ada:wrong"));
                let mut open: Vec<_> = requests
                    .iter()
                    .map(|&(last, is_right)| {
                        let header = if is_right { &right } else { &wrong };
                        let visitor = &visitors[usize::from(last)];
                        Some((is_right, Box::pin(auth.check(Some(header), visitor))))
                    })
                    .collect();
                for (index, action) in steps {
                    let request = &mut open[index % requests.len()];
                    match (action, &mut *request) {
                        (0, _) => *request = None,
                        (1, _) => tokio::time::sleep(Duration::from_millis(2)).await,
                        (_, Some((is_right, future))) => {
                            if let Some(verdict) = poll_once(future).await {
                                let expected = [Verdict::Refused, Verdict::Accepted];
                                assert_eq!(verdict, expected[usize::from(*is_right)]);
                                *request = None;
                            }
                        }
                        (_, None) => {}
                    }
                }
                drop(open);
                let last = auth.check(Some(&right), &visitors[0]).await;
                assert_eq!(last, Verdict::Accepted);
            });
        }
    }

    #[actix_web::test]
    async fn a_right_password_is_remembered_even_if_nobody_waits_for_it() {
        let (auth, slot) = (auth(), admitted(1));
        let (visitor, right) = (slot.visitor(), basic("ada:s3cret:with colon"));
        let mut request = Box::pin(auth.check(Some(&right), &visitor));
        // Its turn comes at once, so that the check begins with the first poll.
        assert_eq!(poll_once(&mut request).await, None);
        drop(request);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !auth.remembers("ada", b"ada\0s3cret:with colon") {
            assert!(Instant::now() < deadline, "it is never remembered");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[test]
    fn costs_that_block_every_login_or_none_can_pass_are_refused() {
        let with_cost = |version: &str, cost: u32| {
            let hash = bcrypt::hash("s3cret", COST).unwrap();
            let hash = format!("${version}${cost:02}${}", &hash[7..]);
            Auth::new(HashMap::from([("ada".to_owned(), hash)]))
        };
        for version in ["2a", "2b", "2x", "2y"] {
            for cost in 0..100 {
                match with_cost(version, cost) {
                    Ok(_) => assert!(COSTS.contains(&cost), "{cost}"),
                    Err(error) => {
                        let text = error.to_string();
                        assert!(!COSTS.contains(&cost), "{cost}: {text}");
                        assert!(
                            text.contains("ada") && text.contains(&format!("cost of {cost},")),
                            "{text}"
                        );
                    }
                }
            }
        }
        assert!(with_cost("2c", 10).is_err());
    }

    #[test]
    fn without_users_there_is_no_authentication() {
        assert!(Auth::new(HashMap::new()).unwrap().is_none());
    }
}
