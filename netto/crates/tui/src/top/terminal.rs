//! Access to the terminal during `netto top`; restores it in any case.

use std::io::{self, IsTerminal, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use super::draw;
use super::model::{Key, Screen};

/// The terminal, until dropped.
pub struct Screens {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    has_ended: &'static AtomicBool,
}

/// An action of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// A key for the model.
    Key(Key),
    /// Play a recording faster.
    Faster,
    /// Play a recording slower.
    Slower,
    /// Draw again, because the terminal's size has changed.
    Redraw,
    /// Close what is in front, or quit.
    Close,
    /// Quit.
    Quit,
}

/// Checks that there is a terminal.
///
/// # Errors
/// If there is none, with an alternative.
pub fn must_be_there() -> anyhow::Result<()> {
    ensure!(
        io::stdout().is_terminal() && io::stdin().is_terminal(),
        "`netto top` needs a terminal for its screen and keys, and standard input or output is not \
         one; programs can use /api/v1/snapshot"
    );
    Ok(())
}

impl Screens {
    /// Initializes the terminal; `has_ended`: whether the process is asked to end.
    ///
    /// # Errors
    /// If it cannot be used.
    pub fn take(has_ended: &'static AtomicBool) -> anyhow::Result<Screens> {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            usual(panic);
        }));
        enable_raw_mode().context("cannot read single keys from this terminal")?;
        // From here on, `Screens` restores it.
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()));
        let entered = execute!(io::stdout(), EnterAlternateScreen);
        match terminal.and_then(|terminal| entered.map(|()| terminal)) {
            Ok(terminal) => Ok(Screens {
                terminal,
                has_ended,
            }),
            Err(error) => {
                give_back();
                Err(error).context("cannot draw on this terminal")
            }
        }
    }

    /// Shows a screen.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn show(&mut self, screen: &Screen) -> anyhow::Result<()> {
        self.terminal
            .draw(|frame| draw::draw(frame, screen))
            .context("the terminal is gone")?;
        Ok(())
    }

    /// The next action of the user within this time.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn action(&self, patience: Duration) -> anyhow::Result<Option<Action>> {
        let there = match event::poll(patience) {
            Ok(there) => there,
            // A signal; checked below.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
            Err(error) => return Err(error).context("the terminal is gone"),
        };
        if self.has_ended.load(Ordering::Relaxed) {
            return Ok(Some(Action::Quit));
        }
        if !there {
            return Ok(None);
        }
        Ok(match event::read().context("the terminal is gone")? {
            Event::Key(key) if key.kind != KeyEventKind::Release => action(key),
            Event::Resize(..) => Some(Action::Redraw),
            _ => None,
        })
    }
}

impl Drop for Screens {
    fn drop(&mut self) {
        give_back();
    }
}

/// Restores the terminal; may be called repeatedly.
fn give_back() {
    // A lost terminal cannot be restored.
    let _ = disable_raw_mode();
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
}

fn action(key: KeyEvent) -> Option<Action> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(key.code, KeyCode::Char('c' | 'd')).then_some(Action::Quit);
    }
    Some(match key.code {
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Esc => Action::Close,
        KeyCode::Up | KeyCode::Char('k') => Action::Key(Key::Up),
        KeyCode::Down | KeyCode::Char('j') => Action::Key(Key::Down),
        KeyCode::Enter | KeyCode::Right => Action::Key(Key::In),
        KeyCode::Left | KeyCode::Backspace => Action::Key(Key::Out),
        KeyCode::Char('s') => Action::Key(Key::Sort),
        KeyCode::Char('w') => Action::Key(Key::Window),
        KeyCode::Char(' ' | 'p') => Action::Key(Key::Pause),
        KeyCode::Char('z') => Action::Key(Key::Zeros),
        KeyCode::Char('?') => Action::Key(Key::Help),
        KeyCode::Char('+') => Action::Faster,
        KeyCode::Char('-') => Action::Slower,
        KeyCode::Char(other) => Action::Key(Key::By(other)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_c_quits_as_q_does_and_c_alone_does_not() {
        let plain = |code| action(KeyEvent::new(code, KeyModifiers::NONE));
        let control = |code| action(KeyEvent::new(code, KeyModifiers::CONTROL));
        assert_eq!(control(KeyCode::Char('c')), Some(Action::Quit));
        assert_eq!(plain(KeyCode::Char('q')), Some(Action::Quit));
        assert_eq!(plain(KeyCode::Char('c')), Some(Action::Key(Key::By('c'))));
        assert_eq!(control(KeyCode::Char('q')), None);
        assert_eq!(plain(KeyCode::Enter), Some(Action::Key(Key::In)));
    }
}
