//! The live dashboard of netto, compiled to WebAssembly.
//!
//! Everything but `app` (connection, listeners), `fetch` and `page` (the document) is
//! pure and tested on the host. In reading order, which is the way the data goes:
//!
//! * [`link`]: the connection to the daemon and its decoded messages.
//! * [`view_model`], [`state`]: what the page says, and what its reader chose to see.
//! * [`bars`], [`timeline`], [`charts`], [`heat`]: the views as plain values.
//! * [`plot`], [`areas`]: those values as drawings on any plotters backend.
//! * [`flame`], [`flame_plot`]: the flame graph, from folded stacks to boxes.
//! * [`legend`], [`table`], [`tip`], [`panels`], [`export`]: and as markup and files.
//! * [`format`](mod@format): numbers and strings as people read them.

pub mod link;
pub mod view_model;

pub mod state;
pub mod timeline;

pub mod areas;
pub mod bars;
pub mod charts;
pub mod export;
pub mod flame;
pub mod flame_plot;
pub mod heat;
pub mod legend;
pub mod panels;
pub mod plot;
pub mod table;
pub mod tip;

pub mod format;

#[cfg(target_arch = "wasm32")]
mod app;
#[cfg(target_arch = "wasm32")]
mod fetch;
#[cfg(test)]
mod fixture;
#[cfg(target_arch = "wasm32")]
mod page;
