//! The staleness matrix: samples of each policy P_t scored by every generator G_tau (method,
//! section 8).

use serde::{Deserialize, Serialize};

use super::audited::Audited;

/// A cell: what generator G_tau makes of samples of policy P_t.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The row: t of P_t, the policy after t policy phases.
    pub policy: usize,
    /// The policy's version.
    pub policy_version: u64,
    /// The column: tau of G_tau, the generator after tau evaluator phases.
    pub generator: usize,
    /// The generator's version.
    pub generator_version: u64,
    /// Groups scored.
    pub groups: usize,
    /// The mean of `S_better - S_worse` over pairs that gold tells apart.
    pub oriented_gap: Option<f64>,
    /// The share of those pairs in the right order.
    pub pair_accuracy: Option<f64>,
    /// The share of pairs with equal scores.
    pub tie_fraction: Option<f64>,
    /// The share of items that vary in the group.
    pub discrimination: Option<f64>,
}

/// All cells that were measured, row by row. Of several audits of a cell the last one counts.
#[must_use]
pub fn matrix(audits: &[Audited<'_>]) -> Vec<Cell> {
    // An audit within a phase is of no P_t; one after an evaluator phase is of earlier samples.
    let ends = audits.iter().filter(|a| ["start", "policy"].contains(&a.line.moment.as_str()));
    let mut policies: Vec<u64> = ends.map(|audit| audit.line.policy_version).collect();
    policies.dedup();
    let generators = audits.iter().map(|a| &a.line.generator_versions).max_by_key(|all| all.len());
    let mut cells = Vec::new();
    for (policy, &policy_version) in policies.iter().enumerate() {
        let of_policy = || {
            let of_phase = audits.iter().filter(|audit| audit.line.moment != "within");
            of_phase.filter(|audit| audit.line.policy_version == policy_version)
        };
        for (generator, &generator_version) in generators.into_iter().flatten().enumerate() {
            let mut judged = of_policy().map(|audit| audit.judgement(generator_version));
            let Some(judged) = judged.rfind(|judged| judged.groups > 0) else { continue };
            cells.push(Cell {
                policy,
                policy_version,
                generator,
                generator_version,
                groups: judged.groups,
                oriented_gap: judged.oriented_gap,
                pair_accuracy: judged.pair_accuracy,
                tie_fraction: judged.tie_fraction,
                discrimination: judged.discrimination,
            });
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::super::{audited, fixture};
    use super::*;

    #[test]
    fn rows_are_policies_and_columns_generators() {
        let lines = [
            fixture::audit(0, 0, "start", &[0]),
            fixture::audit(40, 1, "generator", &[0, 40]),
            fixture::audit(65, 1, "within", &[0, 40]),
            fixture::audit(90, 1, "policy", &[0, 40]),
        ];
        let cells = matrix(&audited::audited(&lines, &fixture::gold));
        let places: Vec<_> =
            cells.iter().map(|c| (c.policy, c.policy_version, c.generator)).collect();
        // The fixture's policy version is the number of policy steps: 0 until step 40, 50 at 90.
        assert_eq!(places, [(0, 0, 0), (0, 0, 1), (1, 50, 0), (1, 50, 1)]);
        assert!(cells.iter().all(|cell| cell.groups == 2 && cell.oriented_gap.is_some()));
    }
}
