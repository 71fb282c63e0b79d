//! Sampling a group: all completions of one prompt, decoded together.
//!
//! The prompt runs once; its keys and values are then repeated for each completion, and every
//! step is one batch. A group is always its own batch, so its tokens depend on the weights, the
//! prompt, the parameters and the seed, and on nothing else that runs.

use rl::seed::Seed;

use crate::decode::Decoding;
use crate::draw::{SamplingParams, draw};
use crate::logprobs::floats;
use crate::model::Decoder;
use crate::packed::Packed;
use burn::module::Module;
use burn::tensor::Tensor;
use rl::{Finish, TokenSet};

/// Samples from one version of a model's weights.
#[derive(Debug, Clone)]
pub struct Sampler {
    decoder: Decoder,
    /// The output head `[width, vocab]`, laid out the way products read it also where it is the
    /// embedding.
    head: Tensor<2>,
}

/// One completion.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Its tokens, with the one that stopped it.
    pub tokens: Vec<u32>,
    /// For each token its log-probability under `softmax(logits / temperature)` over the allowed
    /// tokens: what [`token_logprobs`](crate::logprobs::token_logprobs) computes from the same
    /// weights.
    pub logprobs: Vec<f32>,
    /// Why it ended.
    pub finish: Finish,
    /// For each token what was allowed in its place; empty where nothing was ever forbidden.
    pub allowed: Vec<TokenSet>,
    /// The temperature of `logprobs`.
    pub temperature: f64,
}

/// What a grammar says about one completion as it grows.
pub trait Constraint {
    /// The tokens allowed next; `None` for all.
    fn allowed(&mut self) -> Option<TokenSet>;
    /// A token was appended.
    fn advance(&mut self, token: u32);
}

/// Every token is allowed everywhere.
#[derive(Debug, Clone, Copy)]
pub struct Free;

impl Constraint for Free {
    fn allowed(&mut self) -> Option<TokenSet> {
        None
    }

    fn advance(&mut self, _token: u32) {}
}

/// A group that cannot be sampled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SampleError {
    /// Nothing to continue.
    #[error("cannot sample: the prompt is empty, expected at least one token")]
    EmptyPrompt,
    /// No room for a single token.
    #[error(
        "cannot sample: the prompt has {length} tokens, expected fewer than the context's {context}"
    )]
    LongPrompt {
        /// Tokens of the prompt.
        length: usize,
        /// `max_position_embeddings` of the model.
        context: usize,
    },
    /// A token the embedding has no row for.
    #[error(
        "cannot sample: token {id} at {position} of the prompt, expected below vocab_size {vocab}"
    )]
    UnknownToken {
        /// The token.
        id: u32,
        /// Where it is.
        position: usize,
        /// Rows of the embedding.
        vocab: usize,
    },
    /// A parameter out of range.
    #[error("cannot sample: {0}")]
    Parameter(String),
    /// A grammar that leaves no way on.
    #[error("cannot sample: no token is allowed at {position} of completion {completion}")]
    DeadEnd {
        /// Index in the group.
        completion: usize,
        /// Tokens it had so far.
        position: usize,
    },
    /// Weights that overflowed.
    #[error("cannot sample: the logits at {position} of completion {completion} are not finite")]
    NotFinite {
        /// Index in the group.
        completion: usize,
        /// Tokens it had so far.
        position: usize,
    },
}

impl Sampler {
    /// Shares the weights of `decoder`, which may be in training; copies a tied head only.
    #[must_use]
    pub fn new(decoder: &Decoder) -> Self {
        let decoder = decoder.valid();
        let head = match &decoder.lm_head {
            Some(head) => head.weight.val(),
            None => {
                let embedding = decoder.model.embed_tokens.weight.val();
                Tensor::from_data(embedding.transpose().into_data(), &decoder.device())
            }
        };
        Self { decoder, head }
    }

    /// `group_size` completions of `prompt`; see [`Sampler::sample_constrained`].
    ///
    /// # Errors
    /// A prompt or parameters out of range, or weights that overflow.
    pub fn sample(
        &self,
        prompt: &[u32],
        group_size: usize,
        params: &SamplingParams,
        seed: Seed,
    ) -> Result<Vec<Sampled>, SampleError> {
        self.sample_constrained(prompt, params, seed, &mut vec![Free; group_size])
    }

    /// One completion of `prompt` for each constraint. The draw at position `t` of completion `i`
    /// is `seed.child(i).uniform(t)`.
    ///
    /// # Errors
    /// A prompt or parameters out of range, a constraint that allows nothing, or weights that
    /// overflow.
    pub fn sample_constrained<C: Constraint>(
        &self,
        prompt: &[u32],
        params: &SamplingParams,
        seed: Seed,
        constraints: &mut [C],
    ) -> Result<Vec<Sampled>, SampleError> {
        let row = Packed::documents(&[prompt]).map_err(|_| SampleError::EmptyPrompt)?;
        let room = self.check(prompt, params)?;
        if constraints.is_empty() {
            return Ok(Vec::new());
        }
        let longest = params.max_tokens.min(room);
        let vocab = self.decoder.config().vocab_size;
        let mut group: Vec<Growing<'_, C>> = constraints
            .iter_mut()
            .zip(0..)
            .map(|(constraint, index)| Growing::new(constraint, seed.child(index)))
            .collect();
        // Which completion each row of the batch is.
        let mut batch: Vec<usize> = (0..group.len()).collect();
        let (mut decoding, mut hidden) = Decoding::start(&self.decoder, &row, batch.len(), longest);
        for length in 1..=longest {
            let logits = floats(hidden.matmul(self.head.clone()));
            // After the prompt all completions continue the same row; later each has its own.
            let rows = logits.chunks_exact(vocab).cycle();
            for (&completion, row) in batch.iter().zip(rows) {
                group[completion].grow(row, params).map_err(|stuck| stuck.of(completion))?;
            }
            let is_open = |&row: &usize| group[batch[row]].finish.is_none();
            let open: Vec<usize> = (0..batch.len()).filter(is_open).collect();
            if open.is_empty() || length == longest {
                break;
            }
            // Halving the batch saves more than the copy of its cache costs.
            if open.len() * 2 <= batch.len() {
                decoding.keep(&open);
                batch = open.into_iter().map(|row| batch[row]).collect();
            }
            hidden = decoding.step(&batch.iter().map(|&i| group[i].last()).collect::<Vec<u32>>());
        }
        let temperature = params.scoring_temperature();
        Ok(group.into_iter().map(|growing| growing.done(temperature, vocab)).collect())
    }

    /// The tokens there is room for after `prompt`, which must be one the model can take.
    fn check(&self, prompt: &[u32], params: &SamplingParams) -> Result<usize, SampleError> {
        if let Some(problem) = params.problem() {
            return Err(SampleError::Parameter(problem));
        }
        let vocab = self.decoder.config().vocab_size;
        if let Some(position) = prompt.iter().position(|&id| id as usize >= vocab) {
            return Err(SampleError::UnknownToken { id: prompt[position], position, vocab });
        }
        let (length, context) = (prompt.len(), self.decoder.config().max_position_embeddings);
        match context.checked_sub(length) {
            None | Some(0) => Err(SampleError::LongPrompt { length, context }),
            Some(room) => Ok(room),
        }
    }
}

/// A completion under way.
struct Growing<'a, C> {
    constraint: &'a mut C,
    seed: Seed,
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
    allowed: Vec<Option<TokenSet>>,
    finish: Option<Finish>,
}

/// Why a completion cannot grow, and its length.
enum Stuck {
    DeadEnd(usize),
    NotFinite(usize),
}

impl<'a, C: Constraint> Growing<'a, C> {
    fn new(constraint: &'a mut C, seed: Seed) -> Self {
        let (tokens, logprobs, allowed) = (Vec::new(), Vec::new(), Vec::new());
        Self { constraint, seed, tokens, logprobs, allowed, finish: None }
    }

    /// Appends a token drawn from `logits`; nothing happens to a finished completion.
    fn grow(&mut self, logits: &[f32], params: &SamplingParams) -> Result<(), Stuck> {
        if self.finish.is_some() {
            return Ok(());
        }
        let position = self.tokens.len();
        if logits.iter().any(|logit| !logit.is_finite()) {
            return Err(Stuck::NotFinite(position));
        }
        let allowed = self.constraint.allowed();
        let uniform = self.seed.uniform(position as u64);
        let (token, logprob) =
            draw(logits, allowed.as_ref(), params, uniform).ok_or(Stuck::DeadEnd(position))?;
        self.constraint.advance(token);
        self.tokens.push(token);
        self.logprobs.push(logprob);
        self.allowed.push(allowed);
        if params.stop.contains(&token) {
            self.finish = Some(Finish::Stop);
        }
        Ok(())
    }

    fn last(&self) -> u32 {
        *self.tokens.last().expect("every completion grows before the first step")
    }

    fn done(self, temperature: f64, vocab: usize) -> Sampled {
        let free = self.allowed.iter().all(Option::is_none);
        let everything = || TokenSet::of(vocab, 0..vocab as u32);
        let set = |allowed: Option<TokenSet>| allowed.unwrap_or_else(everything);
        Sampled {
            tokens: self.tokens,
            logprobs: self.logprobs,
            finish: self.finish.unwrap_or(Finish::Length),
            allowed: if free { Vec::new() } else { self.allowed.into_iter().map(set).collect() },
            temperature,
        }
    }
}

impl Stuck {
    fn of(self, completion: usize) -> SampleError {
        match self {
            Self::DeadEnd(position) => SampleError::DeadEnd { completion, position },
            Self::NotFinite(position) => SampleError::NotFinite { completion, position },
        }
    }
}
