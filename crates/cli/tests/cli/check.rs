//! `rubricon check`: configurations, good and bad.

use std::path::Path;

use super::model::write_model;
use super::{fails, succeeds};

const CONFIG: &str = "\
[policy]
model = \"m\"
prompts = \"prompts.jsonl\"
[generator]
model = \"m\"
anchors = \"anchors.jsonl\"
[audit]
prompts = \"heldout.jsonl\"
";

fn write_all(dir: &Path) {
    write_model(&dir.join("m"));
    let prompt = |id: &str| format!("{{\"id\": \"{id}\", \"prompt\": \"Write a note.\"}}\n");
    std::fs::write(dir.join("prompts.jsonl"), prompt("a") + "not json\n").unwrap();
    std::fs::write(dir.join("heldout.jsonl"), prompt("b")).unwrap();
    let anchor = "{\"id\": \"c\", \"prompt\": \"Write.\", \"responses\": [{\"id\": \"x\", \"text\": \
                  \"One.\"}, {\"id\": \"y\", \"text\": \"Two.\"}], \"tiers\": [[\"x\"], [\"y\"]]}\n";
    std::fs::write(dir.join("anchors.jsonl"), anchor).unwrap();
    std::fs::write(dir.join("run.toml"), CONFIG).unwrap();
}

#[test]
fn a_good_configuration_is_printed_with_what_follows_from_it() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path());
    let set = ["check", "run.toml", "--set", "policy.groups_per_step=5"];
    let output = succeeds(dir.path(), &set, "");
    // 5 groups of 8 completions.
    for part in ["groups_per_step = 5", "# rollouts a step", "40", "1 that cannot be used", "MiB"] {
        assert!(output.contains(part), "{part}: {output}");
    }
    // The output is a configuration again.
    std::fs::write(dir.path().join("again.toml"), &output).unwrap();
    assert!(succeeds(dir.path(), &["check", "again.toml"], "").contains("groups_per_step = 5"));
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn wrong_keys_and_values_are_all_named_with_code_64() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path());
    let bad = CONFIG.replace("[policy]", "[batch]\ngroup_size = 1\n[policy]\nlerning_rate = 1e-3");
    std::fs::write(dir.path().join("bad.toml"), bad).unwrap();
    for command in ["check", "run"] {
        let message = fails(dir.path(), &[command, "bad.toml"], 64);
        assert!(message.contains("bad.toml:2: batch.group_size"), "{message}");
        assert!(message.contains("bad.toml:4: policy.lerning_rate"), "{message}");
        assert!(message.contains("learning_rate"), "{message}");
    }
    let message = fails(dir.path(), &["check", "nowhere.toml"], 64);
    assert!(message.contains("nowhere.toml"), "{message}");
    let message = fails(dir.path(), &["check", "run.toml", "--set", "policy.kl_coef=much"], 64);
    assert!(message.contains("policy.kl_coef"), "{message}");
}

#[test]
fn files_that_are_missing_or_hold_nothing_are_named() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path());
    std::fs::write(dir.path().join("prompts.jsonl"), "").unwrap();
    let message = fails(dir.path(), &["check", "run.toml"], 1);
    assert!(message.contains("policy.prompts: ") && message.contains("prompts.jsonl"), "{message}");
    std::fs::remove_file(dir.path().join("prompts.jsonl")).unwrap();
    let message = fails(dir.path(), &["check", "run.toml"], 64);
    assert!(message.contains("policy.prompts"), "{message}");
}

#[test]
fn a_service_needs_to_know_its_coordinator() {
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path());
    let message = fails(dir.path(), &["serve", "rollout", "run.toml"], 64);
    assert!(message.contains("services.coordinator"), "{message}");
}
