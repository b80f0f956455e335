//! The least WebDriver client: a headless Chromium of the test's own, by chromedriver.
//!
//! Browser and driver live in a process namespace of their own, so that killing
//! the one process that the test owns ends all of theirs.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::child::{self, Owned};
use crate::{daemon, http, trial};

const START_LIMIT: Duration = Duration::from_secs(60);

/// An open browser window.
pub struct Browser {
    at: SocketAddr,
    session: String,
    _driver: Owned,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser with a fresh profile.
    pub fn start() -> Result<Self> {
        let profile = tempfile::tempdir()?;
        let at = SocketAddr::from(([127, 0, 0, 1], daemon::free_port()?));
        let mut driver = Owned::start(child::mortal("unshare").args([
            "--pid",
            "--fork",
            "--kill-child=KILL",
            "--mount-proc",
            "chromedriver",
            &format!("--port={}", at.port()),
        ]))?;
        child::eventually(START_LIMIT, || {
            if let Some(status) = driver.try_wait()? {
                bail!("chromedriver ended ({status}): {}", driver.stderr());
            }
            http::get_ok(at, "/status").map(drop)
        })?;
        let capabilities = capabilities(profile.path())?;
        let session = value(http::request(at, "POST", "/session", Some(&capabilities))?)?;
        let session = session["sessionId"]
            .as_str()
            .with_context(|| format!("no session: {session}"))?
            .to_owned();
        Ok(Browser {
            at,
            session,
            _driver: driver,
            _profile: profile,
        })
    }

    fn post(&self, command: &str, body: &Value) -> Result<Value> {
        let path = format!("/session/{}/{command}", self.session);
        value(http::request(self.at, "POST", &path, Some(body))?)
    }

    /// Opens a page and waits until it has loaded.
    pub fn open(&self, url: &str) -> Result<()> {
        self.post("url", &json!({ "url": url })).map(drop)
    }

    /// Runs a script in the page; gives what it returns.
    pub fn script(&self, script: &str) -> Result<Value> {
        self.post("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Errors that the browser's console has got since the last time.
    pub fn console_errors(&self) -> Result<Vec<String>> {
        let log = self.post("se/log", &json!({ "type": "browser" }))?;
        let entries = log.as_array().context("the console's log is no list")?;
        Ok(entries
            .iter()
            .filter(|entry| entry["level"] == "SEVERE")
            .map(|entry| entry["message"].to_string())
            .collect())
    }
}

/// The answer to a WebDriver command, or the error it describes.
fn value(response: http::Response) -> Result<Value> {
    let mut body = response.json()?;
    let value = body["value"].take();
    if let Some(error) = value["error"].as_str() {
        bail!("WebDriver: {error}: {}", value["message"]);
    }
    Ok(value)
}

/// Root needs `--no-sandbox`; the rest keeps the browser from talking to the world.
fn capabilities(profile: &Path) -> Result<Value> {
    let binary = trial::find_program("chromium").context("no chromium")?;
    Ok(json!({ "capabilities": { "alwaysMatch": {
        "browserName": "chrome",
        "goog:loggingPrefs": { "browser": "ALL" },
        "goog:chromeOptions": {
            "binary": binary,
            "args": [
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                // Tall, for the page lets rest what is out of sight.
                "--window-size=1400,3200",
                format!("--user-data-dir={}", profile.display()),
            ],
        },
    }}}))
}
