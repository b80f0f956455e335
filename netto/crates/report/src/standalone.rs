//! A recording as one HTML file: the dashboard with its data, without a daemon.
//!
//! Takes one interval after the other, keeps a bounded history of all of them, and writes it
//! together with the sum of all intervals and the dashboard's own files. Reads no file and knows no
//! log.

use std::io::{Read, Write as _};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use metrics_common::codec::{self, CodecError, ServerMessage};
use metrics_common::history::{History, POINTS};
use metrics_common::{Info, Snapshot};

use netto_assets::Asset;
use netto_questions::words;

/// The file could not be made.
#[derive(Debug, thiserror::Error)]
pub enum StandaloneError {
    /// This build of netto has no dashboard.
    #[error("this netto was built without its dashboard, so it cannot put one into a file")]
    NoDashboard,
    /// There is nothing to show.
    #[error("there is no interval to show")]
    NoIntervals,
    /// The data could not be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// Compressing failed.
    #[error("cannot compress the data: {0}")]
    Io(#[from] std::io::Error),
}

/// What the dashboard says of now, and what a report does: it is of a span, and nothing in it is live.
const OF_SPAN: [(&str, &str); 6] = [
    ("Where the time goes", "Where the time went"),
    (">Now</button>", ">In all</button>"),
    (">Live</button>", ">To the end</button>"),
    ("<kbd>esc</kbd> live", "<kbd>esc</kbd> to the end"),
    (
        "<dd>close, back, live</dd>",
        "<dd>close, back, to the end</dd>",
    ),
    (
        "<kbd>l</kbd></dt><dd>live</dd>",
        "<kbd>l</kbd></dt><dd>to the end</dd>",
    ),
];

/// A report being written; see the head of this file.
#[derive(Debug)]
pub struct Standalone {
    info: Info,
    span_ms: u64,
    history: History,
    whole: Option<Snapshot>,
    sequence: u64,
}

impl Standalone {
    /// A report on the time from `begin_unix_ns` to `end_unix_ns`.
    pub fn new(info: &Info, begin_unix_ns: u64, end_unix_ns: u64) -> Self {
        let span_ms = end_unix_ns.saturating_sub(begin_unix_ns) / 1_000_000;
        let mut info = info.clone();
        // A point of the history has at least a period, so the whole span fits in.
        let point_ms = span_ms.div_ceil(POINTS as u64 - 1);
        info.user_period_ms = info.user_period_ms.max(point_ms);
        let mut all = vec![words::label(&info.hostname, begin_unix_ns, end_unix_ns)];
        all.push(
            "A report: bars and table are of all of this time, charts go along it.".to_owned(),
        );
        all.append(&mut info.notes);
        info.notes = all;
        Standalone {
            history: History::new(&info),
            info,
            span_ms,
            whole: None,
            sequence: 0,
        }
    }

    /// Adds a note for the reader.
    pub fn note(&mut self, note: String) {
        self.info.notes.push(note);
    }

    /// Adds the next interval.
    pub fn add(&mut self, snapshot: &Snapshot) {
        // Increasing numbers, regardless of those in the recording.
        self.sequence += 1;
        let numbered = Snapshot {
            sequence: self.sequence,
            ..snapshot.clone()
        };
        self.history.push(&numbered);
        match &mut self.whole {
            Some(whole) => whole.add(&numbered),
            None => self.whole = Some(numbered),
        }
    }

    /// The file.
    ///
    /// # Errors
    /// If this build has no dashboard, or there are no intervals.
    pub fn html(self) -> Result<String, StandaloneError> {
        let mut whole = self.whole.ok_or(StandaloneError::NoIntervals)?;
        // Nothing in the history is added to it again.
        whole.sequence = self.history.last_sequence();
        let messages = [
            ServerMessage::Hello(Box::new(self.info)),
            ServerMessage::History(Box::new(self.history.to_message())),
            ServerMessage::Snapshot(Box::new(whole)),
        ];
        let messages = messages
            .iter()
            .map(|message| packed(&codec::encode(message)?))
            .collect::<Result<Vec<_>, _>>()?;
        let asset = |path| netto_assets::find(path).ok_or(StandaloneError::NoDashboard);
        let wasm = asset("/netto_dashboard_bg.wasm")?;
        let script = asset("/netto_dashboard.js")?;
        let style = text(asset("/style.css")?)?;
        let page = text(asset("/index.html")?)?;
        let head = format!(
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             script-src 'unsafe-inline' data: 'wasm-unsafe-eval'; style-src 'unsafe-inline'; \
             img-src data: blob:; base-uri 'none'; form-action 'none'\">\n\
             <style>\n{style}</style>\n<script type=\"module\">\n{}</script>\n</head>",
            boot(self.span_ms, &messages, script, wasm)?
        );
        let is_own = |line: &&str| {
            !(line.starts_with("<link rel=") || line.starts_with("<script type=\"module\" src="))
        };
        let mut html = String::with_capacity(page.len() + head.len());
        for line in page.lines().filter(is_own) {
            html.push_str(line);
            html.push('\n');
        }
        for (live, of_span) in OF_SPAN {
            html = html.replace(live, of_span);
        }
        Ok(html.replacen("</head>", &head, 1).replacen(
            "<main id=\"netto\"",
            "<main id=\"netto\" data-standalone",
            1,
        ))
    }
}

/// The script that unpacks everything and starts the dashboard. The data in it has no special
/// characters of HTML.
fn boot(
    span_ms: u64,
    messages: &[String],
    script: &Asset,
    wasm: &Asset,
) -> Result<String, StandaloneError> {
    let script = STANDARD.encode(unpacked(script)?);
    let wasm = STANDARD.encode(wasm.gzip);
    let messages = messages.join("\", \"");
    Ok(format!(
        "import init from \"data:text/javascript;base64,{script}\";\n\
         const unpack = async (text) => new Uint8Array(await new Response((await blob(text))\
         .stream().pipeThrough(new DecompressionStream(\"gzip\"))).arrayBuffer());\n\
         const blob = async (text) => new Blob([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))]);\n\
         if (!location.hash) history.replaceState(null, \"\", \"#span={seconds}\");\n\
         window.nettoMessages = await Promise.all([\"{messages}\"].map(unpack));\n\
         await init({{ module_or_path: await unpack(\"{wasm}\") }});\n",
        seconds = span_ms.div_ceil(1000).clamp(5, 86_400),
    ))
}

fn packed(bytes: &[u8]) -> Result<String, StandaloneError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(STANDARD.encode(encoder.finish()?))
}

fn unpacked(asset: &Asset) -> Result<Vec<u8>, StandaloneError> {
    let mut bytes = Vec::new();
    GzDecoder::new(asset.gzip).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn text(asset: &Asset) -> Result<String, StandaloneError> {
    Ok(String::from_utf8_lossy(&unpacked(asset)?).into_owned())
}

#[cfg(test)]
mod tests {
    use metrics_common::{COMPONENTS, Cost, Sections, fixture};

    use super::*;

    fn report(intervals: u64) -> Standalone {
        let end_ns = intervals * 500_000_000;
        let mut report = Standalone::new(&fixture::info(), 0, end_ns);
        for number in 1..=intervals {
            report.add(&Snapshot {
                sequence: 1,
                time_unix_ns: number * 500_000_000,
                interval_ns: 500_000_000,
                cpus: vec![0],
                sections: Sections {
                    cost: Some(Cost {
                        components: COMPONENTS.iter().map(|_| Some(vec![1_000])).collect(),
                        ..Cost::default()
                    }),
                    ..Sections::default()
                },
            });
        }
        report
    }

    #[test]
    fn a_day_fits_into_the_history_from_its_beginning_to_its_end() {
        let day = report(172_800);
        assert!(day.history.points() <= POINTS);
        assert!(day.history.point_ms(0).0 < 1_000.0);
        let (_, end_ms) = day.history.point_ms(day.history.points() - 1);
        assert!(end_ms > 86_300_000.0, "{end_ms}");
        let whole = day.whole.as_ref().unwrap();
        assert_eq!(whole.total_ns(0), Some(172_800_000));
    }

    #[test]
    fn the_file_needs_no_other_file_and_nothing_breaks_out_of_it() {
        let mut report = report(20);
        report.info.hostname = "</script><script>alert(1)</script>".to_owned();
        let html = match report.html() {
            Ok(html) => html,
            // A netto built without its dashboard returns this error.
            Err(StandaloneError::NoDashboard) => return,
            Err(error) => panic!("{error}"),
        };
        for other in [
            "href=\"style.css\"",
            "src=\"boot.js\"",
            "alert(1)",
            "rel=\"preload\"",
        ] {
            assert!(!html.contains(other), "{other}");
        }
        assert_eq!(html.matches("</script>").count(), 1);
        assert!(html.contains("data-standalone"));
        for (live, of_span) in OF_SPAN {
            assert!(!html.contains(live) && html.contains(of_span), "{live}");
        }
        assert!(html.len() < 1_500_000, "{} bytes", html.len());
    }

    #[test]
    fn of_nothing_there_is_no_file() {
        let empty = Standalone::new(&fixture::info(), 0, 1);
        assert!(matches!(empty.html(), Err(StandaloneError::NoIntervals)));
    }
}
