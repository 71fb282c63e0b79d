//! `rubricon sft`: starting weights and data of the controlled world, from one seed.
//!
//! A tokenizer of the world's words; a policy that imitates the starting author; prompts, held-out
//! prompts, and anchors ranked by the hidden gold score; a generator that starts from the policy's
//! weights and imitates noisy rubrics. The same command and seed give the same files.
//!
//! Reading order: this file (the steps), [`policy`], [`generator`], and [`measure`], which says
//! what the checkpoints are worth.

pub mod generator;
pub mod measure;
pub mod policy;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use lm::compute::Compute;
use lm::config::ModelConfig;
use lm::draw::SamplingParams;
use lm::folder::{Lm, Storage};
use lm::optimizer::AdamWConfig;
use lm::template;
use lm::tokenizer::Tokenizer;
use rl::{Prompt, Seed, Stream};
use runtime::config::Config;
use world::prompts;

use crate::progress::{Progress, Screen};
use crate::say::say;
use crate::speaker::Speaker;

/// Entries of the vocabulary: enough that every word of the world is one.
const VOCABULARY: usize = 1100;
/// Answers that the tokenizer learns from.
const TOKENIZER_ANSWERS: usize = 4000;
/// Layers, width, heads, and the longest text in tokens.
const SHAPE: (usize, usize, usize, usize) = (4, 128, 4, 512);

/// Training prompts, held-out prompts and anchor prompts.
const PROMPTS: (usize, usize, usize) = (3000, 90, 300);
/// Answers of an anchor by the policy, and as many again by a better author.
const ANCHOR_SAMPLES: usize = 4;

/// Where random choices come from.
#[derive(Debug, Clone, Copy)]
pub struct Seeds {
    /// Prompt sets.
    pub prompts: Seed,
    /// Texts and the order in which they are learnt.
    pub data: Seed,
    /// Weights of a fresh model.
    pub weights: Seed,
    /// Tokens sampled.
    pub tokens: Seed,
}

impl Seeds {
    fn new(seed: u64) -> Self {
        let data = Seed::new(seed, Stream::Data);
        Self {
            prompts: data.child(0),
            data: data.child(1),
            weights: Seed::new(seed, Stream::Weights),
            tokens: Seed::new(seed, Stream::PolicyTokens),
        }
    }
}

/// Makes everything in a folder that must not exist yet; it appears whole or not at all.
///
/// # Errors
/// If the folder exists or cannot be written.
pub fn run(config: &Config, seed: u64, out: &Path) -> anyhow::Result<()> {
    if out.exists() {
        bail!("--out {}: exists already (expected a new folder)", out.display());
    }
    let begun = Instant::now();
    let screen = Screen::new();
    let _logs = runtime::telemetry::start_to(&config.telemetry, screen.clone())?;
    let folder = Folder::new(out)?;
    let seeds = Seeds::new(seed);
    let compute = Compute::new(config.services.compute_threads()).context("start threads")?;

    let tokenizer = tokenizer(seeds)?;
    let policy = policy::train(&tokenizer, &screen, seeds, &compute)?;
    let policy = Lm { decoder: policy, tokenizer };
    folder.save("policy", &policy)?;

    let (train, heldout, anchors) = (
        prompts::train_prompts(PROMPTS.0, seeds.prompts),
        prompts::heldout_prompts(PROMPTS.1, seeds.prompts),
        prompts::anchor_prompts(PROMPTS.2, seeds.prompts),
    );
    folder.write("prompts.jsonl", &prompt_lines(&train))?;
    folder.write("heldout.jsonl", &prompt_lines(&heldout))?;
    let params = SamplingParams {
        max_tokens: config.policy.max_tokens as usize,
        ..SamplingParams::default()
    };
    let speaker = Speaker::new(&policy.decoder, &policy.tokenizer, params)?;
    let gold = measure::policy(&speaker, &heldout, seeds, &compute)?;
    say!("{gold}");
    folder.write("anchors.jsonl", &anchor_lines(&speaker, &anchors, seeds, &compute)?)?;

    let generator = generator::train(&policy, (config, &screen), seeds, &compute)?;
    let generator = Lm { decoder: generator, tokenizer: policy.tokenizer.clone() };
    folder.save("generator", &generator)?;
    let rubrics = measure::generator(&generator, &speaker, (config, &heldout), seeds, &compute)?;
    say!("{rubrics}");

    folder.write("SOURCE.md", &source(config, seed, out, &[&gold, &rubrics]))?;
    folder.publish(out)?;
    say!("wrote {} in {:.0} s", out.display(), begun.elapsed().as_secs_f64());
    Ok(())
}

/// The shape of both models.
fn shape(tokenizer: &Tokenizer) -> ModelConfig {
    let (layers, width, heads, context) = SHAPE;
    ModelConfig {
        max_position_embeddings: context,
        bos_token_id: tokenizer.id(template::BOS),
        eos_token_id: tokenizer.id(template::EOS),
        pad_token_id: tokenizer.id(template::PAD),
        ..ModelConfig::llama(tokenizer.vocab_size(), width, layers, heads)
    }
}

fn tokenizer(seeds: Seeds) -> anyhow::Result<Tokenizer> {
    let texts = world::corpus::tokenizer_texts(TOKENIZER_ANSWERS, seeds.data.child(0));
    // Phrases stand at the start of an item, and behind a space in a digest.
    let phrases = world::items::phrases().map(|phrase| format!("0 {phrase} 1"));
    let texts: Vec<String> = texts.into_iter().chain(phrases).collect();
    let tokenizer = Tokenizer::train(&texts, VOCABULARY, &template::specials())?;
    say!("tokenizer with {} tokens", tokenizer.vocab_size());
    Ok(tokenizer)
}

fn anchor_lines(
    speaker: &Speaker<'_>,
    prompts: &[Prompt],
    seeds: Seeds,
    compute: &Compute,
) -> anyhow::Result<String> {
    let seed = seeds.tokens.child(1);
    let indices = (0..prompts.len()).collect();
    let sampled = compute.map(indices, |i| {
        let answers = speaker.answers(&prompts[i].text, ANCHOR_SAMPLES, seed.child(i as u64))?;
        Ok((prompts[i].clone(), answers))
    });
    let sampled = sampled.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let rows = gold::anchors::anchor_rows(&sampled, ANCHOR_SAMPLES, seeds.data.child(1))?;
    Ok(gold::anchors::to_jsonl(&rows)?)
}

fn prompt_lines(prompts: &[Prompt]) -> String {
    let line = |prompt: &Prompt| serde_json::json!({"id": prompt.id, "prompt": prompt.text});
    prompts.iter().map(|prompt| format!("{}\n", line(prompt))).collect()
}

fn source(config: &Config, seed: u64, out: &Path, measured: &[&dyn std::fmt::Display]) -> String {
    let (name, out) = (&config.run.name, out.display());
    let measured: String = measured.iter().map(|what| format!("- {what}\n")).collect();
    format!(
        "# Where these files come from\n\nMade by this project itself, from its own controlled \
         world, with\n\n    rubricon sft configs/{name}.toml --out {out} --seed {seed}\n\n- \
         `policy/`: a decoder that imitates the starting author\n- `generator/`: the same decoder, \
         taught to write rubrics\n- `prompts.jsonl`, `heldout.jsonl`: training prompts; prompts \
         with names, nouns and categories of their own\n- `anchors.jsonl`: answers by the policy \
         and by a better author, ranked by the hidden gold score\n\nMeasured when they were \
         made:\n\n{measured}"
    )
}

/// A folder in the making, beside the place where it will appear.
struct Folder(PathBuf);

impl Folder {
    fn new(out: &Path) -> anyhow::Result<Self> {
        let mut name = out.file_name().context("--out: expected the name of a folder")?.to_owned();
        name.push(".partial");
        let path = out.with_file_name(name);
        if path.exists() {
            std::fs::remove_dir_all(&path).with_context(|| format!("remove {}", path.display()))?;
        }
        std::fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self(path))
    }

    fn save(&self, name: &str, lm: &Lm) -> anyhow::Result<()> {
        Ok(lm.save(&self.0.join(name), Storage::F16)?)
    }

    fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.0.join(name);
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    fn publish(self, out: &Path) -> anyhow::Result<()> {
        std::fs::rename(&self.0, out).with_context(|| format!("write {}", out.display()))
    }
}

/// Constants of the optimiser, as in runs.
const ADAMW: AdamWConfig =
    AdamWConfig { beta1: 0.9, beta2: 0.98, epsilon: 1e-8, weight_decay: 0.0 };

/// The id of a special token.
fn special(tokenizer: &Tokenizer, name: &str) -> anyhow::Result<u32> {
    tokenizer.id(name).with_context(|| format!("the tokenizer has no token {name}"))
}

/// Shows how fine-tuning goes.
fn watch(mut progress: Progress) -> impl FnMut(lm::sft::SftProgress) {
    move |at| progress.at(at.step, &format!("loss {:.3}", at.loss))
}
