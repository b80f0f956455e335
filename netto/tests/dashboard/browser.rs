//! What a reader does with the page, in a browser of the tests' own: opens it,
//! looks, points, clicks, types. A browser serves one test after the other.

use std::cell::RefCell;
use std::mem;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::{child, webdriver};

/// Browsers that no test uses at the moment.
static IDLE: Mutex<Vec<Arc<webdriver::Browser>>> = Mutex::new(Vec::new());

/// Closes the browsers that the tests have used.
pub fn end() {
    idle().clear();
}

fn idle() -> MutexGuard<'static, Vec<Arc<webdriver::Browser>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open browser window.
pub struct Browser {
    window: Arc<webdriver::Browser>,
    /// Identifiers of the scripts added to each page.
    scripts: RefCell<Vec<Value>>,
}

impl Deref for Browser {
    type Target = webdriver::Browser;

    fn deref(&self) -> &Self::Target {
        &self.window
    }
}

impl Browser {
    /// A window of this size, without a page.
    pub fn start(width: u32, height: u32) -> Result<Self> {
        // The lock is not held while a browser starts.
        let used = idle().pop();
        let window = match used {
            Some(window) => window,
            None => Arc::new(child::start_lasting(|| {
                webdriver::Browser::start("--hide-scrollbars")
            })?),
        };
        let browser = Browser {
            window,
            scripts: RefCell::default(),
        };
        browser.resize(width, height)?;
        Ok(browser)
    }

    /// A window in which all views are in sight, since those out of sight are not updated.
    pub fn tall() -> Result<Self> {
        Browser::start(1400, 9000)
    }

    /// Leaves nothing of a test to the next one.
    fn reset(&self) -> Result<()> {
        for script in self.scripts.take() {
            let parameters = json!({ "identifier": script });
            self.cdp("Page.removeScriptToEvaluateOnNewDocument", parameters)?;
        }
        self.cdp("Emulation.setEmulatedMedia", json!({ "features": [] }))?;
        self.window.open("about:blank")?;
        self.mouse("mouseMoved", 0.0, 0.0)?;
        self.console_errors().map(drop)
    }

    /// Runs a script in each page that is opened from now on, before its own.
    pub fn add_to_pages(&self, script: &str) -> Result<()> {
        let command = "Page.addScriptToEvaluateOnNewDocument";
        let mut added = self.cdp(command, json!({ "source": script }))?;
        self.scripts.borrow_mut().push(added["identifier"].take());
        Ok(())
    }

    /// Lets a minute pass for the page: sets its clock, and waits until what it does once a second
    /// has seen that.
    pub fn let_a_minute_pass(&self) -> Result<()> {
        self.script("const now = Date.now; Date.now = () => now() + 60000")?;
        self.promise("new Promise((done) => setTimeout(done, 2100))")
            .map(drop)
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
        self.window.open("about:blank")?;
        self.window.open(url)?;
        self.wait_until(
            "the page is live",
            "return document.getElementById('netto').dataset.state === 'live'",
        )
    }

    /// The value of a promise in the page.
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
        child::eventually(|| {
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
        let mut event = json!({ "type": "keyDown", "key": key });
        if key == "Enter" {
            // A button is pressed by its character.
            event["text"] = json!("\r");
            event["windowsVirtualKeyCode"] = json!(13);
        }
        self.cdp("Input.dispatchKeyEvent", event)?;
        self.cdp(
            "Input.dispatchKeyEvent",
            json!({ "type": "keyUp", "key": key }),
        )?;
        Ok(())
    }

    /// Left, top, width and height of the first element that matches, in the window.
    pub fn place(&self, selector: &str) -> Result<[f64; 4]> {
        self.place_by(&format!(
            "const r = document.querySelector({selector:?}).getBoundingClientRect(); \
             return [r.left, r.top, r.width, r.height]"
        ))
    }

    /// Where a script finds something in the window, once that stays: a daemon's page asks for
    /// anomalies after its first snapshot, and their list moves what stands below it.
    pub fn place_by<const N: usize>(&self, script: &str) -> Result<[f64; N]> {
        self.wait_until(
            "the page has the list of anomalies",
            "return performance.getEntriesByType('resource').some((e) => e.name.includes('api/v1/anomalies'))",
        )?;
        let mut last = self.place_now(script)?;
        child::eventually(|| {
            let now = self.place_now(script)?;
            ensure!(now == mem::replace(&mut last, now), "it moves");
            Ok(())
        })?;
        Ok(last)
    }

    fn place_now<const N: usize>(&self, script: &str) -> Result<[f64; N]> {
        // Two frames later, what has arrived is drawn.
        let found = self.promise(&format!(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => \
             done((() => {{ {script} }})()))))"
        ))?;
        let mut place = [0.0; N];
        for (at, coordinate) in place.iter_mut().enumerate() {
            *coordinate = found[at].as_f64().context("no place")?;
        }
        Ok(place)
    }

    /// Fails if the console has got an error since the last time.
    pub fn must_be_content(&self) -> Result<()> {
        let mut errors = self.console_errors()?;
        // That a connection broke, or was refused meanwhile, is no fault of the page.
        errors.retain(|message| !message.contains("WebSocket connection"));
        ensure!(errors.is_empty(), "the console has errors: {errors:?}");
        Ok(())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A page that cannot be reset is closed, and the next test starts another.
        if self.reset().is_ok() {
            idle().push(self.window.clone());
        }
    }
}
