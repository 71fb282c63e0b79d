"""One GRPO step of 12 prompts x 8 samples x at most 24 tokens: TRL's GRPOTrainer beside Rubricon.

Both train models/micro/policy (0.9 M parameters) from the same prompts with a program as reward
and the same KL weight, on the same machine, one after the other, two threads each. Run from the
repository's root, in an environment with torch, transformers and trl:

    cargo build --release
    python bench/grpo_step.py

Prints the median milliseconds of a step of each and their ratio.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

MODEL, PROMPTS, STEPS, SKIP = "models/micro/policy", "models/micro/prompts.jsonl", 30, 5


def rubricon(folder):
    """Median seconds of a policy step with the gold program as the evaluator."""
    settings = {
        "evaluator.kind": "gold",
        "schedule.rounds": 1,
        "schedule.policy_steps": STEPS,
        "policy.max_tokens": 24,
        "policy.groups_per_step": 12,
        "batch.group_size": 8,
        "batch.max_draws": 1,
        "audit.world": "none",
        "services.threads": 2,
    }
    flags = [x for key, value in settings.items() for x in ("--set", f"{key}={value}")]
    command = ["target/release/rubricon", "run", "configs/quickstart.toml", "--run-dir", folder]
    subprocess.run(command + flags, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(os.path.join(folder, "steps.jsonl")) as lines:
        steps = [json.loads(line)["metrics"] for line in lines]
    return statistics.median(step["time/step"] for step in steps[SKIP:])


def trl():
    """Median seconds of a step of TRL's trainer, from one logged step to the next."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(2)
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=f"{MODEL}/tokenizer.json", pad_token="<pad>", eos_token="<eos>"
    )
    with open(PROMPTS) as lines:
        prompts = [json.loads(line)["prompt"] for line in lines]
    data = Dataset.from_dict({"prompt": [f"<bos>{p}<ans>" for p in prompts]})

    def reward(completions, **_):
        return [len(set(re.findall(r"\w+", text))) / 24 for text in completions]

    times = []

    class Clock(TrainerCallback):
        def on_step_end(self, *_, **__):
            times.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder, use_cpu=True, max_steps=STEPS, num_generations=8, beta=0.02,
            per_device_train_batch_size=96, max_completion_length=24, learning_rate=3e-4,
            temperature=1.0, save_strategy="no", report_to=[], logging_steps=1000,
            disable_tqdm=True, bf16=False, gradient_checkpointing=False,
        )
        trainer = GRPOTrainer(
            model=model, reward_funcs=reward, args=config, train_dataset=data,
            processing_class=tokenizer, callbacks=[Clock()],
        )
        trainer.train()
    return statistics.median(b - a for a, b in zip(times[SKIP:], times[SKIP + 1:]))


def main():
    if sys.argv[1:] == ["trl"]:
        print(trl())
        return
    with tempfile.TemporaryDirectory() as folder:
        ours = rubricon(os.path.join(folder, "run"))
    # A process of its own: torch's threads must not be around while Rubricon is measured.
    theirs = subprocess.run([sys.executable, __file__, "trl"], check=True, capture_output=True)
    theirs = float(theirs.stdout.split()[-1])
    print(f"TRL       {1000 * theirs:7.0f} ms a step")
    print(f"Rubricon  {1000 * ours:7.0f} ms a step")
    print(f"ratio     {theirs / ours:7.2f}")


if __name__ == "__main__":
    main()
