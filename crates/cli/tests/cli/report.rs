//! `rubricon report`: from the files of a run to a summary and a page.

use std::path::Path;

use serde_json::{Value, json};

use super::{fails, succeeds};

const CONFIG: &str = "\
[run]
name = \"tiny\"
seed = 7
[policy]
model = \"m\"
prompts = \"p\"
[generator]
model = \"g\"
anchors = \"a\"
[audit]
prompts = \"h\"
";

/// The audit of one prompt: an empty and an ideal answer, scored the right way round.
fn audit(step: u64, round: u32, moment: &str, policy_version: u64) -> Value {
    let task = world::Task::parse("List 2 tools from A to Z.").unwrap();
    let evaluation = json!({
        "generator_version": 0,
        "rubric": {"rubrics": [{"criterion": "sorted", "weight": 2}]},
        "verdicts": [["unmet", "met"]],
        "scores": [0.25, 1.0],
    });
    let group = json!({
        "prompt_id": "h-0",
        "prompt": task.prompt(),
        "completions": ["", gold::ideal(&task)],
        "tokens": [0, 9],
        "evaluations": [evaluation],
    });
    json!({"step": step, "round": round, "moment": moment, "policy_version": policy_version,
           "generator_versions": [0], "groups": [group], "failure": null})
}

fn write_run(dir: &Path) {
    let lines = |lines: &[Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let step = json!({"step": 0, "round": 1, "phase": "policy", "wall_time": 1.0, "metrics": {
        "reward/mean": 0.6, "policy/tokens": 100.0, "time/step": 2.0, "time/overhead": 0.1}});
    std::fs::write(dir.join("config.toml"), CONFIG).unwrap();
    std::fs::write(dir.join("steps.jsonl"), lines(&[step])).unwrap();
    let audits = [audit(0, 0, "start", 0), audit(1, 1, "policy", 1)];
    std::fs::write(dir.join("audit.jsonl"), lines(&audits)).unwrap();
}

#[test]
fn a_run_is_summarised_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path());
    let output = succeeds(dir.path(), &["report", "."], "");
    assert!(output.contains("gold, start to end") && output.contains("report.html"), "{output}");
    let summary = std::fs::read(dir.path().join("summary.json")).unwrap();
    let summary: Value = serde_json::from_slice(&summary).unwrap();
    // An empty answer is worth 0, an ideal one 1; the scores differ by .75.
    assert_eq!(summary["gold"]["start"], json!(0.5));
    assert_eq!(summary["gold"]["ceiling"], json!(1.0));
    assert_eq!(summary["oriented_gap"]["first_round"], json!(0.75));
    assert_eq!((&summary["seed"], &summary["schedule"]), (&json!(7), &json!("fresh")));
    assert_eq!(summary["tokens_per_second"], json!(50.0));
    assert_eq!(summary["overhead_fraction"], json!(0.05));
    // Not measured is not 0.
    assert_eq!(summary["rounds"][0]["parse_failure"], Value::Null);
    let html = std::fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("not measured"));
}

#[test]
fn folders_without_a_run_and_damaged_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let message = fails(dir.path(), &["report", "."], 64);
    assert!(message.contains("no config.toml"), "{message}");
    write_run(dir.path());
    std::fs::write(dir.path().join("steps.jsonl"), "{}\n{}\n").unwrap();
    let message = fails(dir.path(), &["report", "."], 1);
    assert!(message.contains("steps.jsonl:1:") && message.lines().count() == 1, "{message}");
}
