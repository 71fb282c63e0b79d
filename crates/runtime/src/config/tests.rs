//! The layers of a configuration, its problems and its keys.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// A configuration with everything required, and then `set`.
fn resolve(set: &[&str]) -> Result<Resolved, ConfigError> {
    Sources { set: required(set), ..Sources::default() }.resolve()
}

fn messages(result: Result<Resolved, ConfigError>) -> Vec<String> {
    result.expect_err("a problem").to_string().lines().map(str::to_owned).collect()
}

#[test]
fn every_key_can_be_set_and_changes_the_config() {
    let base = resolve(&[]).unwrap().config;
    let values = layers::flatten(&base.to_table());
    // These have one value so far, see `samples_of_fewer_tokens_are_refused`.
    let fixed = ["policy.top_p", "policy.top_k"];
    for key in Config::keys().into_iter().filter(|key| !fixed.contains(&key.as_str())) {
        let other = another(&key, &values[&key]);
        let resolved = resolve(&[&format!("{key}={other}")])
            .unwrap_or_else(|error| panic!("{key}={other}: {error}"));
        assert_eq!(resolved.origin(&key), Origin::Flag);
        let found = &layers::flatten(&resolved.config.to_table())[&key];
        assert_ne!(found, &values[&key], "{key} stays what it is");
    }
}

/// A valid value of `key` that is not `value`.
fn another(key: &str, value: &toml::Value) -> String {
    match key {
        "schedule.kind" => "stale".into(),
        "generator.input" => "raw".into(),
        "generator.decoding" => "free".into(),
        "generator.anchor_loss" => "listnet".into(),
        "objective.aggregation" => "sequence".into(),
        "optimizer.schedule" => "cosine".into(),
        "evaluator.kind" => "gold".into(),
        "audit.world" => "none".into(),
        "telemetry.log" => "warn".into(),
        "telemetry.format" => "json".into(),
        key if value.as_str().is_some_and(|text| text.ends_with(":0")) => {
            format!("127.0.0.1:{}", 7000 + key.len())
        }
        _ => match value {
            toml::Value::String(text) => format!("{text}x"),
            toml::Value::Boolean(flag) => (!flag).to_string(),
            toml::Value::Integer(number) => (number + 1).to_string(),
            toml::Value::Float(number) => (number * 0.5 + 0.001).to_string(),
            other => panic!("{key} has a value of an unexpected kind: {other}"),
        },
    }
}

#[test]
fn flags_win_over_the_environment_over_the_file_over_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "[batch]\ngroup_size = 4\nmax_draws = 5\nmax_staleness = 6\n");
    let env = [("RUBRICON_BATCH__MAX_DRAWS", "7"), ("RUBRICON_BATCH__MAX_STALENESS", "8")];
    let sources = Sources {
        file: Some(file.clone()),
        env: env.map(|(name, value)| (name.into(), value.into())).to_vec(),
        set: required(&["batch.max_staleness=9"]),
    };
    let resolved = sources.resolve().unwrap();
    assert_eq!(resolved.config.batch, Batch { group_size: 4, max_draws: 7, max_staleness: 9 });
    assert_eq!(resolved.config.schedule, Schedule::default());
    assert_eq!(resolved.origin("batch.group_size"), Origin::File(file, 2));
    assert_eq!(resolved.origin("schedule.rounds"), Origin::Default);
}

#[test]
fn every_problem_is_reported_with_its_key_and_place() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[policy]\nlearing_rate = 1e-4\ntop_p = 1.5\nmax_tokens = \"many\"\n\n[polcy]\n\
                [batch]\ngroup_size = 1\n[run]\nname = { first = 1 }\nseed = -1\n\
                [objective]\n";
    let file = write(folder.path(), text);
    let sources = Sources {
        file: Some(file.clone()),
        env: vec![
            ("RUBRICON_SCHEDULE__ROUNDS".into(), "0".into()),
            ("RUBRICON_POLICY__ROUNDS".into(), "3".into()),
            ("RUBRICON_LOG".into(), "none of ours".into()),
        ],
        set: required(&["schedule.kind=frsh", "verifier", "generator.max_items=2"]),
    };
    let mut found = messages(sources.resolve());
    found.sort();
    let at = |line| format!("{}:{line}", file.display());
    let mut expected = [
        format!("{}: policy.learing_rate: unknown key, did you mean policy.learning_rate?", at(2)),
        format!(
            "{}: policy.top_p: 1.5, expected 1: training on samples of fewer tokens than all biases \
             the gradient",
            at(3)
        ),
        format!("{}: policy.max_tokens: invalid type: string \"many\", expected u32", at(4)),
        format!("{}: polcy: unknown section, did you mean policy?", at(6)),
        format!("{}: batch.group_size: 1, expected at least 2", at(8)),
        format!("{}: run.name.first: unknown key, did you mean run.name?", at(10)),
        format!("{}: run.seed: invalid value: integer `-1`, expected u64", at(11)),
        "environment variable RUBRICON_SCHEDULE__ROUNDS: schedule.rounds: 0, expected at least 1"
            .into(),
        "environment variable RUBRICON_POLICY__ROUNDS: policy.rounds: unknown key, did you mean \
         schedule.rounds?"
            .into(),
        "--set: schedule.kind: unknown variant `frsh`, expected one of `fresh`, `stale`, \
         `stale_budget`, `static`"
            .into(),
        "--set: verifier: no value, expected section.key=value".into(),
        "--set: generator.max_items: 2, expected at least generator.min_items, which is 4".into(),
    ];
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn impossible_values_are_refused() {
    for (set, expected) in [
        ("schedule.policy_steps=0", "0, expected at least 1"),
        ("batch.group_size=1", "1, expected at least 2"),
        ("batch.group_size=1000000", "1000000, expected at most 1024"),
        ("policy.groups_per_step=1000000000", "1000000000, expected at most 3072"),
        ("services.rollout_workers=1000000", "1000000, expected at most 256"),
        ("verifier.flip_rate=1.5", "1.5, expected a number in [0, 0.5)"),
        ("policy.learning_rate=nan", "NaN, expected a number in [0, 1]"),
        ("policy.temperature=0", "0, expected a number in (0, inf)"),
        ("policy.kl_coef=inf", "inf, expected a number in [0, inf)"),
        ("run.name=a/b", "\"a/b\", expected a name that can be that of a folder"),
        ("run.name=..", "\"..\", expected a name that can be that of a folder"),
        ("policy.model=", "missing, expected a model folder"),
        ("services.coordinator=here", "invalid socket address syntax"),
        ("services.grace_seconds=-1", "-1, expected a number in (0, 1000000]"),
        (
            "services.heartbeat_seconds=60",
            "60, expected less than services.lease_seconds, which is 60",
        ),
    ] {
        let key = set.split_once('=').unwrap().0;
        assert_eq!(messages(resolve(&[set])), [format!("--set: {key}: {expected}")]);
    }
    let two_on_one_port =
        resolve(&["services.rollout=127.0.0.1:7001", "services.rollout_workers=2"]);
    assert_eq!(
        messages(two_on_one_port),
        ["--set: services.rollout: 127.0.0.1:7001, expected port 0 for 2 workers in one place"]
    );
    let no_half = resolve(&["generator.holdout_half=true", "batch.group_size=3"]);
    assert_eq!(
        messages(no_half),
        ["--set: generator.holdout_half: true, expected batch.group_size of at least 4 for it, \
          which is 3"]
    );
}

#[test]
fn samples_of_fewer_tokens_are_refused() {
    for (set, expected) in [
        ("policy.top_p=0.9", "0.9, expected 1"),
        ("policy.top_p=nan", "NaN, expected 1"),
        ("policy.top_k=20", "20, expected 0"),
    ] {
        let key = set.split_once('=').unwrap().0;
        let why = "training on samples of fewer tokens than all biases the gradient";
        assert_eq!(messages(resolve(&[set])), [format!("--set: {key}: {expected}: {why}")]);
    }
}

#[test]
fn a_generator_is_required_only_where_one_is_used() {
    for (set, missing) in
        [("evaluator.kind=dynamic", 5), ("evaluator.kind=gold", 3), ("audit.world=none", 4)]
    {
        let sources = Sources { set: vec![set.to_owned()], ..Sources::default() };
        assert_eq!(messages(sources.resolve()).len(), missing, "{set}");
    }
}

#[test]
fn files_that_are_not_there_are_all_named() {
    let folder = tempfile::tempdir().unwrap();
    let prompts = write(folder.path(), "");
    let set = format!("policy.prompts={}", prompts.display());
    let model = format!("policy.model={}", folder.path().display());
    let found = resolve(&[&set, &model]).unwrap().check_files().unwrap_err().to_string();
    assert_eq!(
        found,
        "--set: generator.model: there is no folder g\n\
         --set: generator.anchors: there is no file a.jsonl\n\
         --set: audit.prompts: there is no file h.jsonl"
    );
}

#[test]
fn files_that_are_not_toml_are_refused_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    for (text, expected) in [
        ("[run]\nseed = \n", ":2: "),
        ("[run]\nseed = 1\nseed = 2\n", ":3: duplicate key"),
        ("[run]\n[run]\n", ":2: duplicate key"),
    ] {
        let file = write(folder.path(), text);
        let error = Sources { file: Some(file.clone()), ..Sources::default() }.resolve();
        let message = error.unwrap_err().to_string();
        assert!(message.starts_with(&format!("{}{expected}", file.display())), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
    let file = Some(write(folder.path(), "policy = 3\n"));
    let message = &messages(Sources { file, ..Sources::default() }.resolve())[0];
    assert!(message.ends_with(":1: policy: a value, expected a section with keys"), "{message}");
    let missing = Sources { file: Some("missing.toml".into()), ..Sources::default() };
    let message = missing.resolve().unwrap_err().to_string();
    assert!(message.starts_with("read config missing.toml: No such file"), "{message}");
}

#[test]
fn the_resolved_file_reads_back_as_the_same_config() {
    let folder = tempfile::tempdir().unwrap();
    let config = resolve(&["generator.input=raw", "policy.kl_coef=0.02"]).unwrap().config;
    let file = write(folder.path(), &config.to_toml());
    let again = Sources { file: Some(file), ..Sources::default() }.resolve().unwrap().config;
    assert_eq!(again, config);
    assert!(again.changed_since(&config).is_empty());
}

#[test]
fn how_a_run_is_spread_is_not_what_it_is() {
    let earlier = resolve(&[]).unwrap().config;
    let spread = ["services.threads=3", "run.dir=x", "telemetry.log=warn"];
    let same = resolve(&spread).unwrap().config;
    assert!(same.changed_since(&earlier).is_empty());
    assert_eq!(same.digest(), earlier.digest());
    let other = resolve(&[&spread[..], &["run.seed=5"]].concat()).unwrap().config;
    assert_eq!(other.changed_since(&earlier), ["run.seed"]);
    assert_ne!(other.digest(), earlier.digest());
}

#[test]
fn a_run_is_named_after_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.toml");
    fs::write(&file, "").unwrap();
    let sources = Sources { file: Some(file), set: required(&[]), ..Sources::default() };
    let run = sources.resolve().unwrap().config.run;
    assert_eq!((run.name.as_str(), run.dir.as_path()), ("mine", Path::new("runs/mine")));
    let named = resolve(&["run.name=other", "run.dir=d"]).unwrap().config.run;
    assert_eq!((named.name.as_str(), named.dir.as_path()), ("other", Path::new("d")));
}

#[test]
fn the_batch_arithmetic_follows() {
    let base = ["schedule.rounds=3", "policy.max_tokens=24", "generator.max_tokens=20"];
    let derived = |set: &str| resolve(&[&base[..], &[set]].concat()).unwrap().config.derived();
    let fresh = derived("schedule.kind=fresh");
    // 12 groups x 8 completions x 24 tokens, 3 rounds x 50 steps, 4 draws for each group at most.
    assert_eq!(
        fresh.policy,
        derived::Work {
            steps: 150,
            groups_per_step: 12,
            rollouts_per_step: 96,
            tokens_per_step: 2304,
            fewest_draws: 1800,
            most_draws: 7200,
        }
    );
    // 8 groups x 8 rubrics x 20 tokens, 3 rounds x 40 steps.
    assert_eq!((fresh.generator.steps, fresh.generator.tokens_per_step), (120, 1280));
    assert_eq!(fresh.steps, 270);
    for (set, generator_steps) in [
        ("schedule.kind=stale", 40),
        ("schedule.kind=stale_budget", 120),
        ("schedule.kind=static", 40),
        ("evaluator.kind=gold", 0),
    ] {
        assert_eq!(derived(set).generator.steps, generator_steps, "{set}");
    }
    assert!(fresh.to_string().contains("tokens a step, at most              2304        1280\n"));
}

fn required(set: &[&str]) -> Vec<String> {
    ["policy.model=p", "policy.prompts=p.jsonl", "generator.model=g", "generator.anchors=a.jsonl"]
        .iter()
        .chain(&["audit.prompts=h.jsonl"])
        .chain(set)
        .map(|text| (*text).to_owned())
        .collect()
}

fn write(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("config.toml");
    fs::write(&file, text).unwrap();
    file
}

#[test]
fn the_shipped_configs_are_valid() {
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    for name in ["quickstart", "smoke"] {
        let file = configs.join(name).with_extension("toml");
        let resolved = Sources { file: Some(file), ..Sources::default() }.resolve().unwrap();
        assert_eq!(resolved.config.run.name, name);
    }
}

#[test]
fn text_may_be_set_in_quotes_or_without() {
    for set in ["run.name=a b", "run.name=\"a b\"", "run.name='a b'"] {
        assert_eq!(resolve(&[set]).expect("valid").config.run.name, "a b", "{set}");
    }
    // A quote that is not closed is part of the text.
    assert_eq!(resolve(&["run.name=\"a"]).expect("valid").config.run.name, "\"a");
}
