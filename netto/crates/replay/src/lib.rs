//! `netto replay`: a log as a source of snapshots, so that the dashboard shows it in the same way
//! as live data.
//!
//! The file is first read once completely, which gives an index, an overview of networking's share,
//! and a list of missing data ([`recording`]). The player then reads it again at the pace that
//! viewers request ([`player`]). [`timeline`] is the recorded clock, made monotonic.

mod index;
pub mod player;
pub mod recording;
pub mod timeline;

#[cfg(test)]
mod tests;
