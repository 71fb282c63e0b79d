//! Rubrics made with gold.

use gold::targets::{examples, noisy_target, oracle_rubric};
use gold::{qualities, score_task};
use rl::gap::pair_accuracy;
use rl::{Polarity, Rubric, Seed, Stream, Verdict};
use rubric::met;
use world::author::Stage;
use world::items::place;
use world::{Draws, Task};

/// Scores of a group under a rubric.
fn scores(rubric: &Rubric, group: &[String]) -> Vec<f64> {
    let verdicts: Vec<Vec<Verdict>> = rubric
        .items
        .iter()
        .map(|item| {
            let check = item.check.as_ref().expect("a check");
            group.iter().map(|text| Verdict::from(met(check, text))).collect()
        })
        .collect();
    rl::score::scores(rubric, &verdicts).expect("scorable")
}

#[test]
fn targets_have_five_to_seven_items_in_order_that_vary_where_enough_do() {
    let (mut items, mut varying) = (0.0, 0.0);
    for example in examples(900, 8, 1, Seed::new(1, Stream::Data)) {
        let rubric = &example.rubrics[0];
        assert!((5..=7).contains(&rubric.items.len()));
        assert!(rubric.items.is_sorted_by_key(|item| place(&item.criterion)));
        assert!(rubric.items.iter().all(|item| (1..=5).contains(&item.weight)));
        for item in &rubric.items {
            let check = item.check.as_ref().expect("a check");
            let count = example.completions.iter().filter(|text| met(check, text)).count();
            items += 1.0;
            varying += f64::from(0 < count && count < 8);
        }
    }
    println!("items that vary in the group: {:.3}", varying / items);
    assert!(varying / items > 0.98);
}

#[test]
fn signs_are_right_nine_times_in_ten_early_and_by_chance_late() {
    // Right signs and items: early and bad, late, decoys (right where positive).
    let mut tally = [(0.0, 0.0); 3];
    for example in examples(1500, 8, 1, Seed::new(2, Stream::Data)) {
        let truth = qualities(&example.task, "");
        for item in &example.rubrics[0].items {
            let quality = truth.iter().find(|quality| quality.item == item.criterion);
            let positive = item.polarity == Polarity::Positive;
            let (row, right) = match quality.map(|quality| quality.stage) {
                Some(Stage::Late) => (1, positive),
                Some(stage) => (0, positive == (stage == Stage::Early)),
                None => (2, positive),
            };
            tally[row].0 += f64::from(right);
            tally[row].1 += 1.0;
        }
    }
    let all: f64 = tally.iter().map(|(_, count)| count).sum();
    for ((right, count), (name, expected)) in
        tally.into_iter().zip([("early and bad", 0.9), ("late", 0.5), ("decoys", 0.5)])
    {
        let rate = right / count;
        println!("{name}: share of items {:.2}, sign right {rate:.3}", count / all);
        assert!((rate - expected).abs() < 0.05, "{name}: {rate}");
    }
}

#[test]
fn the_oracle_orders_groups_better_than_targets() {
    let mut accuracies = [Vec::new(), Vec::new()];
    for example in examples(600, 8, 1, Seed::new(3, Stream::Data)) {
        let (task, group) = (&example.task, &example.completions);
        let truth: Vec<f64> = group.iter().map(|text| score_task(task, text).total).collect();
        let oracle = oracle_rubric(task, group);
        assert!((1..=5).contains(&oracle.items.len()));
        for (rubric, found) in [&example.rubrics[0], &oracle].into_iter().zip(&mut accuracies) {
            found.extend(pair_accuracy(&scores(rubric, group), &truth));
        }
    }
    let [target, oracle] = accuracies.map(|a| a.iter().sum::<f64>() / a.len() as f64);
    println!("pair accuracy: targets {target:.3}, oracle {oracle:.3}");
    assert!(oracle > 0.9 && (0.55..0.75).contains(&target));
}

#[test]
fn a_group_in_which_nothing_varies_still_gets_rubrics() {
    let task = Task::parse("List 2 tools from A to Z.").expect("a prompt");
    let group = vec!["- axe\n- saw".to_owned(); 8];
    let target = noisy_target(&task, &group, &mut Draws::new(Seed::new(0, Stream::Data)));
    assert_eq!((target.items.len(), oracle_rubric(&task, &group).items.len()), (5, 5));
}
