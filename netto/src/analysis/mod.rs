//! What instruments share of the analysis: symbols, rules, the plan. Pure: no clock, no files, no
//! libbpf, no actors; tested from recorded bytes, without root.

pub mod classify;
mod families;
pub mod flame;
pub mod found;
pub mod pace;
pub mod plan;
pub mod proc_stat;
mod rules;
pub mod sampler;
pub mod symbols;
pub mod unsampled;
