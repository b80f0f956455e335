//! `netto replay`: a log as a source of snapshots, so that the dashboard shows it by the
//! same way as the present.
//!
//! In the order of the data: the file is read once from its beginning to its end, which
//! gives an index, the course of networking's share and what is missing ([`recording`]);
//! the player then reads it again at the pace that viewers ask for ([`player`], by way of
//! [`controls`]). [`tape`] is the axis of time of a recording, [`course`] its share over
//! that. It knows logs by their reader alone, and nothing of who shows what it plays.

mod index;
mod narration;
pub mod player;
pub mod recording;
pub mod tape;

#[cfg(test)]
mod tests;
