//! Who may depend on whom. Imports go down only, and a few crates are named in one place.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

/// Each crate with the crates of this workspace that it may build on, from the bottom up.
const EDGES: &[(&str, &[&str])] = &[
    // Layer 0: the nouns of a run and their arithmetic.
    ("rl", &[]),
    // Layer 1: the wire.
    ("proto", &["rl"]),
    // Layer 2: one concern each.
    ("ledger", &["rl"]),
    ("store", &["rl"]),
    ("weights", &["rl"]),
    ("lm", &["rl"]),
    ("rubric", &["rl"]),
    ("data", &["rl"]),
    ("world", &["rl"]),
    ("runtime", &["rl", "proto", "weights"]),
    // The hidden truth: see `PRIVATE`.
    ("gold", &["rl", "rubric", "world"]),
    // Layer 3: a model kept at the weights that a request names.
    ("engine", &["rl", "proto", "lm", "weights", "runtime"]),
    // Layer 4: the services. None of them names another.
    ("coordinator", &["rl", "proto", "ledger", "store", "weights", "data", "runtime"]),
    ("rollout", &["rl", "proto", "lm", "weights", "runtime", "engine"]),
    ("evaluator", &["rl", "proto", "lm", "weights", "rubric", "world", "runtime", "engine"]),
    ("learner", &["rl", "proto", "lm", "weights", "runtime"]),
    // Layer 5: the binary, and the whole system under test.
    ("cli", ALL),
    ("local-cluster", SERVICES),
    ("xtask", &[]),
];

const ALL: &[&str] = &[
    "rl",
    "proto",
    "ledger",
    "store",
    "weights",
    "lm",
    "rubric",
    "data",
    "world",
    "gold",
    "runtime",
    "engine",
    "coordinator",
    "rollout",
    "evaluator",
    "learner",
];

const SERVICES: &[&str] = &[
    "rl",
    "proto",
    "ledger",
    "store",
    "weights",
    "lm",
    "rubric",
    "data",
    "world",
    "runtime",
    "engine",
    "coordinator",
    "rollout",
    "evaluator",
    "learner",
];

/// Crates that only these may name, tests included: nothing that trains may read gold.
const PRIVATE: &[(&str, &[&str])] = &[("gold", &["cli"])];

/// Crates of others and the only ones that may name them, tests included.
const OWNERS: &[(&str, &[&str])] = &[
    ("burn", &["lm"]),
    ("tokenizers", &["lm"]),
    ("safetensors", &["lm"]),
    ("redb", &["store"]),
    ("etcd-client", &["store"]),
    ("prost", &["proto"]),
    ("clap", &["cli"]),
    ("indicatif", &["cli"]),
    ("plotters", &["cli"]),
    ("anyhow", &["cli", "xtask", "local-cluster"]),
];

/// Crates of others that a crate must do without, beyond what [`OWNERS`] says.
const PURE: &[(&str, &[&str])] = &[
    ("rl", &["tokio", "tonic", "rand", "tracing"]),
    ("ledger", &["tokio", "tonic", "rand", "tracing"]),
    ("store", &["tonic"]),
    ("lm", &["tokio", "tonic"]),
    ("rubric", &["tonic"]),
    ("data", &["tonic"]),
    ("world", &["tonic"]),
];

/// Complains about every dependency that the tables do not allow.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .context("run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("read cargo metadata")?;
    crate::settle("layers", &complaints(&metadata))
}

/// A dependency of one crate on another.
struct Edge<'a> {
    from: &'a str,
    to: &'a str,
    /// Whether `to` is of this workspace.
    internal: bool,
    /// Whether only tests need it.
    dev: bool,
}

fn complaints(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let mut complaints = Vec::new();
    for package in packages {
        let from = package["name"].as_str().unwrap_or_default();
        if !EDGES.iter().any(|(name, _)| *name == from) {
            complaints.push(format!("{from}: not in the table of layers"));
        }
        let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
        let edges = dependencies.iter().map(|dependency| Edge {
            from,
            to: dependency["name"].as_str().unwrap_or_default(),
            internal: dependency["path"].is_string(),
            dev: dependency["kind"] == "dev",
        });
        complaints.extend(edges.filter_map(|edge| complaint(&edge)));
    }
    complaints
}

fn complaint(edge: &Edge<'_>) -> Option<String> {
    let Edge { from, to, .. } = *edge;
    let of = |table: &[(&str, &'static [&'static str])], name: &str| {
        table.iter().find(|(key, _)| *key == name).map(|(_, names)| *names)
    };
    if let Some(users) = of(PRIVATE, to).filter(|users| !users.contains(&from)) {
        return Some(format!("{from} names {to}, which only {} may", users.join(", ")));
    }
    if edge.internal {
        let allowed = of(EDGES, from).unwrap_or_default();
        let fine = edge.dev || allowed.contains(&to);
        return (!fine).then(|| format!("{from} names {to} (it may name: {})", allowed.join(", ")));
    }
    if let Some(owners) = of(OWNERS, to).filter(|owners| !owners.contains(&from)) {
        return Some(format!("{from} names {to}, which only {} may", owners.join(", ")));
    }
    let refused = !edge.dev && of(PURE, from).is_some_and(|names| names.contains(&to));
    refused.then(|| format!("{from} names {to}, without which it has to do"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(from: &str, to: &str, internal: bool, kind: Value) -> Vec<String> {
        let path = if internal { json!("crates/x") } else { Value::Null };
        let dependency = json!({"name": to, "path": path, "kind": kind});
        complaints(&json!({"packages": [{"name": from, "dependencies": [dependency]}]}))
    }

    #[test]
    fn edges_are_held_to_the_tables() {
        for (from, to, internal, kind, fine) in [
            ("rollout", "lm", true, Value::Null, true),
            ("rollout", "evaluator", true, Value::Null, false),
            ("rl", "proto", true, Value::Null, false),
            // Tests may go up, but not to gold.
            ("rl", "proto", true, json!("dev"), true),
            ("evaluator", "gold", true, json!("dev"), false),
            ("cli", "gold", true, Value::Null, true),
            ("lm", "burn", false, Value::Null, true),
            ("learner", "burn", false, json!("dev"), false),
            ("ledger", "tokio", false, Value::Null, false),
            ("ledger", "serde", false, Value::Null, true),
            ("stranger", "serde", false, Value::Null, false),
        ] {
            let found = found(from, to, internal, kind);
            assert_eq!(found.is_empty(), fine, "{from} -> {to}: {found:?}");
        }
    }

    #[test]
    fn the_table_goes_down_only() {
        for (place, (name, below)) in EDGES.iter().enumerate() {
            for lower in *below {
                let found = EDGES[..place].iter().any(|(earlier, _)| earlier == lower);
                assert!(found, "{name} names {lower}, which does not stand before it");
            }
        }
    }
}
