"""The table of docs/schedules.md from the summaries of paired runs: python3 bench/schedules_table.py FOLDER"""

import json
import math
import pathlib
import statistics
import sys

SCHEDULES = ["fresh", "stale", "stale_budget", "static"]
# Two-sided 95 % quantiles of Student's t by degrees of freedom.
T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def interval(values):
    """Mean and half-width of its 95 % interval."""
    mean, n = statistics.mean(values), len(values)
    if n < 2:
        return f"{mean:.3f}"
    return f"{mean:.3f} ± {T[n - 1] * statistics.stdev(values) / math.sqrt(n):.3f}"


def main(folder):
    runs = {}
    for path in pathlib.Path(folder).glob("*/summary.json"):
        summary = json.loads(path.read_text())
        runs[summary["schedule"], summary["seed"]] = summary
    seeds = sorted({seed for _, seed in runs})
    paired = [seed for seed in seeds if all((s, seed) in runs for s in SCHEDULES)]
    print(f"Seeds with all four schedules: {', '.join(map(str, paired))}. Mean ± half of the 95 % interval (Student's t).\n")
    print("| schedule | gold at start | gold at end | fresh minus this, paired | oriented gap first -> last round | ties, last round |")
    print("|---|---|---|---|---|---|")
    for schedule in SCHEDULES:
        of = [runs[schedule, seed] for seed in paired]
        if not of:
            continue
        start = interval([r["gold"]["start"] for r in of])
        end = interval([r["gold"]["end"] for r in of])
        less = [runs["fresh", s]["gold"]["end"] - runs[schedule, s]["gold"]["end"] for s in paired]
        gaps = [(r["oriented_gap"]["first_round"], r["oriented_gap"]["last_round"]) for r in of]
        first, final = (interval([g[i] for g in gaps]) for i in (0, 1))
        ties = interval([r["rounds"][-1]["tie_fraction"] for r in of])
        difference = "" if schedule == "fresh" else interval(less)
        print(f"| `{schedule}` | {start} | {end} | {difference} | {first} -> {final} | {ties} |")
    print("\nGold at the end, by seed:\n")
    print("| schedule | " + " | ".join(map(str, paired)) + " |")
    print("|---" * (len(paired) + 1) + "|")
    for schedule in SCHEDULES:
        ends = [f"{runs[schedule, seed]['gold']['end']:.3f}" for seed in paired]
        print(f"| `{schedule}` | " + " | ".join(ends) + " |")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/schedules")
