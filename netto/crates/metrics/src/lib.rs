//! Metrics for other systems: Prometheus, scraped, and OTLP, pushed.

pub mod otlp;
pub mod prometheus;
