//! Reading logs. In the order of the data: an opened [`LogFile`] returns [`Events`], all of them,
//! those of a span, or those from an offset on; a [`MessageDecoder`] has added each interval's
//! description. [`Files`] merges the files of a host into one [`Series`]. [`Contents`] summarizes a
//! file and its damage.

mod contents;
mod decoder;
mod file;
mod files;
mod findings;
mod series;

pub use contents::{Contents, Damages, Host, ToldGap};
pub use decoder::{Event, MessageDecoder};
pub use file::{Events, LogFile, OpenError};
pub use files::Files;
pub use findings::{Findings, SeriesError};
pub use series::{Series, SeriesItem};
