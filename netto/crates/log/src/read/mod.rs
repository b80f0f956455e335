//! Reading logs. In the order of the data: a [`LogFile`] is opened and gives [`Events`], all of
//! them, those of a span, or those from a place on; a [`MessageDecoder`] has given each interval
//! its description. [`Files`] makes one [`Series`] of the files of a host. [`Contents`] tells what
//! a file holds and what of it is damaged.

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
pub use series::{Entry, Series};
