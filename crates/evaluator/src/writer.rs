//! From a group of completions to rubrics: what the generator reads, and how it writes.

use std::collections::HashMap;

use engine::{Engine, EngineError};
use lm::draw::SamplingParams;
use lm::sampler::{Constraint, Sampled, Sampler};
use lm::template::{self, GroupInput, TemplateError};
use lm::tokenizer::{Tokenizer, TokenizerError};
use proto::pb;
use rl::{Rubric, Seed, TokenSet};
use rubric::fallback::{self, Decision, Source};
use rubric::fallback_rubric::{self, LoadError};
use rubric::grammar::{Bank, Grammar, GrammarError, State};
use rubric::parse::{Limits, ParseError, parse_tagged};
use rubric::reward::Guards;
use runtime::config::{self, Decoding, GeneratorInput};

/// Writes rubrics with a sampler of the generator.
#[derive(Debug)]
pub struct Writer {
    tokenizer: Tokenizer,
    input: GeneratorInput,
    guards: Guards,
    limits: Limits,
    /// Present where decoding is constrained.
    spelling: Option<Spelling>,
    params: SamplingParams,
    eos: u32,
    /// Serves where the generator's cannot be read.
    fallback: Option<Rubric>,
}

/// What constrained decoding needs to know of the generator's tokens.
#[derive(Debug)]
struct Spelling {
    tags: Vec<u32>,
    /// Every phrase of the world in tokens.
    phrases: HashMap<&'static str, Vec<u32>>,
    vocab_size: usize,
}

/// What a generator is asked to write for a group.
#[derive(Debug)]
pub struct Asked {
    /// What it reads, in tokens.
    pub prompt: Vec<u32>,
    /// The rubrics it may write: over the bank of checks of the group's prompt. Nothing where it may
    /// write anything.
    grammar: Option<Grammar>,
}

/// The rubric of a policy group.
#[derive(Debug)]
pub struct Written {
    /// Nothing where none could be had.
    pub rubric: Option<(Rubric, Source)>,
    /// How many were written.
    pub attempts: u32,
    /// How many of them could not be read.
    pub parse_failures: u32,
}

/// A generator that cannot write rubrics.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// Its tokenizer was trained for something else.
    #[error("generator.model: the tokenizer has no special token {0}")]
    NoSpecial(&'static str),
    /// Its tokenizer cannot spell an item.
    #[error("generator.model: the tokenizer cannot spell \"{phrase}\"")]
    Phrase {
        /// The item.
        phrase: &'static str,
        /// Why.
        source: TokenizerError,
    },
    /// The fallback rubric cannot be used.
    #[error("generator.fallback_rubric")]
    Fallback(#[from] LoadError),
}

/// A group that the generator cannot read.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// There is no bank of checks for it.
    #[error(
        "no bank of checks for the prompt \"{0}\" (expected generator.input = \"raw\" and \
         generator.decoding = \"free\", or prompts of the controlled world)"
    )]
    NoBank(String),
    /// Its bank and the limits on items make no grammar.
    #[error("generator.decoding = \"constrained\": the rubric grammar cannot be used")]
    Grammar(#[from] GrammarError),
    /// It cannot be laid out in tokens.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl Writer {
    /// Reads the settings, and how the generator spells the phrases of the world.
    ///
    /// # Errors
    /// If the generator's tokenizer does not fit.
    pub fn new(engine: &Engine, run: &config::Config) -> Result<Self, WriterError> {
        let generator = &run.generator;
        let tokenizer = engine.tokenizer();
        let special = |name| tokenizer.id(name).ok_or(WriterError::NoSpecial(name));
        let eos = engine.eos();
        let limits = Limits {
            min_items: generator.min_items as usize,
            max_items: generator.max_items as usize,
        };
        let spelling = match generator.decoding {
            Decoding::Free => None,
            Decoding::Constrained => {
                let tags = template::WEIGHTS.into_iter().map(special).collect::<Result<_, _>>()?;
                let spell = |phrase| match tokenizer.encode(phrase) {
                    Ok(tokens) => Ok((phrase, tokens)),
                    Err(source) => Err(WriterError::Phrase { phrase, source }),
                };
                let phrases = world::items::phrases().map(spell).collect::<Result<_, _>>()?;
                Some(Spelling { tags, phrases, vocab_size: engine.vocab_size() })
            }
        };
        let fallback = &generator.fallback_rubric;
        let has_fallback = !fallback.as_os_str().is_empty();
        let fallback = has_fallback.then(|| fallback_rubric::load(fallback, limits)).transpose()?;
        Ok(Self {
            fallback,
            tokenizer: tokenizer.clone(),
            input: generator.input,
            guards: guards(generator),
            limits,
            spelling,
            params: SamplingParams {
                temperature: generator.temperature,
                top_p: 1.0,
                top_k: 0,
                max_tokens: generator.max_tokens as usize,
                stop: vec![eos],
            },
            eos,
        })
    }

    /// The completions that a generator in training reads: a guard may hold back the rest.
    pub fn seen<'a>(&self, completions: &'a [String]) -> &'a [String] {
        &completions[..self.guards.seen(completions.len())]
    }

    /// What the generator is asked to write for a prompt and the completions it reads.
    ///
    /// # Errors
    /// If a bank of checks is needed and there is none for the group's prompt.
    pub fn ask(
        &self,
        (prompt, seen): (&str, &[String]),
        conditioning: pb::Conditioning,
    ) -> Result<Asked, PromptError> {
        let bank = || {
            let task = world::task::Task::parse(prompt);
            let task = task.ok_or_else(|| PromptError::NoBank(prompt.to_owned()))?;
            Ok::<_, PromptError>(world::bank::bank(&task))
        };
        let counts;
        let input = match (conditioning, self.input) {
            (pb::Conditioning::PromptOnly, _) => GroupInput::PromptOnly,
            (_, GeneratorInput::Raw) => GroupInput::Raw(seen),
            (_, GeneratorInput::Digest) => {
                counts = rubric::digest::digest(&bank()?, seen);
                GroupInput::Digest(&counts)
            }
        };
        let prompt = template::generator_prompt(&self.tokenizer, prompt, input)?;
        let grammar = match &self.spelling {
            None => None,
            Some(spelling) => {
                let phrases: Vec<Vec<u32>> = bank()?
                    .iter()
                    .filter_map(|(phrase, _)| spelling.phrases.get(phrase.as_str()).cloned())
                    .collect();
                let (tags, vocab_size) = (&spelling.tags, spelling.vocab_size);
                let bank = Bank { tags, phrases: &phrases, eos: self.eos, vocab_size };
                Some(Grammar::new(bank, self.limits)?)
            }
        };
        Ok(Asked { prompt, grammar })
    }

    /// Samples `count` rubrics.
    ///
    /// # Errors
    /// If the prompt does not fit the model.
    pub fn sample(
        &self,
        sampler: &Sampler,
        asked: &Asked,
        seed: Seed,
        count: usize,
    ) -> Result<Vec<Sampled>, EngineError> {
        let prompt = &asked.prompt;
        Ok(match &asked.grammar {
            None => sampler.sample(prompt, count, &self.params, seed)?,
            Some(grammar) => {
                let mut states: Vec<_> = (0..count).map(|_| Walk(grammar.state())).collect();
                sampler.sample_constrained(prompt, &self.params, seed, &mut states)?
            }
        })
    }

    /// Reads a sampled rubric.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(&self, sampled: &Sampled) -> Result<Rubric, ParseError> {
        let tokens: Vec<u32> = sampled.tokens.iter().copied().filter(|&t| t != self.eos).collect();
        let text = self.tokenizer.decode_with_specials(&tokens);
        parse_tagged(&text, &world::items::compile, self.limits)
    }

    /// The rubric of a policy group: the generator's, or what serves instead.
    ///
    /// # Errors
    /// If the prompt does not fit the model.
    pub fn write_one(
        &self,
        sampler: &Sampler,
        asked: &Asked,
        seed: Seed,
    ) -> Result<Written, EngineError> {
        let mut attempts = Vec::new();
        loop {
            let rubric = match fallback::decide(&attempts, self.fallback.as_ref()) {
                Decision::Resample => {
                    let seed = seed.child(attempts.len() as u64);
                    let sampled = self.sample(sampler, asked, seed, 1)?;
                    attempts.extend(sampled.iter().map(|sampled| self.parse(sampled)));
                    continue;
                }
                Decision::Use(rubric, source) => Some((rubric, source)),
                Decision::NoRubric => None,
            };
            return Ok(Written {
                rubric,
                attempts: attempts.len() as u32,
                parse_failures: attempts.iter().filter(|attempt| attempt.is_err()).count() as u32,
            });
        }
    }
}

/// The guards that the configuration asks for.
pub fn guards(generator: &config::Generator) -> Guards {
    Guards {
        duplicate_penalty: generator.duplicate_penalty,
        noise_discount: generator.noise_discount,
        holdout_half: generator.holdout_half,
        anchor_veto: generator.anchor_sign_veto,
    }
}

/// A rubric as it is written, held to the grammar.
struct Walk<'g>(State<'g>);

impl Constraint for Walk<'_> {
    fn allowed(&mut self) -> Option<TokenSet> {
        Some(self.0.allowed())
    }

    fn advance(&mut self, token: u32) {
        self.0.advance(token).expect("the sampler draws allowed tokens only");
    }
}
