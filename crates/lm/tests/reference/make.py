"""Makes the reference values of the model tests with PyTorch and transformers.

    python make.py

writes {tied,untied}.json (config.json as transformers writes it) and
{tied,untied}.safetensors, with

    w.NAME        weights
    ids           [2, 11] two texts
    logits        [2, 11, vocab]
    loss          [1] mean cross-entropy of all next tokens of both texts
    g.NAME        gradients of the loss
    prompt        [5] and
    completions   [3, 6] a group
    logprobs      [3, 6] log-probability of each completion token after its own prompt
    greedy        [12] greedy continuation of the prompt
    p.NAME        weights after one step of AdamW, lr 0.01, betas 0.9 0.95, eps 1e-8,
                  weight decay 0.1 on matrices, none on norms, gradients clipped to global norm 1
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).parent
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


def make(name: str, tied: bool) -> None:
    torch.manual_seed(7 + tied)
    config = LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        rms_norm_eps=1e-5,
        rope_theta=500.0,
        max_position_embeddings=64,
        tie_word_embeddings=tied,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        attn_implementation="eager",
        architectures=["LlamaForCausalLM"],
    )
    model = LlamaForCausalLM(config).float().eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if "norm" in key:
                weight.copy_(1 + 0.2 * torch.randn_like(weight))
            else:
                weight.copy_(0.3 * torch.randn_like(weight))
    out = {f"w.{key}": weight.detach().clone() for key, weight in model.named_parameters()}

    ids = torch.randint(3, 40, (2, 11))
    logits = model(ids).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 40), ids[:, 1:].reshape(-1))
    loss.backward()
    out |= {"ids": ids.int(), "logits": logits.detach(), "loss": loss.detach().reshape(1)}
    out |= {f"g.{key}": weight.grad.clone() for key, weight in model.named_parameters()}

    prompt, completions = torch.randint(3, 40, (5,)), torch.randint(3, 40, (3, 6))
    with torch.no_grad():
        rows = torch.cat([prompt.expand(3, 5), completions], dim=1)
        logprobs = model(rows).logits.log_softmax(-1)[:, 4:-1]
        logprobs = logprobs.gather(2, completions[:, :, None])[:, :, 0]
        greedy = prompt
        for _ in range(12):
            greedy = torch.cat([greedy, model(greedy[None]).logits[0, -1].argmax()[None]])
    out |= {"prompt": prompt.int(), "completions": completions.int(), "logprobs": logprobs}
    out["greedy"] = greedy[5:].int()

    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    groups = [
        {"params": [p for p in model.parameters() if p.dim() == 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8).step()
    out |= {f"p.{key}": weight.detach().clone() for key, weight in model.named_parameters()}

    save_file({key: value.contiguous() for key, value in out.items()}, HERE / f"{name}.safetensors")
    (HERE / f"{name}.json").write_text(config.to_json_string(use_diff=False))


make("tied", tied=True)
make("untied", tied=False)
