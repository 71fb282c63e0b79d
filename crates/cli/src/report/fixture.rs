//! A small run made up for tests.

use std::collections::BTreeMap;
use std::path::Path;

use coordinator::journal::{
    AuditEvaluation, AuditGroup, AuditLine, RubricLine, RunState, StepLine,
};
use ledger::{End, Tally};
use rl::{
    Actor, Digest, DropReason, Polarity, Rubric, RubricItem, Verdict, WeightRef, WeightVersion,
};

use super::audited::Judged;
use super::series;

/// Worth is the share of letters that are "a".
pub(crate) fn gold(_prompt: &str, completion: &str) -> Option<Judged> {
    let letters = completion.chars().filter(char::is_ascii_alphabetic).count().max(1) as f64;
    let score = completion.chars().filter(|c| *c == 'a').count() as f64 / letters;
    Some(Judged { task: "letters", score, qualities: vec![("some", score > 0.0)] })
}

/// Two groups of three completions: scores as gold in the first, all equal in the second.
pub(crate) fn audit(step: u64, round: u32, moment: &str, generators: &[u64]) -> AuditLine {
    let group = |id: &str, scores: [f64; 3], row: &str| AuditGroup {
        prompt_id: id.into(),
        prompt: format!("Write a for {id}."),
        completions: ["bb", "ab", "aa"].map(str::to_owned).to_vec(),
        tokens: vec![2; 3],
        evaluations: generators
            .iter()
            .map(|&generator_version| AuditEvaluation {
                generator_version,
                rubric: Some(rubric()),
                verdicts: vec![row.chars().map(|c| Verdict::from(c == '1')).collect()],
                scores: scores.to_vec(),
            })
            .collect(),
    };
    AuditLine {
        step,
        round,
        moment: moment.into(),
        policy_version: match moment {
            "policy" => u64::from(round) * 50,
            "within" => u64::from(round) * 50 - 25,
            _ => 0,
        },
        generator_versions: generators.to_vec(),
        groups: vec![group("h0", [0.0, 0.5, 1.0], "011"), group("h1", [0.5; 3], "111")],
        failure: None,
    }
}

/// A rubric of one item.
pub(crate) fn rubric() -> Rubric {
    let item = RubricItem {
        criterion: "has <a>".into(),
        weight: 3,
        polarity: Polarity::Positive,
        check: None,
    };
    Rubric { items: vec![item] }
}

/// A line of `rubrics.jsonl`.
pub(crate) fn rubric_line(step: u64, round: u32) -> RubricLine {
    RubricLine {
        step,
        round,
        generator_version: 40,
        prompt: "Write a for you.".into(),
        rubric: rubric(),
        completions: vec!["bb & <b>".into(), "aa".into()],
        scores: vec![0.9, 0.8],
    }
}

/// A line of `steps.jsonl`.
pub(crate) fn step(step: u64, round: u32, phase: &str, metrics: &[(&str, f64)]) -> StepLine {
    let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    StepLine { step, round, phase: phase.into(), wall_time: step as f64, metrics }
}

/// Writes the folder of a finished run of two rounds.
pub(crate) fn write_run(dir: &Path) {
    let mut audits = vec![audit(0, 0, "start", &[0])];
    let (mut rubrics, mut steps) = (Vec::new(), Vec::new());
    let mut generators = vec![0];
    for round in 1..=2u32 {
        let base = u64::from(round - 1) * 90;
        generators.push(u64::from(round) * 40);
        steps.extend((base..base + 40).map(|s| step(s, round, "evaluator", &evaluator_metrics(s))));
        steps.extend((base + 40..base + 90).map(|s| step(s, round, "policy", &policy_metrics(s))));
        for policy_version in (0..round).map(|r| u64::from(r) * 50) {
            let again = audit(base + 40, round, "generator", &generators);
            audits.push(AuditLine { policy_version, ..again });
        }
        audits.push(audit(base + 65, round, "within", &generators));
        audits.push(audit(base + 90, round, "policy", &generators));
        rubrics.extend([45, 85].map(|at| rubric_line(base + at, round)));
    }
    let config = "[policy]\nmodel = \"p\"\nprompts = \"t\"\n[generator]\nmodel = \"g\"\n\
                  anchors = \"a\"\n[audit]\nprompts = \"h\"\n";
    std::fs::write(dir.join("config.toml"), config).unwrap();
    let state = serde_json::to_vec(&state()).unwrap();
    std::fs::write(dir.join("state.json"), state).unwrap();
    write_lines(&dir.join("audit.jsonl"), &audits);
    write_lines(&dir.join("rubrics.jsonl"), &rubrics);
    write_lines(&dir.join("steps.jsonl"), &steps);
}

fn policy_metrics(step: u64) -> [(&'static str, f64); 10] {
    let t = step as f64 / 180.0;
    [
        (series::REWARD, 0.4 + 0.3 * t + 0.02 * (step as f64).sin()),
        (series::TIES, 0.1 + 0.2 * t),
        (series::ZERO_VARIANCE, 0.05 + 0.1 * t),
        ("policy/kl", 0.02 * t),
        ("policy/entropy", 0.9 - 0.4 * t),
        ("policy/tokens", 2000.0),
        ("time/rollout", 0.3),
        ("time/train", 0.4),
        ("time/overhead", 0.05),
        ("time/step", 0.8),
    ]
}

fn evaluator_metrics(step: u64) -> [(&'static str, f64); 7] {
    let t = step as f64 / 180.0;
    [
        ("generator/kl", 0.03 * t),
        ("generator/entropy", 1.5 - 0.4 * t),
        ("generator/tokens", 1000.0),
        ("time/rollout", 0.2),
        ("time/train", 0.3),
        ("time/overhead", 0.04),
        ("time/step", 0.6),
    ]
}

fn state() -> RunState {
    let groups = |drawn, trained, no_signal| Tally {
        drawn,
        trained,
        dropped: BTreeMap::from([(DropReason::NoSignal, no_signal)]),
    };
    let weights = |actor, version| WeightRef {
        actor,
        version: WeightVersion(version),
        digest: Digest([version as u8; 32]),
    };
    RunState {
        schedule: "fresh".into(),
        seed: 0,
        step: 180,
        groups: BTreeMap::from([
            ("policy".to_owned(), groups(1300, 1200, 100)),
            ("rubric".to_owned(), groups(650, 640, 10)),
        ]),
        weights: BTreeMap::from([
            ("policy".to_owned(), weights(Actor::Policy, 100)),
            ("generator".to_owned(), weights(Actor::Generator, 80)),
        ]),
        skipped_steps: 0,
        end: Some(End::Completed),
    }
}

fn write_lines<T: serde::Serialize>(path: &Path, lines: &[T]) {
    let text: String =
        lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
    std::fs::write(path, text).unwrap();
}
