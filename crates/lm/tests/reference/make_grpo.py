"""Makes the reference values of the training tests with PyTorch and transformers.

    python make_grpo.py

reads tied.{json,safetensors} (make.py), whose weights are the learner, and writes
grpo.safetensors beside a copy of the configuration. The reference policy has the same weights
times 0.9. Two groups:

    GROUP.prompt        [p] token ids
    GROUP.lengths       [k] tokens of each completion
    GROUP.completions   [n] their tokens, one completion after the other
    GROUP.rollout       [n] log-probability of each when it was drawn (the learner's, moved)
    GROUP.advantages    [k]
    GROUP.temperature   [1]
    GROUP.allowed       [n, vocab] 1 where a token was allowed; group b only

and for AGGREGATION in token, sequence, the loss over both groups with clip 0.2 below and 0.3
above and the k3 penalty at 0.1:

    AGGREGATION.metrics [6] loss, mean ratio, share clipped, mean kl, mean entropy, gradient norm
    AGGREGATION.g.NAME  gradients
    AGGREGATION.p.NAME  weights after gradients are cut to norm 0.05 and one step of AdamW,
                        lr 0.01, betas 0.9 0.999, eps 1e-8, weight decay 0.1 on all
"""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).parent
CLIP_LOW, CLIP_HIGH, BETA = 0.2, 0.3, 0.1
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def model(scale: float) -> LlamaForCausalLM:
    config = LlamaConfig.from_json_file(HERE / "tied.json")
    config._attn_implementation = "eager"
    made = LlamaForCausalLM(config).float().eval()
    weights = load_file(HERE / "tied.safetensors")
    with torch.no_grad():
        for key, weight in made.named_parameters():
            weight.copy_(weights[f"w.{key}"] * scale)
    return made


def distribution(made, prompt, completion, temperature, allowed):
    """Log-probabilities [n, vocab] that each token of a completion was drawn from."""
    row = torch.cat([prompt, completion])[None]
    scores = made(row).logits[0, len(prompt) - 1 : -1] / temperature
    return scores.masked_fill(~allowed, float("-inf")).log_softmax(-1)


def group(learner, p, lengths, temperature, masked):
    prompt = torch.randint(3, 40, (p,))
    completions = [torch.randint(3, 40, (n,)) for n in lengths]
    allowed = []
    for completion in completions:
        sets = torch.rand(len(completion), 40) < 0.5 if masked else torch.ones(len(completion), 40) > 0
        allowed.append(sets | torch.nn.functional.one_hot(completion, 40).bool())
    rollout = []
    with torch.no_grad():
        for completion, sets in zip(completions, allowed):
            log_p = distribution(learner, prompt, completion, temperature, sets)
            rollout.append(log_p.gather(1, completion[:, None])[:, 0] + 0.3 * torch.randn(len(completion)))
    advantages = torch.randn(len(lengths))
    return prompt, completions, rollout, advantages, temperature, allowed


def loss(learner, reference, groups, aggregation):
    terms, ratios, clips, kls, entropies = [], [], [], [], []
    for prompt, completions, rollout, advantages, temperature, allowed in groups:
        for y, old, a, sets in zip(completions, rollout, advantages, allowed):
            log_p = distribution(learner, prompt, y, temperature, sets)
            new = log_p.gather(1, y[:, None])[:, 0]
            with torch.no_grad():
                ref = distribution(reference, prompt, y, temperature, sets).gather(1, y[:, None])[:, 0]
            ratio = (new - old).exp()
            free, held = ratio * a, ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH) * a
            kl = (ref - new).exp() - (ref - new) - 1
            terms.append(-torch.minimum(free, held) + BETA * kl)
            ratios.append(ratio)
            clips.append((held < free).float())
            kls.append(kl)
            entropies.append(-(log_p.exp() * log_p.clamp(min=-1e4)).sum(-1))
    if aggregation == "token":
        total = torch.cat(terms).mean()
    else:
        total = torch.stack([term.mean() for term in terms]).mean()
    means = [torch.cat(values).mean() for values in (ratios, clips, kls, entropies)]
    return total, [mean.detach() for mean in means]


def main() -> None:
    torch.manual_seed(11)
    learner, reference = model(1.0), model(0.9)
    groups = {
        "a": group(learner, 4, [5, 3, 6], 1.0, masked=False),
        "b": group(learner, 6, [4, 7], 0.8, masked=True),
    }
    out = {}
    for name, (prompt, completions, rollout, advantages, temperature, allowed) in groups.items():
        out[f"{name}.prompt"] = prompt.int()
        out[f"{name}.lengths"] = torch.tensor([len(y) for y in completions]).int()
        out[f"{name}.completions"] = torch.cat(completions).int()
        out[f"{name}.rollout"] = torch.cat(rollout)
        out[f"{name}.advantages"] = advantages
        out[f"{name}.temperature"] = torch.tensor([temperature])
        if name == "b":
            out[f"{name}.allowed"] = torch.cat(allowed).int()
    for aggregation in ("token", "sequence"):
        learner = model(1.0)
        total, means = loss(learner, reference, groups.values(), aggregation)
        total.backward()
        for key, weight in learner.named_parameters():
            out[f"{aggregation}.g.{key}"] = weight.grad.clone()
        norm = torch.nn.utils.clip_grad_norm_(learner.parameters(), 0.05)
        out[f"{aggregation}.metrics"] = torch.stack([total.detach(), *means, norm.detach()])
        torch.optim.AdamW(learner.parameters(), lr=0.01, weight_decay=0.1).step()
        for key, weight in learner.named_parameters():
            out[f"{aggregation}.p.{key}"] = weight.detach().clone()
    save_file({key: value.contiguous() for key, value in out.items()}, HERE / "grpo.safetensors")
    (HERE / "grpo.json").write_text((HERE / "tied.json").read_text())
    print({key: value for key, value in out.items() if "metrics" in key})


main()
