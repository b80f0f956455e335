//! The daemon's own log: to standard error, plain, and never in the way.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::OnceLock;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use netto_questions::figures::plain;

use crate::cli::LogLevel;

/// Changes how much is logged, once logging is set up.
static SET_LEVEL: OnceLock<Box<dyn Fn(Targets) + Send + Sync>> = OnceLock::new();

/// Sets up logging for the whole process; a second call changes nothing.
pub fn init(level: LogLevel) {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        // If standard error is closed, errors cannot be reported.
        .log_internal_errors(false)
        .event_format(Lines {
            are_for_journal: is_journal(),
        });
    let (filter, handle) = reload::Layer::new(filter(level));
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    // The only error is that logging was set up before.
    if subscriber.try_init().is_ok() {
        // The only error is that the process is ending.
        let _ = SET_LEVEL.set(Box::new(move |filter| drop(handle.reload(filter))));
    }
}

/// Changes how much is logged.
pub fn set_level(level: LogLevel) {
    if let Some(set) = SET_LEVEL.get() {
        set(filter(level));
    }
}

fn filter(level: LogLevel) -> Targets {
    Targets::new()
        .with_default(LevelFilter::WARN)
        // The HTTP library logs each malformed request; netto counts them instead.
        .with_target("actix_http::h1::dispatcher", LevelFilter::OFF)
        .with_target("netto", level.filter())
}

/// Whether standard error is a stream of systemd's journal, by its device and inode, since a child
/// of a service inherits the variable without the stream (systemd.exec(5)).
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    std::fs::metadata("/proc/self/fd/2")
        .is_ok_and(|metadata| stream == format!("{}:{}", metadata.dev(), metadata.ino()))
}

/// Plain lines. The journal has its own clock, and takes the priority from the line's begin
/// (sd-daemon(3)).
struct Lines {
    are_for_journal: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // Messages name what others have made, and each must stay one line: the journal would take
        // the next for one of its own, with any priority.
        let mut text = String::new();
        let whole = Writer::new(&mut text);
        let line = Format::default().with_ansi(false).with_target(false);
        if !self.are_for_journal {
            line.format_event(context, whole, event)?;
            return writeln!(writer, "{}", plain(text.trim_end()));
        }
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        write!(writer, "<{priority}>")?;
        let line = line.without_time().with_level(false);
        line.format_event(context, whole, event)?;
        writeln!(writer, "{}", plain(text.trim_end()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_message_is_one_line_whatever_is_named_in_it() {
        for are_for_journal in [false, true] {
            let written = Written::default();
            let into = written.clone();
            let subscriber = tracing_subscriber::fmt()
                .with_writer(move || into.clone())
                .event_format(Lines { are_for_journal })
                .finish();
            tracing::subscriber::with_default(subscriber, || {
                let name = "eth0\u{1b}[2J\n<3>all is lost";
                tracing::warn!("{name} cannot be watched");
            });
            let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(text.ends_with("cannot be watched\n"), "{text}");
            assert!(!text.contains('\u{1b}'), "{text}");
            assert_eq!(text.starts_with("<4>"), are_for_journal, "{text}");
        }
    }
}
