//! Which of flag, environment and configuration file goes first, and who is blamed for a value.
//!
//! The parser of the command line takes all three: it reads the environment itself, and is shown
//! a key of the file as the flag of the same name where nobody else has given it. It owns the
//! file's keys and the words of a refusal; what a value means is its parser's (`values`).

use std::collections::BTreeMap;
use std::error::Error as _;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use toml::{Spanned, Value};

use super::Refusal;
use crate::environment;
use netto_feature::values::Impossible;
use netto_sys::files;

/// The configuration file that is read when none is named, if it exists.
const DEFAULT_FILE: &str = "/etc/netto.toml";
/// So many letters may be wrong in a key that is still recognised.
const MOST_MISTAKES: usize = 3;
/// Options that are no keys.
const NO_KEYS: [&str; 3] = ["config", "help", "prometheus"];

/// What a configuration file says, as flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileFlags {
    keys: Vec<Key>,
    path: Option<PathBuf>,
}

/// One key of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    id: String,
    flags: Vec<OsString>,
    line: usize,
    /// Whether neither flag nor environment has given it.
    holds: bool,
}

impl FileFlags {
    /// Whether there is a file.
    pub fn is_there(&self) -> bool {
        self.path.is_some()
    }

    /// What file this is, if there is one, and how many keys it has.
    pub fn path_and_keys(&self) -> Option<(&Path, usize)> {
        Some((self.path.as_deref()?, self.keys.len()))
    }

    /// Where in it the value of an option comes from, if it does.
    pub fn place_of(&self, id: &str) -> Option<String> {
        let key = self.keys.iter().find(|key| key.holds && key.id == id)?;
        Some(format!(
            "{}, line {}",
            self.path.as_deref()?.display(),
            key.line
        ))
    }

    /// All of it, to be parsed as arguments of `netto run`.
    pub fn all(&self) -> impl Iterator<Item = OsString> {
        self.keys.iter().flat_map(|key| key.flags.clone())
    }

    /// What this command knows and neither flag nor environment has given.
    fn missing_in(&mut self, matches: &ArgMatches) -> Vec<OsString> {
        for key in &mut self.keys {
            let is_known = matches.try_contains_id(&key.id).is_ok();
            let source = || matches.value_source(&key.id);
            key.holds = is_known && matches!(source(), None | Some(ValueSource::DefaultValue));
        }
        let keys = self.keys.iter().filter(|key| key.holds);
        keys.flat_map(|key| key.flags.clone()).collect()
    }
}

/// Parses the arguments, the program's name first, with environment and file.
///
/// # Errors
/// What is wrong, blamed on whoever gave it; help and version.
pub fn parse(
    command: &Command,
    arguments: &[OsString],
) -> Result<(ArgMatches, FileFlags), Refusal> {
    let parsed = |arguments: &[OsString]| {
        let matches = command.clone().try_get_matches_from(arguments);
        matches.map_err(|error| refusal(command, &error, arguments))
    };
    let matches = parsed(arguments)?;
    let (of_command, at) = match matches.subcommand() {
        Some((_, of_command)) => (of_command, 2),
        None => (&matches, 1),
    };
    // A command without this option, or about logs, is about no host, and no file concerns it.
    let has_logs = matches!(of_command.try_get_raw("logs"), Ok(Some(_)));
    let Some(named) = of_command
        .try_get_one::<PathBuf>("config")
        .ok()
        .filter(|_| !has_logs)
    else {
        return Ok((matches, FileFlags::default()));
    };
    let mut file = read(command, named.map(PathBuf::as_path)).map_err(Refusal::Usage)?;
    let mut flags = file.missing_in(of_command);
    if flags.is_empty() {
        return Ok((matches, file));
    }
    let (before, after) = arguments.split_at(at.min(arguments.len()));
    flags.splice(0..0, before.iter().cloned());
    flags.extend(after.iter().cloned());
    Ok((parsed(&flags)?, file))
}

/// The file that is named, or the usual one if it exists.
fn read(command: &Command, named: Option<&Path>) -> Result<FileFlags, String> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    match files::read_settings(path) {
        Ok(text) => understand(command, &text, path),
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => {
            Ok(FileFlags::default())
        }
        Err(error) => Err(format!(
            "cannot read the configuration file {}: {error}",
            path.display()
        )),
    }
}

/// The keys of a file, each of which `netto run` must understand.
fn understand(command: &Command, text: &str, file: &Path) -> Result<FileFlags, String> {
    let path = file.display();
    type Keys = BTreeMap<Spanned<String>, Spanned<Value>>;
    let unusable = |at: Option<usize>, message: &str| {
        let place = at.map(|at| format!("line {}: ", line_of(text, at)));
        let place = place.unwrap_or_default();
        let message = message.replace('\n', " ");
        format!("cannot use the configuration file {path}: {place}{message}")
    };
    let found_keys: Keys = toml::from_str(text)
        .map_err(|error| unusable(error.span().map(|span| span.start), error.message()))?;
    let run = command.find_subcommand("run").unwrap_or(command);
    let run = environment::without(run.clone()).no_binary_name(true);
    let mut found = Vec::new();
    for (key, value) in found_keys {
        let at = key.span().start;
        let (name, value) = (key.into_inner(), value.into_inner());
        let Some((_, option)) = keys(&run).find(|(key, _)| *key == name) else {
            return Err(unusable(Some(at), &unknown(&run, &name)));
        };
        let long = option.get_long().unwrap_or_default();
        let values = values(value).ok_or_else(|| {
            let message = format!("{name} takes a value or a list of them, no table and no date");
            unusable(Some(at), &message)
        })?;
        let flags: Vec<OsString> = values
            .map(|value| format!("--{long}={value}").into())
            .collect();
        if let Err(error) = run.clone().try_get_matches_from(&flags) {
            return Err(match impossible(&error) {
                Some(message) => {
                    format!("{path}, line {}: {name} {message}", line_of(text, at))
                }
                None => unusable(Some(at), &super::first_paragraph(&error.to_string())),
            });
        }
        found.push(Key {
            id: option.get_id().to_string(),
            flags,
            line: line_of(text, at),
            holds: false,
        });
    }
    Ok(FileFlags {
        keys: found,
        path: Some(file.to_owned()),
    })
}

/// The keys of these options, each with its own: `--web.config.file` is `web-config-file`.
pub fn keys(options: &Command) -> impl Iterator<Item = (String, &Arg)> {
    options.get_arguments().filter_map(|option| {
        let long = option.get_long()?;
        (!NO_KEYS.contains(&long)).then(|| (long.replace('.', "-"), option))
    })
}

/// What is said of a key that netto does not know.
fn unknown(run: &Command, key: &str) -> String {
    let nearest = keys(run)
        .map(|(name, _)| (strsim::damerau_levenshtein(key, &name), name))
        .min()
        .filter(|(mistakes, _)| *mistakes <= MOST_MISTAKES);
    match nearest {
        Some((_, name)) => format!("there is no key `{key}`; perhaps `{name}` is meant"),
        None => format!("there is no key `{key}`; docs/OPTIONS.md has all of them"),
    }
}

/// The values as they would be typed; `None` for what cannot be typed.
fn values(value: Value) -> Option<std::vec::IntoIter<String>> {
    let typed = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Some(value.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    };
    let all = match &value {
        Value::Array(list) => list.iter().map(typed).collect::<Option<Vec<_>>>()?,
        one => vec![typed(one)?],
    };
    Some(all.into_iter())
}

/// Number of the line, from 1, that holds the byte at this place.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().iter().take(at);
    before.filter(|byte| **byte == b'\n').count() + 1
}

/// What a value's own parser says of it, to follow the option's name.
fn impossible(error: &clap::Error) -> Option<String> {
    let cause = error.source()?.downcast_ref::<Impossible>()?;
    Some(cause.to_string())
}

/// What is wrong with arguments or environment, in two lines.
fn refusal(command: &Command, error: &clap::Error, arguments: &[OsString]) -> Refusal {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return Refusal::Answer(error.to_string());
        }
        _ => {}
    }
    // If the arguments alone are right, the environment is wrong.
    let again = environment::without(command.clone()).try_get_matches_from(arguments);
    let mut built = command.clone();
    // Only a built command's options know how they are shown.
    built.build();
    let blamed = environment::blamed(&built, error).filter(|_| again.is_ok());
    if let Some(message) = impossible(error) {
        let option = match (&blamed, error.get(ContextKind::InvalidArg)) {
            (Some((_, variable)), _) => variable.clone(),
            (None, Some(ContextValue::String(shown))) => {
                shown.split(' ').next().unwrap_or(shown).to_owned()
            }
            _ => "an option".to_owned(),
        };
        return Refusal::Usage(format!("{option} {message}"));
    }
    let text = super::shorten(&error.to_string());
    Refusal::Usage(match blamed {
        Some((flag, variable)) => {
            text.replace(&flag, &format!("the environment variable {variable}"))
        }
        None => text,
    })
}
