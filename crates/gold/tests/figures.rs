//! The figures of the world: base rates, ties, lengths, decoys. `--nocapture` prints them.

use gold::{qualities, score_task};
use rl::gap::{TIE, tie_fraction};
use rl::{Seed, Stream};
use rubric::{met, text};
use world::author::Stage;
use world::bank::bank;
use world::prompts::all_tasks;
use world::{Author, Care, Draws, Kind, Task};

const GROUPS: usize = 800;

/// Groups of six answers of one kind by one author.
fn groups(kind: Kind, care: Care) -> Vec<(Task, Vec<String>)> {
    let (pool, author) = (all_tasks(kind), Author::new(care));
    let seed = Seed::new(11, Stream::Data).child(kind as u64);
    (0..GROUPS)
        .map(|i| {
            let mut draws = Draws::new(seed.child(i as u64));
            let task = draws.choose(&pool);
            (task, (0..6).map(|_| author.answer(&task, &mut draws)).collect())
        })
        .collect()
}

fn care(early: f64, late: f64, harm: f64) -> Care {
    Care { early, late, harm }
}

fn gold(task: &Task, group: &[String]) -> Vec<f64> {
    group.iter().map(|answer| score_task(task, answer).total).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (mx, my) = (mean(&x), mean(&y));
    let covariance = |f: &dyn Fn(f64, f64) -> f64| {
        mean(&pairs.iter().map(|&(a, b)| f(a, b)).collect::<Vec<_>>())
    };
    let xy = covariance(&|a, b| (a - mx) * (b - my));
    let (xx, yy) = (covariance(&|a, _| (a - mx).powi(2)), covariance(&|_, b| (b - my).powi(2)));
    if xx * yy == 0.0 { 0.0 } else { xy / (xx * yy).sqrt() }
}

#[test]
fn the_starting_author_scores_about_half_and_seldom_shows_late_qualities() {
    for kind in Kind::ALL {
        let groups = groups(kind, Care::STARTING);
        let totals: Vec<f64> = groups.iter().flat_map(|(task, group)| gold(task, group)).collect();
        let average = mean(&totals);
        println!("{kind}: gold {average:.3}");
        assert!((0.45..=0.6).contains(&average), "{kind}: {average}");
        let (first, _) = &groups[0];
        for (index, quality) in qualities(first, "").iter().enumerate() {
            let held = |(task, group): &(Task, Vec<String>)| -> Vec<f64> {
                group.iter().map(|a| f64::from(qualities(task, a)[index].holds)).collect()
            };
            let rate = mean(&groups.iter().flat_map(held).collect::<Vec<_>>());
            println!("  {:9} {:3} {:?} {rate:.3}", quality.name, quality.weight, quality.stage);
            let expected = match quality.stage {
                Stage::Early => 0.55..=0.8,
                Stage::Late => 0.05..=0.15,
                Stage::Bad => 0.6..=0.8,
            };
            assert!(expected.contains(&rate), "{kind} {}: {rate}", quality.name);
        }
    }
}

#[test]
fn better_authors_score_higher_and_tie_more_nearly_than_exactly() {
    for kind in Kind::ALL {
        let mut before = 0.0;
        for care in [
            Care::STARTING,
            care(0.8, 0.1, 0.2),
            Care::BETTER,
            care(0.9, 0.1, 0.1),
            care(0.97, 0.1, 0.03),
            care(0.97, 0.9, 0.03),
        ] {
            let scores: Vec<Vec<f64>> =
                groups(kind, care).iter().map(|(task, group)| gold(task, group)).collect();
            let near = |group: &Vec<f64>| {
                let pairs = (0..6).flat_map(|i| (0..i).map(move |j| (i, j)));
                pairs.filter(|&(i, j)| (group[i] - group[j]).abs() <= 0.1 + TIE).count() as f64
                    / 15.0
            };
            let exact =
                mean(&scores.iter().filter_map(|group| tie_fraction(group)).collect::<Vec<_>>());
            let near = mean(&scores.iter().map(near).collect::<Vec<_>>());
            let average = mean(&scores.concat());
            println!(
                "{kind} {care:?}: gold {average:.3} exact ties {exact:.3} near ties {near:.3}"
            );
            if care == Care::BETTER {
                assert!(average > before + 0.1);
            }
            if care.late < 0.5 {
                assert!(exact < 0.35, "{kind} {care:?}: {exact}");
            }
            before = average;
        }
    }
}

#[test]
fn answers_are_short() {
    for (kind, limit) in Kind::ALL.into_iter().zip([36.0, 26.0, 24.0]) {
        for care in [Care::STARTING, Care::BETTER, Care::PERFECT] {
            let mut lengths: Vec<f64> = groups(kind, care)
                .iter()
                .flat_map(|(_, group)| group.iter().map(|a| text::tokens(a).count() as f64))
                .collect();
            lengths.sort_by(f64::total_cmp);
            let last = lengths.len() - 1;
            println!(
                "{kind} {care:?}: tokens mean {:.1} p95 {} longest {}",
                mean(&lengths),
                lengths[last * 95 / 100],
                lengths[last]
            );
            assert!(mean(&lengths) < limit, "{kind}");
        }
    }
}

#[test]
fn some_decoys_go_along_with_gold_early_and_stop_later() {
    for (kind, planted) in Kind::ALL.into_iter().zip(["has today", "has Nice", "has just"]) {
        let early = verdicts_and_gold(&groups(kind, Care::STARTING));
        let late = verdicts_and_gold(&groups(kind, care(0.97, 0.5, 0.03)));
        let example = all_tasks(kind)[0];
        let items: Vec<String> = qualities(&example, "").into_iter().map(|q| q.item).collect();
        let mut rows = Vec::new();
        for (place, (phrase, _)) in bank(&example).into_iter().enumerate() {
            if !items.contains(&phrase) {
                let rate = mean(&early[place].iter().map(|(met, _)| *met).collect::<Vec<_>>());
                rows.push((correlation(&early[place]), correlation(&late[place]), rate, phrase));
            }
        }
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (before, after, rate, phrase) in &rows {
            println!(
                "{kind}: {phrase:16} rate {rate:.2} correlation {before:+.2} then {after:+.2}"
            );
        }
        let (before, after, ..) =
            rows.iter().find(|row| row.3 == planted).expect("a decoy of the bank");
        assert!(*before > 0.15 && *after < before - 0.08, "{kind}: {before} then {after}");
    }
}

/// For each place of the bank (the same question of every task, with its own words) the verdict
/// and the gold of each answer.
fn verdicts_and_gold(groups: &[(Task, Vec<String>)]) -> Vec<Vec<(f64, f64)>> {
    let mut places = vec![Vec::new(); bank(&groups[0].0).len()];
    // Where lists are sorted the other way, "sorted" and "reversed" change parts.
    let upward = |task: &Task| !matches!(task, Task::List { descending: true, .. });
    for (task, group) in groups.iter().filter(|(task, _)| upward(task)) {
        let bank = bank(task);
        for (answer, gold) in group.iter().zip(gold(task, group)) {
            for (place, (_, check)) in places.iter_mut().zip(&bank) {
                place.push((f64::from(met(check, answer)), gold));
            }
        }
    }
    places
}
