//! Checks settings by environment variables: unknown names, and invalid values, which must be
//! reported for the variable and not for its flag.
//!
//! The values themselves are taken by the parser of the command line.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command};

/// Every variable that begins so is an option, or a mistake.
const PREFIX: &str = "NETTO_";
/// Variables of netto's developers, which are set for building and testing it and which
/// its processes inherit: where the built dashboard is, which program the tests run, whether
/// they run in a guest, where they put pictures.
const OF_DEVELOPERS: [&str; 4] = [
    "NETTO_DASHBOARD_DIR",
    "NETTO_BINARY",
    "NETTO_TESTS",
    "NETTO_SCREENSHOTS",
];
/// What pods are given that run beside a service called netto (links in the style of Docker).
const OF_KUBERNETES: [&str; 2] = ["NETTO_SERVICE_", "NETTO_PORT_"];
/// Most wrong letters in a name that is still recognised.
const MOST_MISTAKES: usize = 3;

/// Every option of every command.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    let of_commands = command.get_subcommands().flat_map(Command::get_arguments);
    command.get_arguments().chain(of_commands)
}

/// The variable of the option with this name: `--web.config.file` is NETTO_WEB_CONFIG_FILE.
pub fn name_of(option: &str) -> String {
    let name = option.replace(['-', '.'], "_");
    format!("{PREFIX}{}", name.to_uppercase())
}

/// The variable of an option, if it has one.
pub fn variable(option: &Arg) -> Option<&str> {
    option.get_env()?.to_str()
}

/// What is wrong with the first of these variables that is meant for netto and unknown to it.
pub fn unknown(command: &Command, names: impl IntoIterator<Item = OsString>) -> Option<String> {
    let variables: Vec<&str> = options(command).filter_map(variable).collect();
    let name = names.into_iter().find_map(|name| {
        let name = name.to_string_lossy().into_owned();
        let is_unknown = name.starts_with(PREFIX)
            && !variables.contains(&name.as_str())
            && !OF_DEVELOPERS.contains(&name.as_str());
        is_unknown.then_some(name)
    })?;
    let nearest = variables
        .iter()
        .map(|variable_name| {
            (
                strsim::damerau_levenshtein(&name, variable_name),
                variable_name,
            )
        })
        .min()
        .filter(|(mistakes, _)| *mistakes <= MOST_MISTAKES);
    let advice = match nearest {
        Some((_, variable)) => format!("perhaps {variable} is meant"),
        None if OF_KUBERNETES.iter().any(|begin| name.starts_with(begin)) => {
            "Kubernetes sets it beside a service that is called netto: \
             give the pod enableServiceLinks: false"
                .to_owned()
        }
        None => "unset it".to_owned(),
    };
    Some(format!(
        "the environment variable {name} is none of netto's\n  {advice}; see netto --help"
    ))
}

/// The same command, deaf to the environment.
pub fn without(command: Command) -> Command {
    command
        .mut_args(|option| option.env(None::<&str>))
        .mut_subcommands(without)
}

/// The option that an error is about, as the error shows it, and its variable. The command
/// must have been built.
pub fn blamed(command: &Command, error: &clap::Error) -> Option<(String, String)> {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let option = options(command).find(|option| option.to_string() == *shown)?;
    Some((format!("'{shown}'"), variable(option)?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;
    use crate::features::FEATURES;

    fn all() -> Command {
        cli::command(FEATURES)
    }

    fn advice_about(name: &str) -> Option<String> {
        unknown(&all(), [OsString::from("PATH"), name.into()])
    }

    #[test]
    fn a_variable_that_nobody_reads_is_named_with_the_nearest_that_is_read() {
        for (name, part) in [
            ("NETTO_FREQUENZY", "NETTO_FREQUENCY"),
            ("NETTO_USERPERIOD", "NETTO_USER_PERIOD"),
            ("NETTO_SEEDS", "NETTO_SEED"),
            ("NETTO_SERVICE_HOST", "enableServiceLinks"),
            ("NETTO_PORT_10880_TCP_ADDR", "enableServiceLinks"),
            ("NETTO_SOMETHING_ELSE", "unset it"),
            ("NETTO_", "unset it"),
        ] {
            let text = advice_about(name).unwrap();
            assert!(text.contains(name) && text.contains(part), "{text}");
        }
    }

    #[test]
    fn options_and_what_developers_set_are_known_and_other_programs_variables_no_concern() {
        let command = all();
        let variables: Vec<&str> = options(&command).filter_map(variable).collect();
        assert!(variables.contains(&"NETTO_CPUS") && variables.contains(&"NETTO_CONFIG"));
        for name in variables.into_iter().chain(OF_DEVELOPERS) {
            assert_eq!(advice_about(name), None, "{name}");
        }
        for name in ["NETTO", "NETTOX", "netto_frequency", "XNETTO_PORT"] {
            assert_eq!(advice_about(name), None, "{name}");
        }
    }
}
