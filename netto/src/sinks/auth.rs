//! Basic authentication with bcrypt hashes, as Prometheus' exporter-toolkit has it.
//!
//! bcrypt is slow on purpose, so it runs off the event loop, few at a time, and
//! a password that was right is remembered (as a keyed digest, only in memory)
//! so that a scrape does not pay for it again. An unknown user costs as much as
//! a wrong password, so that names cannot be guessed by timing.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use actix_web::http::header::HeaderValue;
use actix_web::web;
use anyhow::{Context, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use ring::rand::SystemRandom;
use tokio::sync::Semaphore;

/// Passwords that may wait to be checked; more are turned away.
const MAX_WAITING: usize = 32;

/// The answer to a request's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A known user with the right password.
    Accepted,
    /// Anything else.
    Refused,
    /// Too many passwords are being checked already.
    Busy,
}

/// The users and the passwords that were right lately.
pub struct Auth {
    users: HashMap<String, String>,
    /// Checked in place of an unknown user's hash.
    decoy: String,
    key: hmac::Key,
    verified: Mutex<HashMap<String, hmac::Tag>>,
    workers: Semaphore,
    waiting: AtomicUsize,
}

impl Auth {
    /// Takes users with their bcrypt hashes; `None` if there are no users.
    ///
    /// # Errors
    /// If a hash is not one of bcrypt.
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
            bcrypt::HashParts::from_str(hash).map_err(|error| {
                anyhow!("the password of user \"{user}\" is not a bcrypt hash ({error}); make one with `htpasswd -nBC 10 \"\"`")
            })?;
        }
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| anyhow!("no random numbers"))
            .context("cannot make a key for remembering passwords")?;
        Ok(Some(Arc::new(Auth {
            users,
            decoy,
            key,
            verified: Mutex::default(),
            workers: Semaphore::new(1),
            waiting: AtomicUsize::new(0),
        })))
    }

    /// Judges the `Authorization` header of a request.
    pub async fn check(self: &Arc<Self>, header: Option<&HeaderValue>) -> Verdict {
        let Some((user, password)) = header.and_then(credentials) else {
            return Verdict::Refused;
        };
        let message = [user.as_bytes(), &[0], password.as_bytes()].concat();
        if self.remembers(&user, &message) {
            return Verdict::Accepted;
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= MAX_WAITING {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Verdict::Busy;
        }
        let right = self.verify(user.clone(), password).await;
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        if !right {
            return Verdict::Refused;
        }
        let tag = hmac::sign(&self.key, &message);
        self.verified
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(user, tag);
        Verdict::Accepted
    }

    fn remembers(&self, user: &str, message: &[u8]) -> bool {
        self.verified
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(user)
            .is_some_and(|tag| hmac::verify(&self.key, message, tag.as_ref()).is_ok())
    }

    async fn verify(&self, user: String, password: String) -> bool {
        let Ok(_worker) = self.workers.acquire().await else {
            return false;
        };
        let known = self.users.get(&user);
        let hash = known.unwrap_or(&self.decoy).clone();
        let matches = web::block(move || bcrypt::verify(password, &hash).unwrap_or(false)).await;
        known.is_some() && matches.unwrap_or(false)
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
    use super::*;

    /// The lowest cost that bcrypt has, so that the tests are quick.
    const COST: u32 = 4;

    fn auth() -> Arc<Auth> {
        let hash = bcrypt::hash("s3cret:with colon", COST).unwrap();
        Auth::new(HashMap::from([("ada".to_owned(), hash)]))
            .unwrap()
            .expect("there is a user")
    }

    fn basic(text: &str) -> HeaderValue {
        HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(text))).unwrap()
    }

    #[actix_web::test]
    async fn the_right_password_is_accepted_and_remembered() {
        let auth = auth();
        let header = basic("ada:s3cret:with colon");
        assert_eq!(auth.check(Some(&header)).await, Verdict::Accepted);
        assert!(auth.remembers("ada", b"ada\0s3cret:with colon"));
        // With no worker left only the memory can answer.
        auth.workers.close();
        assert_eq!(auth.check(Some(&header)).await, Verdict::Accepted);
        assert_eq!(
            auth.check(Some(&basic("ada:wrong"))).await,
            Verdict::Refused
        );
    }

    #[actix_web::test]
    async fn everything_else_is_refused() {
        let auth = auth();
        assert_eq!(auth.check(None).await, Verdict::Refused);
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
                auth.check(Some(&header)).await,
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

    #[test]
    fn without_users_there_is_no_authentication() {
        assert!(Auth::new(HashMap::new()).unwrap().is_none());
    }
}
