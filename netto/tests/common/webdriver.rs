//! The least WebDriver client: a headless Chromium of the test's own, by chromedriver.
//!
//! Where the kernel allows it, browser and driver live in a process namespace of
//! their own, so that the end of the one process that the test owns ends all.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::child::{self, Owned};
use super::{http, trial};

/// An option of [`Browser::start`]: tall, because the page does not draw views out of sight.
pub const TALL_WINDOW: &str = "--window-size=1400,4800";

/// An open browser window.
pub struct Browser {
    at: SocketAddr,
    session: String,
    driver: Owned,
    _profile: tempfile::TempDir,
}

/// The words before a command that put it into a process namespace of its own.
fn namespace() -> Vec<&'static str> {
    let unshare = [
        "unshare",
        "--pid",
        "--fork",
        "--kill-child=KILL",
        "--mount-proc",
    ];
    let mapped = [&unshare[..1], &["--user", "--map-root-user"], &unshare[1..]].concat();
    [unshare.to_vec(), mapped, Vec::new()]
        .into_iter()
        .find(|words| match words.split_first() {
            None => true,
            Some((program, arguments)) => Command::new(program)
                .args(arguments)
                .arg("true")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success()),
        })
        .unwrap_or_default()
}

impl Browser {
    /// Starts a browser with a fresh profile and one more option.
    pub fn start(option: &str) -> Result<Self> {
        let profile = tempfile::tempdir()?;
        let at = SocketAddr::from(([127, 0, 0, 1], child::free_port()?));
        let port = format!("--port={}", at.port());
        let mut words = namespace();
        words.extend(["chromedriver", &port]);
        let (program, arguments) = words.split_first().context("no program")?;
        let mut driver = Owned::start(child::mortal(program).args(arguments))?;
        child::eventually(|| {
            if let Some(status) = driver.try_wait()? {
                bail!("chromedriver ended ({status}): {}", driver.stderr());
            }
            http::get_ok(at, "/status").map(drop)
        })?;
        let capabilities = capabilities(profile.path(), option)?;
        let session = value(http::request(at, "POST", "/session", Some(&capabilities))?)?;
        let session = session["sessionId"]
            .as_str()
            .with_context(|| format!("no session: {session}"))?
            .to_owned();
        Ok(Browser {
            at,
            session,
            driver,
            _profile: profile,
        })
    }

    /// Process number of the driver, from which the browser's processes descend.
    #[allow(dead_code, reason = "the benchmark of the page uses it")]
    pub fn driver_pid(&self) -> u32 {
        self.driver.pid()
    }

    /// Sends a command of this session; gives its answer.
    pub fn post(&self, command: &str, body: &Value) -> Result<Value> {
        let path = format!("/session/{}/{command}", self.session);
        value(http::request(self.at, "POST", &path, Some(body))?)
    }

    /// Opens a page and waits until it has loaded.
    pub fn open(&self, url: &str) -> Result<()> {
        self.post("url", &json!({ "url": url })).map(drop)
    }

    /// Runs a script in the page; returns its result.
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

impl Drop for Browser {
    fn drop(&mut self) {
        // Without a namespace of its own the browser would outlive its driver.
        let path = format!("/session/{}", self.session);
        let _ = http::request(self.at, "DELETE", &path, None);
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
fn capabilities(profile: &Path, option: &str) -> Result<Value> {
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
                option,
                format!("--user-data-dir={}", profile.display()),
            ],
        },
    }}}))
}
