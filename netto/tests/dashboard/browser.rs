//! A headless Chromium of the tests' own, by chromedriver.
//!
//! Where the kernel allows it, browser and driver live in a process namespace of
//! their own, so that the end of the one process that the test owns ends all.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::child::{self, Owned};
use crate::{demo, http, trial};

const START_LIMIT: Duration = Duration::from_secs(60);
/// How long the page may take to show anything.
const PAGE_LIMIT: Duration = Duration::from_secs(30);

/// An open browser window.
pub struct Browser {
    at: SocketAddr,
    session: String,
    driver: Owned,
    _profile: tempfile::TempDir,
}

/// The words before a command that put it into a process namespace of its own.
fn namespace() -> Vec<&'static str> {
    let own = [
        "unshare",
        "--pid",
        "--fork",
        "--kill-child=KILL",
        "--mount-proc",
    ];
    let mapped = [&own[..1], &["--user", "--map-root-user"], &own[1..]].concat();
    [own.to_vec(), mapped, Vec::new()]
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
    /// Starts a browser with a fresh profile and a window of this size.
    pub fn start(width: u32, height: u32) -> Result<Self> {
        let profile = tempfile::tempdir()?;
        let at = SocketAddr::from(([127, 0, 0, 1], demo::free_port()?));
        let port = format!("--port={}", at.port());
        let mut words = namespace();
        words.extend(["chromedriver", &port]);
        let (program, arguments) = words.split_first().context("no program")?;
        let mut driver = Owned::start(child::mortal(program).args(arguments))?;
        child::eventually(START_LIMIT, || {
            if let Some(status) = driver.try_wait()? {
                bail!("chromedriver ended ({status}): {}", driver.stderr());
            }
            http::get_ok(at, "/status").map(drop)
        })?;
        let capabilities = capabilities(profile.path())?;
        let session = value(http::request(at, "POST", "/session", Some(&capabilities))?)?;
        let session = session["sessionId"].as_str();
        let browser = Browser {
            at,
            session: session.context("no session")?.to_owned(),
            driver,
            _profile: profile,
        };
        browser.resize(width, height)?;
        Ok(browser)
    }

    /// Process number of the driver, from which the browser's processes descend.
    #[allow(dead_code, reason = "the benchmark of the page uses it")]
    pub fn driver_pid(&self) -> u32 {
        self.driver.pid()
    }

    fn post(&self, command: &str, body: &Value) -> Result<Value> {
        let path = format!("/session/{}/{command}", self.session);
        value(http::request(self.at, "POST", &path, Some(body))?)
    }

    /// A command of the browser's own protocol.
    pub fn cdp(&self, command: &str, parameters: Value) -> Result<Value> {
        let body = json!({ "cmd": command, "params": parameters });
        self.post("goog/cdp/execute", &body)
    }

    /// Gives the page a window of this size.
    pub fn resize(&self, width: u32, height: u32) -> Result<()> {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.cdp("Emulation.setDeviceMetricsOverride", size)
            .map(drop)
    }

    /// Makes the page believe that the reader's system is dark, or light.
    pub fn prefer(&self, scheme: &str) -> Result<()> {
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.cdp("Emulation.setEmulatedMedia", feature).map(drop)
    }

    /// Opens a page and waits until it is live.
    pub fn open(&self, url: &str) -> Result<()> {
        // A change behind `#` alone would not load the page anew.
        self.post("url", &json!({ "url": "about:blank" }))?;
        self.post("url", &json!({ "url": url }))?;
        self.wait_until(
            "the page is live",
            "return document.getElementById('netto').dataset.state === 'live'",
        )
    }

    /// Runs a script in the page; gives what it returns.
    pub fn script(&self, script: &str) -> Result<Value> {
        self.post("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// What a promise in the page comes to.
    pub fn promise(&self, expression: &str) -> Result<Value> {
        let script = format!(
            "const done = arguments[0]; Promise.resolve({expression}).then(done, (e) => done('failed: ' + e));"
        );
        let found = self.post("execute/async", &json!({ "script": script, "args": [] }))?;
        match found.as_str() {
            Some(text) if text.starts_with("failed: ") => bail!("{text}"),
            _ => Ok(found),
        }
    }

    /// The text of the first element that matches.
    pub fn text(&self, selector: &str) -> Result<String> {
        let script = format!("return document.querySelector({selector:?}).textContent.trim()");
        let text = self.script(&script)?;
        Ok(text.as_str().context("no text")?.to_owned())
    }

    /// Waits until a script returns true.
    pub fn wait_until(&self, what: &str, script: &str) -> Result<()> {
        child::eventually(PAGE_LIMIT, || {
            ensure!(self.script(script)? == true, "not so: {what}");
            Ok(())
        })
    }

    /// Presses and lets go of the button that does this.
    pub fn click(&self, act: &str) -> Result<()> {
        let script = format!("document.querySelector('[data-act=\"{act}\"]').click()");
        self.script(&script).map(drop)
    }

    /// A mouse event at a place in the window.
    pub fn mouse(&self, kind: &str, x: f64, y: f64) -> Result<()> {
        let pressed = if kind == "mouseMoved" { "none" } else { "left" };
        let event = json!({ "type": kind, "x": x, "y": y, "button": pressed, "clickCount": 1 });
        self.cdp("Input.dispatchMouseEvent", event).map(drop)
    }

    /// A key of the keyboard, by the browser's name for it.
    pub fn key(&self, key: &str) -> Result<()> {
        for kind in ["keyDown", "keyUp"] {
            self.cdp(
                "Input.dispatchKeyEvent",
                json!({ "type": kind, "key": key }),
            )?;
        }
        Ok(())
    }

    /// Left, top, width and height of the first element that matches, in the window.
    pub fn place(&self, selector: &str) -> Result<[f64; 4]> {
        let found = self.script(&format!(
            "const r = document.querySelector({selector:?}).getBoundingClientRect(); \
             return [r.left, r.top, r.width, r.height]"
        ))?;
        let number = |at: usize| found[at].as_f64().context("no place");
        Ok([number(0)?, number(1)?, number(2)?, number(3)?])
    }

    /// Fails if the console has got an error since the last time.
    pub fn must_be_content(&self) -> Result<()> {
        let log = self.post("se/log", &json!({ "type": "browser" }))?;
        let entries = log.as_array().context("the console's log is no list")?;
        let errors: Vec<String> = entries
            .iter()
            .filter(|entry| entry["level"] == "SEVERE")
            .map(|entry| entry["message"].to_string())
            // That a connection broke, or was refused meanwhile, is no fault of the page.
            .filter(|message| !message.contains("WebSocket connection"))
            .collect();
        ensure!(errors.is_empty(), "the console has errors: {errors:?}");
        Ok(())
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
                "--hide-scrollbars",
                format!("--user-data-dir={}", profile.display()),
            ],
        },
    }}}))
}
