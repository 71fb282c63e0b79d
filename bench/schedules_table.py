"""The table of docs/schedules.md from the summaries of paired runs: python3 bench/schedules_table.py FOLDER

FOLDER holds one folder a run, each with its summary.json. Only seeds that all four schedules have
finished are counted. What a run did not measure is left out of its cell, which then says how many
runs it is of. `python3 -m doctest bench/schedules_table.py` checks the arithmetic.
"""

import json
import math
import pathlib
import statistics
import sys

SCHEDULES = ["fresh", "stale", "stale_budget", "static"]
# Two-sided 95 % quantiles of Student's t by degrees of freedom from 1 on, rounded up.
T = [12.707, 4.303, 3.183, 2.777, 2.571, 2.447, 2.365, 2.307, 2.263, 2.229, 2.201, 2.179, 2.161,
     2.145, 2.132, 2.120, 2.110, 2.101, 2.094, 2.086]
MISSING = "not measured"


def quantile(freedom):
    """The quantile; beyond the table that of the next smaller number in it, which is wider.

    >>> quantile(4), quantile(20), quantile(99)
    (2.777, 2.086, 2.086)
    """
    return T[min(freedom, len(T)) - 1]


def interval(values, digits=3):
    """Mean and half of its 95 % interval, of the values that were measured.

    Four values 1, 2, 3, 4: mean 2.5, deviation 1.291, 3.183 x 1.291 / 2 = 2.055.

    >>> interval([1, 2, 3, 4])
    '2.500 ± 2.055'
    >>> interval([1, None, 2], 1)
    '1.5 ± 6.4 (2 of 3)'
    >>> interval([None, 0.25]), interval([None]), interval([])
    ('0.250 (1 of 2)', 'not measured', 'not measured')
    """
    found = [value for value in values if value is not None]
    if not found:
        return MISSING
    text = f"{statistics.mean(found):.{digits}f}"
    if len(found) > 1:
        half = quantile(len(found) - 1) * statistics.stdev(found) / math.sqrt(len(found))
        text += f" ± {half:.{digits}f}"
    return text if len(found) == len(values) else f"{text} ({len(found)} of {len(values)})"


def at(summary, *path):
    """What is in a summary under a path of names and places; None where anything on it is missing.

    >>> at({"rounds": [{"start": None}]}, "rounds", -1, "start", "oriented_gap") is None
    True
    >>> at({"gold": {"end": 0.5}}, "gold", "end")
    0.5
    """
    for step in path:
        try:
            summary = summary[step]
        except (KeyError, IndexError, TypeError):
            return None
    return summary


def less(a, b):
    """The difference of two numbers, None if one is missing.

    >>> less(3, 1), less(None, 1)
    (2, None)
    """
    return None if a is None or b is None else a - b


def wall(summary):
    """Seconds of all steps and of the audits before and between them.

    >>> wall({"time": {"step": 60.0, "audit": 5.0}}), wall({"time": {"audit": 5.0}})
    (65.0, None)
    """
    steps = at(summary, "time", "step")
    return None if steps is None else steps + (at(summary, "time", "audit") or 0.0)


def table(runs):
    """The lines of the table, from summaries by (schedule, seed).

    >>> start = {"oriented_gap": 0.1, "tie_fraction": None, "proxy": 0.5, "gold": 0.4}
    >>> def run(end):
    ...     return {"gold": {"start": 0.4, "end": end}, "rounds": [{"start": start, "end": None}],
    ...             "time": {"step": 60.0}}
    >>> runs = {(s, seed): run(0.5 + 0.1 * seed * (s == "fresh")) for s in SCHEDULES for seed in (0, 1)}
    >>> runs["static", 1]["gold"]["end"] = None
    >>> runs["fresh", 2] = run(0.9)  # no pair of its own
    >>> for line in table(runs): print(line)  # doctest: +ELLIPSIS
    2 seeds with all four schedules: 0, 1. ...
    | `fresh` | 2 | 0.400 ± 0.000 | 0.550 ± 0.635 |  | 0.100 ± 0.000 | not measured | not measured | ...
    | `stale` | 2 | 0.400 ± 0.000 | 0.500 ± 0.000 | -0.050 ± 0.635 | ...
    | `static` | 2 | 0.400 ± 0.000 | 0.500 (1 of 2) | 0.000 (1 of 2) | ...
    """
    seeds = sorted({seed for _, seed in runs})
    paired = [seed for seed in seeds if all((s, seed) in runs for s in SCHEDULES)]
    yield (f"{len(paired)} seeds with all four schedules: {', '.join(map(str, paired))}. "
           "Mean ± half of the 95 % interval over seeds (Student's t with one degree of freedom "
           "less than seeds). Gap, ties, proxy and gold beside it: the evaluator that trains the "
           "policy in the last round, on held-out samples of the policy before that phase; at its "
           "end in the columns that say so.")
    yield ""
    names = ["schedule", "seeds", "gold at start", "gold at end", "less `fresh`, paired",
             "oriented gap", "the same at the end", "ties", "proxy", "gold of the same samples",
             "proxy at the end", "gold at the end of the same", "wall s"]
    yield "| " + " | ".join(names) + " |"
    yield "|---" * len(names) + "|"
    for schedule in SCHEDULES:
        of = [runs[schedule, seed] for seed in paired]

        def cell(*path):
            return interval([at(run, *path) for run in of])

        fresh = [less(at(runs[schedule, s], "gold", "end"), at(runs["fresh", s], "gold", "end")) for s in paired]
        cells = [f"`{schedule}`", str(len(of)), cell("gold", "start"), cell("gold", "end"),
                 "" if schedule == "fresh" else interval(fresh)]
        for when, name in [("start", "oriented_gap"), ("end", "oriented_gap"), ("start", "tie_fraction"),
                           ("start", "proxy"), ("start", "gold"), ("end", "proxy"), ("end", "gold")]:
            cells.append(cell("rounds", -1, when, name))
        cells.append(interval([wall(run) for run in of], 0))
        yield "| " + " | ".join(cells) + " |"
    yield ""
    yield "Gold at the end, by seed:"
    yield ""
    yield "| schedule | " + " | ".join(map(str, paired)) + " |"
    yield "|---" * (len(paired) + 1) + "|"
    for schedule in SCHEDULES:
        ends = [at(runs[schedule, seed], "gold", "end") for seed in paired]
        yield f"| `{schedule}` | " + " | ".join(MISSING if e is None else f"{e:.3f}" for e in ends) + " |"


def finished(folder):
    """The summaries of finished runs by schedule and seed; what is left out is said."""
    runs = {}
    for path in sorted(pathlib.Path(folder).glob("*/summary.json")):
        summary = json.loads(path.read_text())
        key = summary["schedule"], summary["seed"]
        if not summary["finished"]:
            print(f"{path}: not finished, left out", file=sys.stderr)
        elif key in runs:
            print(f"{path}: a second run of {key}, left out", file=sys.stderr)
        else:
            runs[key] = summary
    return runs


if __name__ == "__main__":
    for row in table(finished(sys.argv[1] if len(sys.argv) > 1 else "runs/schedules")):
        print(row)
