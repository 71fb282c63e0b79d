//! A batch of completions of one prompt under way, with the keys and values of what it has.

use burn::tensor::{Tensor, activation, s};

use crate::config::ModelConfig;
use crate::kernels::Mask;
use crate::model::{Decoder, Heads, indices};
use crate::packed::Packed;
use crate::rope::Turns;

/// The state of a batch: all of its completions have the same length.
pub(crate) struct Decoding<'a> {
    decoder: &'a Decoder,
    /// Of each layer.
    caches: Vec<Cache>,
    /// Tokens in the caches.
    filled: usize,
    /// Tokens of the prompt.
    prompt: usize,
    /// The turns at every position after the prompt.
    turns: Turns,
}

/// Keys and values of one layer, `[rows * kv_heads, room, head_dim]`, filled from the front.
struct Cache {
    keys: Tensor<3>,
    values: Tensor<3>,
}

impl<'a> Decoding<'a> {
    /// Runs `prompt` once, for `rows` completions of at most `longest` tokens. Also gives the
    /// hidden state `[1, width]` after it, from which all completions go on.
    pub(crate) fn start(
        decoder: &'a Decoder,
        prompt: &Packed,
        rows: usize,
        longest: usize,
    ) -> (Self, Tensor<2>) {
        let (config, device) = (decoder.config(), decoder.device());
        let (length, room) = (prompt.len(), prompt.len() + longest);
        let mask = Mask::new(prompt, config);
        let mut caches = Vec::with_capacity(config.num_hidden_layers);
        let turns = Turns::new(config, prompt.positions(), &device);
        let hidden = decoder.hidden(prompt.tokens(), &turns, |_, heads| {
            caches.push(Cache::new(config, &heads, rows, room));
            mask.attend(heads.query, heads.key, heads.value)
        });
        let ahead: Vec<u32> = (length as u32..room as u32).collect();
        let turns = Turns::new(config, &ahead, &device);
        let decoding = Self { decoder, caches, filled: length, prompt: length, turns };
        (decoding, hidden.narrow(0, length - 1, 1))
    }

    /// Appends a token to each completion and gives the hidden states `[rows, width]` after it.
    pub(crate) fn step(&mut self, tokens: &[u32]) -> Tensor<2> {
        let turns = self.turns.at(self.filled - self.prompt);
        let (caches, filled) = (&mut self.caches, self.filled);
        self.filled += 1;
        self.decoder.hidden(tokens, &turns, |layer, heads| caches[layer].attend(heads, filled))
    }

    /// Goes on with some of the rows only.
    pub(crate) fn keep(&mut self, rows: &[usize]) {
        let kv_heads = self.decoder.config().num_key_value_heads;
        let rows: Vec<u32> = rows
            .iter()
            .flat_map(|row| row * kv_heads..(row + 1) * kv_heads)
            .map(|i| i as u32)
            .collect();
        let kept = indices(&rows, &self.decoder.device());
        for cache in &mut self.caches {
            cache.keys.inplace(|keys| keys.select(0, kept.clone()));
            cache.values.inplace(|values| values.select(0, kept.clone()));
        }
    }
}

impl Cache {
    /// The prompt's keys and values `[S, kv_heads * head_dim]`, once for each row.
    fn new(config: &ModelConfig, heads: &Heads, rows: usize, room: usize) -> Self {
        let (kv, d) = (config.num_key_value_heads, config.head_dim());
        let repeated = |x: &Tensor<2>| {
            let [length, _] = x.dims();
            let x: Tensor<3> = x.clone().reshape([length, kv, d]).swap_dims(0, 1);
            let cache = Tensor::zeros([rows * kv, room, d], &x.device());
            cache.slice_assign(s![.., 0..length, ..], x.repeat(&[rows, 1, 1]))
        };
        Self { keys: repeated(&heads.key), values: repeated(&heads.value) }
    }

    /// Stores one token of each row after the `filled` before it and gives its contexts
    /// `[rows, heads * head_dim]`.
    fn attend(&mut self, heads: Heads, filled: usize) -> Tensor<2> {
        let [slots, _, d] = self.keys.dims();
        let [rows, width] = heads.query.dims();
        let new = |x: Tensor<2>| x.reshape([slots, 1, d]);
        let here = s![.., filled..filled + 1, ..];
        // In place, as nothing else holds the cache between steps.
        self.keys.inplace(|keys| keys.slice_assign(here, new(heads.key)));
        self.values.inplace(|values| values.slice_assign(here, new(heads.value)));
        let keys = self.keys.clone().narrow(1, 0, filled + 1).swap_dims(1, 2);
        let values = self.values.clone().narrow(1, 0, filled + 1);
        // Queries that share a key head are rows of one matrix.
        let query = heads.query.reshape([slots, rows * width / (slots * d), d]);
        activation::softmax(query.matmul(keys), 2).matmul(values).reshape([rows, width])
    }
}
