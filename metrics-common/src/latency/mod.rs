//! Latency inside the stack: the points of measurement on a packet's way, and the histogram. Pure;
//! the section is `sections/latency`.

mod point;
pub mod words;

pub use crate::histogram::{
    BUCKETS, Bounds, FIRST_POWER, Histogram, LIMIT_NS, PERCENTILES, Percentile, SUB_BUCKETS,
    bounds, bucket_of,
};
pub use point::Point;
