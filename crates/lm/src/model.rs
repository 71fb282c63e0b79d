//! The decoder: a Llama-type transformer over one packed row.
//!
//! Fields are named as Hugging Face names the tensors, so a parameter's path is its name in
//! `model.safetensors`. Linear weights are held `[in, out]` (the other way round on disk), which
//! is the layout matrix products read without repacking. All linear work is on `[tokens, width]`.

use burn::module::{Module, Param};
use burn::tensor::{Device, Int, Tensor, TensorData};
use rl::seed::Seed;

use crate::config::ModelConfig;
use crate::kernels::{self, Mask};
use crate::packed::Packed;
use crate::rope::Turns;

/// A causal language model.
#[derive(Module, Debug)]
pub struct Decoder {
    pub(crate) model: Backbone,
    /// `None` where the embedding is the head.
    pub(crate) lm_head: Option<Linear>,
    #[module(skip)]
    config: ModelConfig,
}

/// Embedding, blocks and the last normalisation.
#[derive(Module, Debug)]
pub(crate) struct Backbone {
    pub(crate) embed_tokens: Embedding,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: RmsNorm,
}

/// One pre-norm block.
#[derive(Module, Debug)]
pub(crate) struct Layer {
    pub(crate) self_attn: Attention,
    pub(crate) mlp: Mlp,
    pub(crate) input_layernorm: RmsNorm,
    pub(crate) post_attention_layernorm: RmsNorm,
}

/// Projections of the attention.
#[derive(Module, Debug)]
pub(crate) struct Attention {
    pub(crate) q_proj: Linear,
    pub(crate) k_proj: Linear,
    pub(crate) v_proj: Linear,
    pub(crate) o_proj: Linear,
}

/// SwiGLU feed-forward block (Shazeer 2020, "GLU variants improve transformer").
#[derive(Module, Debug)]
pub(crate) struct Mlp {
    pub(crate) gate_proj: Linear,
    pub(crate) up_proj: Linear,
    pub(crate) down_proj: Linear,
}

/// A bias-free linear map, `weight` `[in, out]`.
#[derive(Module, Debug)]
pub(crate) struct Linear {
    pub(crate) weight: Param<Tensor<2>>,
}

/// Token vectors, `weight` `[vocab, width]`.
#[derive(Module, Debug)]
pub(crate) struct Embedding {
    pub(crate) weight: Param<Tensor<2>>,
}

/// Root mean square normalisation (Zhang and Sennrich 2019), `weight` `[width]`.
#[derive(Module, Debug)]
pub(crate) struct RmsNorm {
    pub(crate) weight: Param<Tensor<1>>,
    #[module(skip)]
    eps: f64,
}

impl Decoder {
    /// A fresh model: matrices from a normal distribution of deviation 0.02, norms at one. The
    /// same seed gives the same weights whatever the device or the number of threads.
    ///
    /// `config` must have passed [`ModelConfig::check`].
    #[must_use]
    pub fn init(config: &ModelConfig, seed: Seed, device: &Device) -> Self {
        let mut init = Init { seed, next: 0, device };
        let (d, f, c) = (config.hidden_size, config.intermediate_size, config);
        let (q, kv) = (c.num_attention_heads * c.head_dim(), c.num_key_value_heads * c.head_dim());
        let norm = || RmsNorm {
            weight: Param::from_tensor(Tensor::ones([d], device)),
            eps: config.rms_norm_eps,
        };
        let embed_tokens = Embedding { weight: init.matrix(c.vocab_size, d) };
        let layers = (0..config.num_hidden_layers).map(|_| Layer {
            self_attn: Attention {
                q_proj: init.linear(d, q),
                k_proj: init.linear(d, kv),
                v_proj: init.linear(d, kv),
                o_proj: init.linear(q, d),
            },
            mlp: Mlp {
                gate_proj: init.linear(d, f),
                up_proj: init.linear(d, f),
                down_proj: init.linear(f, d),
            },
            input_layernorm: norm(),
            post_attention_layernorm: norm(),
        });
        let layers = layers.collect();
        let lm_head = (!config.tie_word_embeddings).then(|| init.linear(d, c.vocab_size));
        let model = Backbone { embed_tokens, layers, norm: norm() };
        Self { model, lm_head, config: config.clone() }
    }

    /// The shape of the model.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Where the weights are.
    #[must_use]
    pub fn device(&self) -> Device {
        self.model.embed_tokens.weight.device()
    }

    /// Hidden states `[S, width]` of a row, after the last normalisation.
    ///
    /// Token ids must be below `vocab_size`: whoever takes texts in checks that.
    #[must_use]
    pub fn forward(&self, row: &Packed) -> Tensor<2> {
        let turns = Turns::new(&self.config, row.positions(), &self.device());
        let mask = Mask::new(row, &self.config);
        self.hidden(row.tokens(), &turns, |_, heads| {
            mask.attend(heads.query, heads.key, heads.value)
        })
    }

    /// Hidden states `[n, width]` of tokens; `attend` makes the contexts of the block with the
    /// given index.
    pub(crate) fn hidden(
        &self,
        tokens: &[u32],
        turns: &Turns,
        mut attend: impl FnMut(usize, Heads) -> Tensor<2>,
    ) -> Tensor<2> {
        let embedding = self.model.embed_tokens.weight.val();
        let mut x = embedding.select(0, indices(tokens, &self.device()));
        for (index, layer) in self.model.layers.iter().enumerate() {
            x = layer.forward(x, turns, |heads| attend(index, heads));
        }
        self.model.norm.forward(x)
    }

    /// Logits `[n, vocab]` of hidden states `[n, width]`.
    #[must_use]
    pub fn logits(&self, hidden: Tensor<2>) -> Tensor<2> {
        match &self.lm_head {
            Some(head) => head.forward(hidden),
            None => hidden.matmul(self.model.embed_tokens.weight.val().transpose()),
        }
    }
}

impl Layer {
    fn forward(
        &self,
        x: Tensor<2>,
        turns: &Turns,
        attend: impl FnOnce(Heads) -> Tensor<2>,
    ) -> Tensor<2> {
        let (normed, maps) = (self.input_layernorm.forward(x.clone()), &self.self_attn);
        let heads = Heads {
            query: turns.query.turn(maps.q_proj.forward(normed.clone())),
            key: turns.key.turn(maps.k_proj.forward(normed.clone())),
            value: maps.v_proj.forward(normed),
        };
        let x = x + maps.o_proj.forward(attend(heads));
        let normed = self.post_attention_layernorm.forward(x.clone());
        x + self.mlp.forward(normed)
    }
}

impl Mlp {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let gate = self.gate_proj.forward(x.clone());
        self.down_proj.forward(kernels::swiglu(gate, self.up_proj.forward(x)))
    }
}

impl Linear {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        x.matmul(self.weight.val())
    }
}

impl RmsNorm {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        kernels::rms_norm(x, self.weight.val().unsqueeze(), self.eps)
    }
}

/// What attention works on: queries `[n, heads * head_dim]`, which come scaled, and keys and
/// values `[n, kv_heads * head_dim]`. Neighbouring query heads share a key head (Ainslie et al.
/// 2023, "GQA").
pub(crate) struct Heads {
    pub(crate) query: Tensor<2>,
    pub(crate) key: Tensor<2>,
    pub(crate) value: Tensor<2>,
}

/// `ids` as an index tensor.
pub(crate) fn indices(ids: &[u32], device: &Device) -> Tensor<1, Int> {
    let ids: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
    let shape = [ids.len()];
    Tensor::from_data(TensorData::new(ids, shape), device)
}

/// Draws matrices one after the other, each from a stream of its own.
struct Init<'a> {
    seed: Seed,
    next: u64,
    device: &'a Device,
}

impl Init<'_> {
    fn linear(&mut self, inputs: usize, outputs: usize) -> Linear {
        Linear { weight: self.matrix(inputs, outputs) }
    }

    /// Normal numbers by Box and Muller's transform, two from each pair of draws.
    fn matrix(&mut self, rows: usize, columns: usize) -> Param<Tensor<2>> {
        const DEVIATION: f64 = 0.02;
        let seed = self.seed.child(self.next);
        self.next += 1;
        let mut values = Vec::with_capacity(rows * columns + 1);
        for pair in 0..(rows * columns).div_ceil(2) as u64 {
            let radius = DEVIATION * (-2.0 * (1.0 - seed.uniform(2 * pair)).ln()).sqrt();
            let (sin, cos) = (std::f64::consts::TAU * seed.uniform(2 * pair + 1)).sin_cos();
            values.extend([(radius * cos) as f32, (radius * sin) as f32]);
        }
        values.truncate(rows * columns);
        Param::from_data(TensorData::new(values, [rows, columns]), self.device)
    }
}
