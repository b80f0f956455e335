//! Gives back what connections have left: the allocator keeps what they freed,
//! and after a crowd that is megabytes for good.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use netto_sys::memory::give_back;

/// Several that leave together are cleaned up behind together.
const PAUSE: Duration = Duration::from_secs(5);

/// Whether cleaning up is due already.
#[derive(Debug, Default)]
pub struct Leftovers(Cell<bool>);

impl Leftovers {
    /// A connection has left: gives its memory back after a while.
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
