//! Serves snapshots over HTTP: the page, WebSockets, the API and metrics.
//!
//! A sink sees a snapshot when it is finished and cannot change, delay or lose it for another sink.
//! It does not know how anything was measured.

pub mod admission;
pub mod answers;
pub mod api;
pub mod assets;
pub mod auth;
pub mod certificates;
pub mod dump;
pub mod frames;
pub mod gzip;
pub mod hosts;
pub mod http;
pub mod limited_question;
pub mod live_web_config;
pub mod unpacked;
pub mod web_config;
pub mod websocket_client;
mod while_used;
