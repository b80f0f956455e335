//! Returns the memory of closed connections to the kernel: the allocator keeps what they freed,
//! after many connections megabytes.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use netto_sys::memory::give_back;

/// Connections that close within this time share one cleanup.
const PAUSE: Duration = Duration::from_secs(5);

/// Whether a cleanup is scheduled.
#[derive(Debug, Default)]
pub struct Leftovers(Cell<bool>);

impl Leftovers {
    /// Schedules a cleanup after a connection has closed.
    pub fn clean_up_later(self: &Rc<Self>) {
        if self.0.replace(true) {
            return;
        }
        let this = self.clone();
        actix::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            this.0.set(false);
            give_back();
        });
    }
}
