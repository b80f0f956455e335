//! Clients without a password: they must not lock out clients with one.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use netto::config::Config;
use socket2::SockRef;

use crate::support::*;

// "ali:open sesame" and "ali:close sesame".
const RIGHT: (&str, &str) = ("Authorization", "Basic YWxpOm9wZW4gc2VzYW1l");
const WRONG: (&str, &str) = ("Authorization", "Basic YWxpOmNsb3NlIHNlc2FtZQ==");

/// A file with one user, whose password takes some milliseconds to check.
fn write_user(file: &Path, password: &str) {
    let hash = bcrypt::hash(password, 6).expect("a hash");
    std::fs::write(file, format!("basic_auth_users:\n  ali: {hash}\n")).expect("written");
}

/// A daemon with that user.
fn protected() -> (Daemon, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("web.yml");
    write_user(&file, "open sesame");
    let config = Config {
        web_config_file: Some(file),
        ..config()
    };
    (Daemon::start(&config, endless()), folder)
}

#[test]
fn clients_that_hang_up_while_their_password_is_checked_take_no_place_with_them() {
    let (daemon, _folder) = protected();
    let request = format!(
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n{}: {}\r\n\r\n",
        WRONG.0, WRONG.1
    );
    for round in 0..300 {
        let mut stream = connect(daemon.address);
        stream.write_all(request.as_bytes()).expect("sent");
        // Some are cut off while they wait, some while they are checked, some before they are read.
        std::thread::sleep(Duration::from_millis(round % 10));
        SockRef::from(&stream)
            .set_linger(Some(Duration::ZERO))
            .expect("a reset instead of a close message");
    }
    // The last of them may still be queued: this client is in the same queue.
    let answer = eventually("an answer", || {
        Some(get(daemon.address, "/healthz", &[RIGHT])).filter(|answer| answer.status != 503)
    });
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_new_password_holds_without_a_restart_and_a_file_without_users_changes_nothing() {
    let (daemon, folder) = protected();
    let file = folder.path().join("web.yml");
    let status = |header| get(daemon.address, "/healthz", &[header]).status;
    assert_eq!([status(RIGHT), status(WRONG)], [200, 401]);
    write_user(&file, "close sesame");
    until("the new password", || status(WRONG) == 200);
    assert_eq!(status(RIGHT), 401);
    // One that is about to be written is empty first.
    std::fs::write(&file, "").expect("written");
    write_user(&file, "open sesame");
    until("the first password", || status(RIGHT) == 200);
    assert_eq!(get(daemon.address, "/healthz", &[]).status, 401);
}
