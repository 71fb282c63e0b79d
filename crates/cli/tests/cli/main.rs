//! The binary as it is used: arguments in, exit codes, output and messages out.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod check;
mod model;
mod report;
mod score;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs the binary in a folder, with text on standard input.
fn rubricon(dir: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_rubricon"))
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Standard output of a command that must succeed.
fn succeeds(dir: &Path, arguments: &[&str], input: &str) -> String {
    let output = rubricon(dir, arguments, input);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The message of a command that must fail with this code; each of its lines is an error.
fn fails(dir: &Path, arguments: &[&str], code: i32) -> String {
    let output = rubricon(dir, arguments, "");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert!(message.lines().all(|line| line.starts_with("error: ")), "{message}");
    message
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_is_no_failure_and_wrong_arguments_are_wrong_usage() {
    let here = Path::new(".");
    assert!(succeeds(here, &["--help"], "").contains("rubricon run configs/quickstart.toml"));
    assert!(succeeds(here, &["run", "--help"], "").contains("--processes"));
    assert!(succeeds(here, &["completions", "bash"], "").contains("_rubricon"));
    for arguments in [&["fly"][..], &[], &["run"], &["serve", "cook", "a.toml"]] {
        assert_eq!(rubricon(here, arguments, "").status.code(), Some(64), "{arguments:?}");
    }
}

#[test]
fn a_reader_that_has_gone_is_no_failure_and_a_full_disk_is_one() {
    let to = |stdout: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rubricon"));
        command.args(["completions", "bash"]).stdout(stdout).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut gone = to(Stdio::piped());
    drop(gone.stdout.take());
    let gone = gone.wait_with_output().unwrap();
    assert_eq!((gone.status.code(), text(&gone.stderr)), (Some(0), String::new()));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let full = to(full.into()).wait_with_output().unwrap();
    assert_eq!(full.status.code(), Some(1));
    assert!(text(&full.stderr).starts_with("error: write to standard output: No space left"));
}
