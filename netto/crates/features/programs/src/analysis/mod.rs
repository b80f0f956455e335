//! From samples in programs to an interval. Pure.

pub(crate) mod causes;
pub(crate) mod division;
pub(crate) mod packets;
pub(crate) mod slots;
