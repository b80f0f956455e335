//! The live dashboard of netto, compiled to WebAssembly.
//!
//! Everything but `app` (connection, listeners) and the `page` modules (the
//! document) is pure and tested on the host. In reading order:
//!
//! * [`connection`]: the connection to the daemon; [`messagepack`]: how its messages are decoded.
//! * [`view_model`]: what the page says; [`state`], [`action`]: what its reader
//!   chose to see, and what the buttons do.
//! * [`views`]: what is on the page, one folder for each view.
//! * [`recent`]: how much of the past is shown as now.
//! * [`basis`]: in what CPU time is said, on the whole page.
//! * [`chart`]: areas over time with their legend, for whoever shows some.
//! * [`timeline`], [`axes`], [`plot`], [`color`](mod@color): what drawings share.
//! * [`format`](mod@format), [`tip`], [`export`]: numbers, words and files for people.

pub mod basis;
pub mod connection;
pub mod line_chart;
pub mod messagepack;
pub mod recent;
pub mod view_model;

pub mod action;
pub mod state;

pub mod view_info;
pub mod views;

pub mod axes;
pub mod chart;
pub mod color;
pub mod plot;
pub mod timeline;

pub mod export;
pub mod format;
pub mod sort;
pub mod tip;

#[cfg(target_arch = "wasm32")]
mod app;
#[cfg(test)]
mod fixture;
#[cfg(target_arch = "wasm32")]
mod page;
#[cfg(target_arch = "wasm32")]
pub mod view;
