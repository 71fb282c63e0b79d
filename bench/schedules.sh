#!/usr/bin/env bash
# All four schedules at five paired seeds, from the quickstart's configuration; one thread a run,
# two runs at a time. Writes runs/schedules/<schedule>-<seed> and prints the figures of
# docs/schedules.md. Takes about an hour on two cores; goes on where it was stopped.
set -euo pipefail
cd "$(dirname "$0")/.."
config=${1:-configs/quickstart.toml}
seeds=${SEEDS:-"0 1 2 3 4"}

one() {
  dir=runs/schedules/$2-$3
  if ! grep -qs '"finished": true' "$dir/summary.json"; then
    runs/schedules/rubricon run "$1" --run-dir "$dir" --set "schedule.kind=$2" \
      --set "run.seed=$3" --set services.threads=1 > "$dir.log" 2>&1 || { echo "$dir failed"; exit 1; }
  fi
}
export -f one
mkdir -p runs/schedules
# One binary for all, whatever is built meanwhile.
if [ ! -f runs/schedules/rubricon ]; then
  cargo build --release --quiet
  cp target/release/rubricon runs/schedules/
fi
for seed in $seeds; do
  for schedule in fresh stale stale_budget static; do
    echo "$config $schedule $seed"
  done
done | xargs -P 2 -L 1 bash -c 'one "$@"' _

python3 bench/schedules_table.py runs/schedules
