//! The hidden gold score: for audits after the fact, and for baselines that say so loudly.

use std::sync::Arc;

use evaluator::Scorer;
use evaluator::scorer::Random;
use rl::Seed;
use runtime::config::EvaluatorKind;
use world::Task;

use crate::report::audited::Judged;

/// The gold of a completion; nothing where no world knows the prompt.
#[must_use]
pub fn judge(prompt: &str, completion: &str) -> Option<Judged> {
    let task = Task::parse(prompt)?;
    let gold = gold::score_task(&task, completion);
    let kind = match task.kind() {
        world::Kind::Note => "note",
        world::Kind::List => "list",
        world::Kind::Sum => "sum",
    };
    Some(Judged { task: kind, score: gold.total, qualities: gold.qualities })
}

/// Who scores in the generator's stead, if the configuration asks for a baseline.
#[must_use]
pub fn scorer(kind: EvaluatorKind) -> Option<Arc<dyn Scorer>> {
    match kind {
        EvaluatorKind::Dynamic => None,
        EvaluatorKind::Random => Some(Arc::new(Random)),
        EvaluatorKind::Gold => {
            tracing::warn!(
                "ORACLE: this run is rewarded by the hidden gold score; it shows a ceiling, not \
                 the method"
            );
            Some(Arc::new(GoldScorer))
        }
    }
}

/// Scores by the hidden gold score.
struct GoldScorer;

impl Scorer for GoldScorer {
    fn scores(&self, prompt: &str, completions: &[String], _: Seed) -> Result<Vec<f64>, String> {
        let score = |text: &String| gold::score(prompt, text).map(|gold| gold.total);
        completions.iter().map(score).collect::<Result<_, _>>().map_err(|e| e.to_string())
    }
}
