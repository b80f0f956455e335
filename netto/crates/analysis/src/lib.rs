//! The part of the analysis shared by instruments: symbols, rules, the plan. Pure: no clock, no
//! files, no libbpf, no actors; tested with recorded bytes, without root.

pub mod alternation;
pub mod analyzer_cost;
pub mod budget;
pub mod classify;
pub mod escapes;
pub mod fading;
mod families;
pub mod flame;
pub mod found;
pub mod groups;
pub mod kernel_counts;
pub mod long_softirqs;
pub mod mounts;
pub mod netlink;
pub mod pace;
pub mod plan;
pub mod planner;
pub mod precision;
mod price_trials;
pub mod prices;
pub mod proc_stat;
pub mod profile;
pub mod programs;
pub mod rates;
mod repeated;
mod rules;
pub mod sampler;
pub mod sampling_windows;
pub mod sock_diag;
pub mod symbols;
pub mod tagged;
pub mod unsampled;
pub mod window;
