//! What gold promises about any answer.

use std::collections::HashSet;

use gold::{CEILING, ideal, qualities, score, score_task};
use rl::{Seed, Stream};
use rubric::{met, text};
use world::author::Stage;
use world::bank::bank;
use world::prompts::all_tasks;
use world::{Author, Care, Draws, Kind, Task};

/// `count` tasks of each kind with the random choices that go with them.
fn tasks(count: usize, seed: u64) -> impl Iterator<Item = (Task, Draws)> {
    let seed = Seed::new(seed, Stream::Data);
    let pools = Kind::ALL.map(all_tasks);
    (0..3 * count).map(move |i| {
        let mut draws = Draws::new(seed.child(i as u64));
        (draws.choose(&pools[i % 3]), draws)
    })
}

#[test]
fn weights_are_distinct_and_sum_to_one_and_items_stand_in_the_bank() {
    for (task, _) in tasks(50, 1) {
        let qualities = qualities(&task, "");
        assert!((11..=13).contains(&qualities.len()), "{task:?}");
        assert_eq!(qualities.iter().map(|q| q.weight).sum::<u32>(), 1000, "{task:?}");
        let bank: HashSet<String> = bank(&task).into_iter().map(|(phrase, _)| phrase).collect();
        let items: HashSet<&str> = qualities.iter().map(|q| q.item.as_str()).collect();
        assert!(items.iter().all(|item| bank.contains(*item)), "{items:?} are not in {bank:?}");
        let (items, rest) = (items.len(), bank.len() - items.len());
        assert_eq!(items, qualities.len());
        assert!((15..=20).contains(&rest), "{task:?}: {rest} decoys");
    }
}

#[test]
fn ideal_answers_score_one_and_are_short() {
    for (task, mut draws) in tasks(2000, 2) {
        let other = Author::new(Care::PERFECT).answer(&task, &mut draws);
        for answer in [ideal(&task), other] {
            let gold = score_task(&task, &answer);
            assert_eq!(gold.total, CEILING, "{answer}: {:?}", gold.qualities);
            let longest = match task {
                Task::Note { .. } => 35,
                Task::List { count, .. } => 13 + 2 * count,
                Task::Sum { .. } => 23,
            };
            assert!(text::tokens(&answer).count() <= longest, "{answer}");
        }
    }
}

#[test]
fn every_quality_agrees_with_the_check_of_its_item() {
    let mut clean = (0, 0);
    for (task, mut draws) in tasks(3000, 3) {
        let author = match draws.below(3) {
            0 => Author::new(Care::STARTING),
            1 => Author::new(Care::BETTER),
            _ => Author::wild(&mut draws),
        };
        let answer = author.answer(&task, &mut draws);
        for quality in qualities(&task, &answer) {
            let check = world::items::compile(&quality.item).expect("a phrase");
            let agrees = (met(&check, &answer) != (quality.stage == Stage::Bad)) == quality.holds;
            if quality.name == "clean" {
                clean.0 += usize::from(agrees);
                clean.1 += 1;
            } else {
                assert!(agrees, "{} of {task:?} on {answer:?}", quality.name);
            }
        }
    }
    let share = clean.0 as f64 / clean.1 as f64;
    println!("\"stutters\" agrees with \"clean\" on {share:.4} of the answers");
    assert!(share > 0.97, "{share}");
}

#[test]
fn nearly_nothing_scores_zero() {
    for (task, _) in tasks(20, 4) {
        for answer in ["", " ", "\n", "Dear", "5", ".", "!!!", "- bear", "- - -"] {
            let gold = score_task(&task, answer);
            assert_eq!(gold.total, 0.0, "{answer:?}");
            assert!(gold.qualities.iter().all(|(_, holds)| !holds));
        }
    }
}

#[test]
fn junk_after_an_ideal_answer_lowers_its_score() {
    for (task, _) in tasks(300, 5) {
        let ideal = ideal(&task);
        let last = match task {
            Task::Note { .. } => " Your friend.",
            Task::List { .. } => "\nThe end.",
            Task::Sum { b, a, .. } => &format!(" Check: {} - {b} = {a}.", a + b),
        };
        let tails = [
            last.to_owned(),
            last.repeat(3),
            format!(" We like it.{last}"),
            format!("\nTotal 4.{last}"),
            " all put together all put together.".into(),
            " and so on and so on.".into(),
            " We like the wind and the rain and the sun and the snow and the moon.".repeat(2),
        ];
        for tail in tails {
            let answer = format!("{ideal}{tail}");
            let gold = score_task(&task, &answer);
            assert!(gold.total <= 0.95, "{:.3}: {answer}", gold.total);
            assert!(gold.qualities.contains(&("clean", false)), "{answer}");
        }
    }
}

#[test]
fn a_prompt_of_another_world_is_an_error() {
    let error = score("Say hi.", "Hi there.").expect_err("no task");
    assert_eq!(
        error.to_string(),
        "cannot score an answer to \"Say hi.\": expected a prompt of the controlled world"
    );
}
