//! From raw readings to one snapshot. Pure: no clock, no files, no libbpf, no
//! actors; tested from recorded bytes, without root.

pub mod attribute;
pub mod classify;
pub mod delta;
mod families;
pub mod flame;
pub mod found;
pub mod idle;
pub mod missed;
pub mod pace;
pub mod plan;
pub mod proc_stat;
pub mod rapl;
mod rules;
pub mod symbols;
pub mod unsampled;
