//! Pure: what the kernel's files say, and whose the time on quiet CPUs is.

pub(crate) mod account;
pub(crate) mod lists;
