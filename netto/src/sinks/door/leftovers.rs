//! Gives back what connections have left: the allocator keeps what they freed,
//! and after a crowd that is megabytes for good.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::kernel::memory::give_back;
use crate::kernel::system::own_resident_bytes;

/// Several that leave together are cleaned up behind together.
const PAUSE: Duration = Duration::from_secs(1);

/// Growth that is not worth the effort, bytes.
const SLACK_BYTES: u64 = 1 << 20;

/// Whether a look is due already, and what was resident at the last.
#[derive(Debug, Default)]
pub struct Leftovers {
    is_due: Cell<bool>,
    resident_bytes: Cell<u64>,
}

impl Leftovers {
    /// A connection has left: looks after a while whether memory has grown.
    pub fn look_later(self: &Rc<Self>) {
        if self.is_due.replace(true) {
            return;
        }
        let this = self.clone();
        actix::spawn(async move {
            tokio::time::sleep(PAUSE).await;
            this.is_due.set(false);
            if own_resident_bytes() > this.resident_bytes.get() + SLACK_BYTES {
                give_back();
                this.resident_bytes.set(own_resident_bytes());
            }
        });
    }
}
