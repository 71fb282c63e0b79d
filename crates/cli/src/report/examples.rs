//! Texts worth reading: rubrics and completions, early and late.

use coordinator::journal::RubricLine;

use super::audited::Audited;

/// Completions of one held-out prompt at the first and the last audit, with their gold.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The prompt.
    pub prompt: String,
    /// A completion of the starting policy.
    pub early: (String, f64),
    /// A completion of the last policy.
    pub late: (String, f64),
}

/// The median completions of the first prompt of each task.
#[must_use]
pub fn changes(audits: &[Audited<'_>]) -> Vec<Change> {
    let measured: Vec<&Audited<'_>> =
        audits.iter().filter(|a| !a.groups.is_empty()).filter(|a| a.is_of_its_step()).collect();
    let (Some(first), Some(last)) = (measured.first(), measured.last()) else {
        return Vec::new();
    };
    let mut tasks = Vec::new();
    let mut changes = Vec::new();
    for early in &first.groups {
        let Some(task) = early.judged.first().map(|judged| judged.task) else { continue };
        let late = last.groups.iter().find(|late| late.group.prompt == early.group.prompt);
        let (false, Some(late)) = (tasks.contains(&task), late) else { continue };
        if let (Some(early_text), Some(late_text)) = (median(early), median(late)) {
            tasks.push(task);
            let prompt = early.group.prompt.clone();
            changes.push(Change { prompt, early: early_text, late: late_text });
        }
    }
    changes
}

/// An early and a late rubric, for prompts of the same kind if there are any.
#[must_use]
pub fn rubrics(lines: &[RubricLine]) -> Option<(&RubricLine, &RubricLine)> {
    let (first, last) = (lines.first()?, lines.last()?);
    let opening = |line: &RubricLine| line.prompt.split(' ').take(2).map(str::to_owned).collect();
    let kind: Vec<String> = opening(first);
    let same = lines.iter().rfind(|line| opening(line) == kind && line.step > first.step);
    Some((first, same.unwrap_or(last)))
}

/// The completion of the middle gold score.
fn median(group: &super::audited::AuditedGroup<'_>) -> Option<(String, f64)> {
    let mut all: Vec<(&String, f64)> = group.group.completions.iter().zip(group.gold()).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    all.get(all.len() / 2).map(|(text, gold)| ((*text).clone(), *gold))
}
