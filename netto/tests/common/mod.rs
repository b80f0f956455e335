//! What the tests with processes and browsers share, with and without root.

pub mod child;
pub mod http;
pub mod trial;
pub mod webdriver;
