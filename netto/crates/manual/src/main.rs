//! Writes netto's man pages and shell completions into a folder, from the command line that netto
//! itself understands. A program of its own, so that netto carries none of it.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap_complete::Shell;

/// The shells, and the folders of a package where they look for completions.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

fn main() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1);
    let folder = folder.context("usage: netto-manual FOLDER")?;
    write(Path::new(&folder))
}

/// Writes `netto.1`, a page for each command, and a completion for each shell.
fn write(folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let command = netto::cli::command(netto::features::FEATURES);
    // A page says the defaults; a build's own environment is no default.
    clap_mangen::generate_to(command.clone(), folder).context("cannot write the man pages")?;
    for shell in SHELLS {
        let mut command = command.clone();
        clap_complete::generate_to(shell, &mut command, "netto", folder)
            .with_context(|| format!("cannot write the completions for {shell}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(folder: &Path, command: &str) -> (std::path::PathBuf, String) {
        let path = folder.join(format!("{command}.1"));
        let text = fs::read_to_string(&path).expect("a page");
        // A hyphen that may be typed.
        (path, text.replace("\\-", "-"))
    }

    /// The command and those below it, each with the name of its page.
    fn each(command: &clap::Command, name: &str, see: &mut dyn FnMut(&clap::Command, &str)) {
        see(command, name);
        for below in command
            .get_subcommands()
            .filter(|below| !below.is_hide_set())
        {
            each(below, &format!("{name}-{}", below.get_name()), see);
        }
    }

    #[test]
    fn every_option_of_every_command_is_on_its_page_and_completed() {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path()).expect("written");
        let read = |file: &str| fs::read_to_string(folder.path().join(file)).expect("completions");
        let completions = ["netto.bash", "_netto", "netto.fish"].map(read);
        let command = netto::cli::command(netto::features::FEATURES);
        let mut options = 0;
        each(&command, "netto", &mut |command, name| {
            let (path, text) = page(folder.path(), name);
            let shown = command
                .get_arguments()
                .filter(|option| !option.is_hide_set());
            for long in shown.filter_map(clap::Arg::get_long) {
                options += 1;
                assert!(text.contains(&format!("--{long}")), "{long}: {path:?}");
                for text in &completions {
                    assert!(text.contains(long), "{long} is not completed");
                }
            }
        });
        assert!(options > 100, "only {options} options");
    }
}
