//! The web configuration in force, which follows its files: a new certificate or password holds
//! for the next connection or request, without a restart.
//!
//! A change that cannot be used, or that would leave out TLS or passwords, changes nothing: a file
//! is also read while somebody writes it. A disk that does not answer stops only the thread that
//! looks at the files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::web_config::WebConfig;

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(5);

/// Device, inode, size and time of change of each file, in nanoseconds; `None` of one that is
/// not there.
type Stamps = Vec<Option<(u64, u64, u64, i64, i64)>>;

/// The configuration in force. Shared with all threads.
#[derive(Clone, Default)]
pub struct LiveWebConfig(Arc<Live>);

#[derive(Default)]
struct Live {
    path: Option<PathBuf>,
    current: RwLock<Arc<WebConfig>>,
    seen: Mutex<Stamps>,
}

impl LiveWebConfig {
    /// That of a file.
    ///
    /// # Errors
    /// As [`WebConfig::load`].
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let current = WebConfig::load(path)?;
        let seen = stamps(path, &current);
        Ok(LiveWebConfig(Arc::new(Live {
            path: Some(path.to_owned()),
            current: RwLock::new(Arc::new(current)),
            seen: Mutex::new(seen),
        })))
    }

    /// What holds now.
    pub fn current(&self) -> Arc<WebConfig> {
        // Replacing a pointer cannot be left half done.
        let current = self.0.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has a thread look at the files, if there are any, until all other holders are gone.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start_following(&self) -> anyhow::Result<()> {
        if self.0.path.is_none() {
            return Ok(());
        }
        let live = Arc::downgrade(&self.0);
        let look = move || {
            loop {
                thread::sleep(EVERY);
                let Some(live) = live.upgrade().map(LiveWebConfig) else {
                    return;
                };
                live.report();
            }
        };
        let thread = thread::Builder::new().name("web config".to_owned());
        thread.spawn(look).context("cannot start a thread")?;
        Ok(())
    }

    /// Takes up what has changed, and says so.
    fn report(&self) {
        match self.follow() {
            None => {}
            Some(Ok(found)) => {
                tracing::info!(
                    "certificates and passwords are read again, since a file has changed"
                );
                for warning in &found.warnings {
                    tracing::warn!("{warning}");
                }
            }
            Some(Err(error)) => {
                tracing::warn!("certificates and passwords stay as they were: {error:#}");
            }
        }
    }

    /// Takes up what has changed in the files since the last call; `None` if nothing has.
    ///
    /// # Errors
    /// What has changed cannot be used, and what held goes on holding.
    fn follow(&self) -> Option<anyhow::Result<Arc<WebConfig>>> {
        let path = self.0.path.as_deref()?;
        let mut seen = self.0.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current();
        let now = stamps(path, &before);
        if *seen == now {
            return None;
        }
        *seen = now;
        Some(WebConfig::load(path).and_then(|found| {
            if before.tls.is_some() && found.tls.is_none() {
                bail!("{} says nothing of TLS any more", path.display());
            }
            if before.auth.is_some() && found.auth.is_none() {
                bail!("{} has no users any more", path.display());
            }
            let found = Arc::new(found);
            let current = self.0.current.write();
            *current.unwrap_or_else(PoisonError::into_inner) = found.clone();
            Ok(found)
        }))
    }
}

fn stamps(path: &Path, config: &WebConfig) -> Stamps {
    let files = std::iter::once(path).chain(config.files.iter().map(PathBuf::as_path));
    let stamp = |file| {
        let found = fs::metadata(file).ok()?;
        let time = (found.ctime(), found.ctime_nsec());
        Some((found.dev(), found.ino(), found.size(), time.0, time.1))
    };
    files.map(stamp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bcrypt hash of cost 4.
    fn users(name: &str) -> String {
        let hash = bcrypt::hash("x", 4).unwrap();
        format!("basic_auth_users:\n  {name}: {hash}\n")
    }

    #[test]
    fn what_cannot_be_used_or_drops_a_protection_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("web.yml");
        fs::write(&file, users("ada")).unwrap();
        let live = LiveWebConfig::load(&file).unwrap();
        assert!(live.follow().is_none());
        let first = live.current().auth.clone().unwrap();
        for (text, part) in [("basic_auth_", "web.yml"), ("", "no users any more")] {
            fs::write(&file, text).unwrap();
            let error = live.follow().unwrap().err().unwrap();
            assert!(format!("{error:#}").contains(part), "{error:#}");
            assert!(Arc::ptr_eq(&first, live.current().auth.as_ref().unwrap()));
            assert!(live.follow().is_none(), "said once");
        }
        fs::write(&file, users("bob")).unwrap();
        live.follow().unwrap().unwrap();
        assert!(!Arc::ptr_eq(&first, live.current().auth.as_ref().unwrap()));
    }
}
