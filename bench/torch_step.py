"""Times a learner step, fine-tuning and sampling in PyTorch and in Rubricon, side by side.

    cargo build --release -p lm --example train_speed
    python bench/torch_step.py target/release/examples/train_speed [threads ..]

Both do the same: a Llama-type model of 0.9 M parameters (4 layers, width 128, 4 heads, vocabulary
600, f32), 12 groups of a prompt and 8 completions through a GRPO step with AdamW, and fine-tuning
on documents of 48 tokens, and 8 completions of 24 tokens sampled at once, with a cache of keys and
values, at temperature 1. For the steps PyTorch gets each layout it may be fast with and counts with its best:

    packed  [12, prompt + 8 completions] rows with a mask, as Rubricon lays them out
    padded  [96, prompt + completion] causal rows, each with its own copy of the prompt

The two take turns, `ROUNDS` times, and the best time of each counts: a busy machine only adds.
"""

import json
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, WIDTH, LAYERS, HEADS, INNER = 600, 128, 4, 4, 352
GROUPS, COMPLETIONS = 12, 8
ROUNDS, STEPS = 3, 12


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)
        self.norm1, self.norm2 = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))

    def forward(self, x, cos, sin, mask, cache=None):
        b, s, _ = x.shape
        normed = F.rms_norm(x, (WIDTH,), self.norm1, 1e-5)
        q, k, v = (f(normed).view(b, s, HEADS, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        if cache is not None:
            k, v = cache.add(k, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.o(y.transpose(1, 2).reshape(b, s, WIDTH))
        normed = F.rms_norm(x, (WIDTH,), self.norm2, 1e-5)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Cache:
    """Keys and values of one layer, in room that is there from the start."""

    def __init__(self, rows, room):
        self.k, self.v = torch.zeros(2, rows, HEADS, room, WIDTH // HEADS).unbind()
        self.filled = 0

    def add(self, k, v):
        end = self.filled + k.shape[2]
        self.k[:, :, self.filled:end], self.v[:, :, self.filled:end] = k, v
        self.filled = end
        return self.k[:, :, :end], self.v[:, :, :end]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Parameter(0.02 * torch.randn(VOCAB, WIDTH))
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.Parameter(torch.ones(WIDTH))

    def forward(self, ids, positions, mask, caches=(None,) * LAYERS):
        d = WIDTH // HEADS
        angles = positions[:, None] * 10000.0 ** (-torch.arange(0, d, 2) / d)
        cos, sin = (torch.cat([f(angles)] * 2, -1) for f in (torch.cos, torch.sin))
        x = self.embed[ids]
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cos, sin, mask, cache)
        return F.rms_norm(x, (WIDTH,), self.norm, 1e-5)

    def logits(self, hidden):
        return hidden @ self.embed.T


def layout(kind, prompt, completion):
    """ids, positions, mask, predictors and targets of a step's groups."""
    groups = torch.randint(0, VOCAB, (GROUPS, prompt + COMPLETIONS * completion))
    answers = groups[:, prompt:].reshape(GROUPS * COMPLETIONS, completion)
    if kind == "padded":
        prompts = groups[:, None, :prompt].expand(-1, COMPLETIONS, -1).reshape(-1, prompt)
        ids = torch.cat([prompts, answers], 1)
        predictors = torch.arange(prompt - 1, prompt + completion - 1)
        return ids, torch.arange(prompt + completion), None, predictors, answers
    segments = torch.cat([torch.zeros(prompt), 1 + torch.arange(COMPLETIONS).repeat_interleave(completion)])
    positions = torch.cat([torch.arange(prompt), (prompt + torch.arange(completion)).repeat(COMPLETIONS)])
    row = torch.arange(len(segments))
    mask = (row[:, None] >= row) & ((segments[:, None] == segments) | (segments == 0))
    starts = prompt + torch.arange(COMPLETIONS) * completion
    predictors = (starts[:, None] + torch.arange(-1, completion - 1))
    predictors[:, 0] = prompt - 1
    return groups, positions, mask, predictors.reshape(-1), groups[:, prompt:]


def step_ms(kind, prompt, completion, beta):
    torch.manual_seed(0)
    model, reference = Model(), Model()
    reference.load_state_dict(model.state_dict())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, fused=True)
    ids, positions, mask, predictors, targets = layout(kind, prompt, completion)
    old = torch.full(targets.shape, -6.4)
    advantages = (torch.arange(COMPLETIONS) / 4.0 - 0.875).repeat(GROUPS)
    advantages = advantages.repeat_interleave(completion).view(targets.shape)

    def logprobs(model):
        hidden = model(ids, positions, mask)[:, predictors]
        log_p = model.logits(hidden).log_softmax(-1)
        return log_p, log_p.gather(2, targets[:, :, None])[:, :, 0]

    def step():
        log_p, new = logprobs(model)
        ratio = (new - old).exp()
        loss = -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        if beta:
            with torch.no_grad():
                _, ref = logprobs(reference)
            loss = loss + beta * ((ref - new).exp() - (ref - new) - 1)
        with torch.no_grad():
            -(log_p.exp() * log_p).sum(-1).mean()
        optimizer.zero_grad()
        loss.mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return median_ms(step)


def sft_tokens_per_s():
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0, fused=True)
    documents = torch.randint(0, VOCAB, (80, 48))

    def step():
        hidden = model(documents, torch.arange(48), None)[:, 17:-1]
        loss = F.cross_entropy(model.logits(hidden).reshape(-1, VOCAB), documents[:, 18:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return documents.numel() / median_ms(step) * 1e3


@torch.inference_mode()
def sampled_tokens_per_s(prompt=18, length=24):
    torch.manual_seed(0)
    model, ids = Model(), torch.arange(prompt)
    unmasked = torch.ones(1, 1, dtype=torch.bool)

    def step():
        caches = [Cache(COMPLETIONS, prompt + length) for _ in range(LAYERS)]
        hidden = model(ids.expand(COMPLETIONS, -1), ids, None, caches)[:, -1]
        for position in range(prompt, prompt + length):
            p = model.logits(hidden).softmax(-1)
            tokens = torch.multinomial(p, 1)
            p.gather(1, tokens).log()
            if position + 1 < prompt + length:
                hidden = model(tokens, torch.tensor([position]), unmasked, caches)[:, -1]

    return COMPLETIONS * length / median_ms(step) * 1e3


def median_ms(step):
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    return sorted(times)[STEPS // 2]


def measure(threads):
    torch.set_num_threads(threads)
    best = lambda *shape: min(step_ms(kind, *shape) for kind in ("packed", "padded"))
    return {
        "step_18_24_ms": best(18, 24, 0.0),
        "step_18_24_kl_ms": best(18, 24, 0.01),
        "step_90_18_ms": best(90, 18, 0.0),
        "sft_tokens_per_s": sft_tokens_per_s(),
        "sample_8_tokens_per_s": sampled_tokens_per_s(),
    }


def main():
    binary, threads = sys.argv[1], [int(arg) for arg in sys.argv[2:]] or [1, 2]
    for count in threads:
        ours, theirs = [], []
        for _ in range(ROUNDS):
            theirs.append(measure(count))
            ours.append(json.loads(subprocess.check_output([binary, str(count)])))
        print(f"{count} threads {'torch':>21} {'rubricon':>9}  rubricon is faster by")
        for key in theirs[0]:
            best = max if key.endswith("_per_s") else min
            a, b = best(run[key] for run in theirs), best(run[key] for run in ours)
            print(f"  {key:20} {a:9.1f} {b:9.1f}  {b / a if best is max else a / b:.2f}")


main()
