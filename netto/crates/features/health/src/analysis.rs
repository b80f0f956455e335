//! From readings to figures of an interval, and from these to a score. Pure.

pub(crate) mod ata;
pub(crate) mod devices;
pub(crate) mod figures;
pub(crate) mod follow;
pub(crate) mod groups;
pub(crate) mod places;
pub(crate) mod pressure;
pub(crate) mod score;
pub(crate) mod smart;
pub(crate) mod table;
