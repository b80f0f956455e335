//! A value that exists only while somebody uses it, and is made anew for the next user.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

/// See the head of this file.
pub struct WhileUsed<T, F> {
    make: F,
    current: RefCell<Weak<T>>,
}

impl<T, E, F: AsyncFn() -> Result<T, E>> WhileUsed<T, F> {
    /// Nothing yet; `make` makes it.
    pub fn new(make: F) -> Self {
        WhileUsed {
            make,
            current: RefCell::default(),
        }
    }

    /// The value that others use now, or a new one. It exists as long as one of these pointers.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub async fn get(&self) -> Result<Rc<T>, E> {
        if let Some(current) = self.current.borrow().upgrade() {
            return Ok(current);
        }
        let made = Rc::new((self.make)().await?);
        *self.current.borrow_mut() = Rc::downgrade(&made);
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[actix::test]
    async fn users_at_one_time_share_a_value_and_the_next_gets_a_new_one() {
        let made = Rc::new(Cell::new(0));
        let count = made.clone();
        let shared = WhileUsed::new(async move || {
            count.set(count.get() + 1);
            Ok::<_, ()>(count.get())
        });
        let first = shared.get().await.unwrap();
        let second = shared.get().await.unwrap();
        assert!(Rc::ptr_eq(&first, &second));
        drop(first);
        assert_eq!(shared.get().await, Ok(second.clone()), "one still uses it");
        drop(second);
        assert_eq!(shared.get().await.map(|value| *value), Ok(2));
        assert_eq!(made.get(), 2);
    }
}
