//! The live dashboard of netto, compiled to WebAssembly.
//!
//! Everything but `app` (connection, listeners) and the `page` modules (the
//! document) is pure and tested on the host. In reading order:
//!
//! * [`connection`]: the connection to the daemon.
//! * [`view_model`]: the content of the page; [`state`], [`action`]: the reader's choices, and the
//!   actions of buttons.
//! * [`views`]: the views of the page, one folder for each.
//! * [`pace`]: how often live data is drawn.
//! * [`recent`]: the part of the past that is shown as now.
//! * [`basis`]: the unit of CPU time on the whole page.
//! * [`chart`]: stacked areas over time with their legend.
//! * [`timeline`], [`axes`], [`plot`], [`color`](mod@color): shared by drawings.
//! * [`format`](mod@format), [`tip`], [`export`]: numbers, texts and files for people.

pub mod basis;
pub mod connection;
pub mod line_chart;
pub mod pace;
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
pub mod table;
pub mod tip;

#[cfg(target_arch = "wasm32")]
mod app;
#[cfg(test)]
mod fixture;
#[cfg(target_arch = "wasm32")]
mod page;
#[cfg(target_arch = "wasm32")]
pub mod view;
