//! What the checkpoints are worth, measured on held-out prompts.

use std::fmt;

use anyhow::Context;
use gold::Quality;
use lm::compute::Compute;
use lm::draw::SamplingParams;
use lm::folder::Lm;
use lm::sampler::{Constraint, Sampler};
use lm::template::{self, GroupInput};
use rl::{Polarity, Prompt, Rubric, RubricItem, Seed, TokenSet, Verdict, gap, score};
use rubric::digest::digest;
use rubric::grammar::{Bank, Grammar, State};
use rubric::parse::{Limits, parse_tagged};
use rubric::{ProgramVerifier, judge_matrix};
use runtime::config::Config;
use world::author::Stage;

use super::Seeds;
use crate::report::audited::mean;
use crate::speaker::Speaker;

/// Answers to each held-out prompt.
const ANSWERS: usize = 8;
/// Rubrics for each group.
const RUBRICS: usize = 4;

/// Gold of a policy.
#[derive(Debug)]
pub struct PolicyGold {
    mean: f64,
    by_task: Vec<(String, f64)>,
    /// The shares of early, late and bad qualities that hold.
    stages: [f64; 3],
}

impl fmt::Display for PolicyGold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [early, late, bad] = self.stages;
        write!(f, "policy gold {:.3} (", self.mean)?;
        for (i, (task, gold)) in self.by_task.iter().enumerate() {
            write!(f, "{}{task} {gold:.3}", if i > 0 { ", " } else { "" })?;
        }
        write!(
            f,
            "); qualities that hold: early {early:.2}, late {late:.2}, absence of bad ones {bad:.2}"
        )
    }
}

/// Measures a policy.
///
/// # Errors
/// If a prompt does not fit the model or is of another world.
pub fn policy(
    speaker: &Speaker<'_>,
    prompts: &[Prompt],
    seeds: Seeds,
    compute: &Compute,
) -> anyhow::Result<PolicyGold> {
    let groups = groups(speaker, prompts, seeds, compute)?;
    let mut by_task: Vec<(String, Vec<f64>)> = Vec::new();
    let mut stages: [Vec<f64>; 3] = Default::default();
    for (prompt, answers) in prompts.iter().zip(&groups) {
        let task = world::Task::parse(&prompt.text).context("a prompt of another world")?;
        let kind = format!("{:?}", task.kind()).to_lowercase();
        let golds = answers.iter().map(|answer| gold::score_task(&task, answer).total);
        match by_task.iter_mut().find(|(name, _)| *name == kind) {
            Some((_, all)) => all.extend(golds),
            None => by_task.push((kind, golds.collect())),
        }
        for quality in answers.iter().flat_map(|answer| gold::qualities(&task, answer)) {
            let place = match quality.stage {
                Stage::Early => 0,
                Stage::Late => 1,
                Stage::Bad => 2,
            };
            stages[place].push(f64::from(quality.holds));
        }
    }
    let of = |values: &Vec<f64>| mean(values.iter().copied()).unwrap_or(f64::NAN);
    Ok(PolicyGold {
        mean: mean(by_task.iter().flat_map(|(_, golds)| golds.iter().copied()))
            .context("no held-out prompts")?,
        by_task: by_task.iter().map(|(task, golds)| (task.clone(), of(golds))).collect(),
        stages: [of(&stages[0]), of(&stages[1]), of(&stages[2])],
    })
}

/// Rubrics of a generator on groups of a policy.
#[derive(Debug)]
pub struct GeneratorRubrics {
    discrimination: Option<f64>,
    oriented_gap: Option<f64>,
    pair_accuracy: Option<f64>,
    items: Option<f64>,
    decoys: Option<f64>,
    right_signs: Option<f64>,
    free_validity: Option<f64>,
}

impl fmt::Display for GeneratorRubrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = crate::report::table::number;
        write!(
            f,
            "items that vary in the group {}, oriented gap {}, pair accuracy {}, items a rubric {}, \
             decoys among them {}, right signs among the rest {}, valid without a grammar {}",
            number(self.discrimination),
            number(self.oriented_gap),
            number(self.pair_accuracy),
            number(self.items),
            number(self.decoys),
            number(self.right_signs),
            number(self.free_validity)
        )
    }
}

/// Measures a generator, that reads digests and writes under the grammar, without flips.
///
/// # Errors
/// If a group does not fit the model.
pub fn generator(
    generator: &Lm,
    speaker: &Speaker<'_>,
    (config, prompts): (&Config, &[Prompt]),
    seeds: Seeds,
    compute: &Compute,
) -> anyhow::Result<GeneratorRubrics> {
    let groups = groups(speaker, prompts, seeds, compute)?;
    let writer = Writer::new(generator, config)?;
    let indices = (0..prompts.len()).collect();
    let measured = compute.map(indices, |i| {
        let seed = seeds.tokens.child(3).child(i as u64);
        writer.measure(&prompts[i].text, &groups[i], seed)
    });
    let measured = measured.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let all: Vec<Measured> = measured.into_iter().flatten().collect();
    let of = |value: fn(&Measured) -> Option<f64>| mean(all.iter().filter_map(value));
    Ok(GeneratorRubrics {
        discrimination: of(|m| Some(m.discrimination)),
        oriented_gap: of(|m| m.oriented_gap),
        pair_accuracy: of(|m| m.pair_accuracy),
        items: of(|m| Some(m.items)),
        decoys: of(|m| Some(m.decoys)),
        right_signs: of(|m| m.right_signs),
        free_validity: of(|m| Some(m.free_validity)),
    })
}

fn groups(
    speaker: &Speaker<'_>,
    prompts: &[Prompt],
    seeds: Seeds,
    compute: &Compute,
) -> anyhow::Result<Vec<Vec<String>>> {
    let indices = (0..prompts.len()).collect();
    let seed = seeds.tokens.child(2);
    let answers =
        compute.map(indices, |i| speaker.answers(&prompts[i].text, ANSWERS, seed.child(i as u64)));
    answers.into_iter().collect()
}

/// Whether an item about a quality has the right sign; nothing where it is about none.
fn is_right(item: &RubricItem, qualities: &[Quality]) -> Option<bool> {
    let quality = qualities.iter().find(|quality| quality.item == item.criterion)?;
    Some((item.polarity == Polarity::Negative) == (quality.stage == Stage::Bad))
}

/// One rubric.
struct Measured {
    discrimination: f64,
    oriented_gap: Option<f64>,
    pair_accuracy: Option<f64>,
    items: f64,
    decoys: f64,
    right_signs: Option<f64>,
    free_validity: f64,
}

struct Writer<'a> {
    lm: &'a Lm,
    sampler: Sampler,
    grammar: Grammar,
    params: SamplingParams,
    limits: Limits,
    verifier: ProgramVerifier,
}

impl<'a> Writer<'a> {
    fn new(lm: &'a Lm, config: &Config) -> anyhow::Result<Self> {
        let tokenizer = &lm.tokenizer;
        let eos = super::special(tokenizer, template::EOS)?;
        let tags = template::WEIGHTS.map(|tag| super::special(tokenizer, tag));
        let tags: Vec<u32> = tags.into_iter().collect::<anyhow::Result<_>>()?;
        let phrases = world::items::phrases().map(|phrase| tokenizer.encode(phrase));
        let phrases: Vec<Vec<u32>> = phrases.collect::<Result<_, _>>()?;
        let vocab_size = lm.decoder.config().vocab_size;
        let bank = Bank { tags: &tags, phrases: &phrases, eos, vocab_size };
        let limits = Limits {
            min_items: config.generator.min_items as usize,
            max_items: config.generator.max_items as usize,
        };
        let max_tokens = config.generator.max_tokens as usize;
        Ok(Self {
            lm,
            sampler: Sampler::new(&lm.decoder),
            grammar: Grammar::new(bank, limits)?,
            params: SamplingParams { max_tokens, stop: vec![eos], ..SamplingParams::default() },
            limits,
            verifier: ProgramVerifier::new(0.0)?,
        })
    }

    fn measure(&self, prompt: &str, group: &[String], seed: Seed) -> anyhow::Result<Vec<Measured>> {
        let task = world::Task::parse(prompt).context("a prompt of another world")?;
        let counts = digest(&world::bank::bank(&task), group);
        let input = GroupInput::Digest(&counts);
        let tokens = template::generator_prompt(&self.lm.tokenizer, prompt, input)?;
        let free = self.sampler.sample(&tokens, RUBRICS, &self.params, seed)?;
        let mut walks: Vec<Walk<'_>> = (0..RUBRICS).map(|_| Walk(self.grammar.state())).collect();
        let held = self.sampler.sample_constrained(&tokens, &self.params, seed, &mut walks)?;
        let truth: Vec<f64> =
            group.iter().map(|answer| gold::score_task(&task, answer).total).collect();
        let qualities = gold::qualities(&task, "");
        let measured = held.iter().zip(&free).map(|(held, free)| {
            let rubric = self.read(&held.tokens).context("a rubric of the grammar is valid")?;
            let verdicts = judge_matrix(&self.verifier, &rubric, prompt, group, seed);
            let scores = score::scores(&rubric, &verdicts)?;
            let signs: Vec<bool> =
                rubric.items.iter().filter_map(|item| is_right(item, &qualities)).collect();
            let varies = |row: &Vec<Verdict>| row.windows(2).any(|pair| pair[0] != pair[1]);
            Ok(Measured {
                discrimination: verdicts.iter().filter(|row| varies(row)).count() as f64
                    / verdicts.len() as f64,
                oriented_gap: gap::oriented_gap(&scores, &truth),
                pair_accuracy: gap::pair_accuracy(&scores, &truth),
                items: rubric.items.len() as f64,
                decoys: 1.0 - signs.len() as f64 / rubric.items.len() as f64,
                right_signs: mean(signs.iter().map(|&right| f64::from(right))),
                free_validity: f64::from(self.read(&free.tokens).is_some()),
            })
        });
        measured.collect()
    }

    /// A rubric from its tokens, if it is one.
    fn read(&self, tokens: &[u32]) -> Option<Rubric> {
        let text: Vec<u32> =
            tokens.iter().copied().filter(|token| !self.params.stop.contains(token)).collect();
        let text = self.lm.tokenizer.decode_with_specials(&text);
        parse_tagged(&text, &world::items::compile, self.limits).ok()
    }
}

struct Walk<'g>(State<'g>);

impl Constraint for Walk<'_> {
    fn allowed(&mut self) -> Option<TokenSet> {
        Some(self.0.allowed())
    }

    fn advance(&mut self, token: u32) {
        self.0.advance(token).expect("the sampler draws allowed tokens only");
    }
}
