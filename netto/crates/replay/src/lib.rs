//! `netto replay`: a log as a source of snapshots, so that the dashboard shows it by the
//! same way as the present.
//!
//! In the order of the data: the file is read once from its beginning to its end, which
//! gives an index, an overview of networking's share and what is missing ([`recording`]);
//! the player then reads it again at the pace that viewers ask for ([`player`]). [`timeline`] is
//! the recorded clock, made monotonic.

mod index;
pub mod player;
pub mod recording;
pub mod timeline;

#[cfg(test)]
mod tests;
