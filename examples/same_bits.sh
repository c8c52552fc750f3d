#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Shows the project's promise: a layout changes time and memory, never the result. One small model is
# trained under every strategy at 1, 2, 4 and 8 ranks. Ranks are threads and, if there is an mpirun,
# processes. Some runs resume others and change all of these. Each row of the table is a run of the
# trainer, with the loss of its last step and the SHA-256 of its weights. Ends with an error if two rows
# differ.
#
#   same_bits TRAINER [TEXT]   TEXT: what to train on; this script by default
set -euo pipefail

trainer="$(realpath -- "$1")"
text="$(realpath -- "${2:-$0}")"
work="$(mktemp -d)"
trap 'rm -rf -- "$work"' EXIT
declare -A hashes
runs=0

# With --deterministic_batch the gradients of a step's eight sequences are summed along one fixed tree, no
# matter which rank computes them.
common=(--data="$text" --deterministic_batch=8 --batch_size=1 --seq_len=64 --steps=12 --warmup_steps=2
  --threads_per_rank=1 --sample_tokens=0 --log_every=12 --checkpoint_every=4 --keep_last=0)

row() { printf '%3s  %-15s  %5s  %-9s  %-14s  %-18s  %s\n' "$@"; }

# run STRATEGY RANKS TRANSPORT FROM STEP [OPTION...]: resumes from that step of row FROM; "-": a new run.
run() {
  local strategy="$1" ranks="$2" transport="$3" from="$4" step="$5" out="$work/$((runs + 1))"
  local -a start=() resume=()
  local resumed=-
  shift 5
  if [[ "$transport" == processes ]]; then start=(mpirun -n "$ranks" "${mpirun_options[@]}"); fi
  if [[ "$from" != - ]]; then
    resume=(--resume="$work/$from/step-0000000$step")
    resumed="row $from, step $step"
  fi
  local comm=local
  if [[ "$transport" == processes ]]; then comm=mpi; fi
  if ! "${start[@]}" "$trainer" "${common[@]}" --out="$out" --strategy="$strategy" \
    --world_size="$ranks" --comm="$comm" "${resume[@]}" "$@" >"$work/log" 2>&1; then
    cat -- "$work/log" >&2
    echo "same_bits: the run above has failed" >&2
    exit 1
  fi
  local loss hash
  loss="$(tail -n 1 -- "$out/metrics.jsonl" | sed 's/.*"loss":\([^,}]*\).*/\1/')"
  hash="$(cat -- "$out"/final/*.safetensors | sha256sum | cut -c1-16)"
  hashes["$loss $hash"]=1
  runs=$((runs + 1))
  row "$runs" "$strategy" "$ranks" "$transport" "$resumed" "$loss" "$hash"
}

mpirun_options=(--oversubscribe)
if [[ "$(id -u)" == 0 ]]; then mpirun_options+=(--allow-run-as-root); fi
transports=(threads)
if command -v mpirun >/dev/null && mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
  transports+=(processes)
else
  echo "SKIPPED: runs with processes: there is no mpirun of Open MPI"
fi
last="${transports[-1]}"

row row strategy ranks transport "resumed from" "loss of last step" "SHA-256 of weights"
for strategy in no_shard shard_optimizer shard_grad_op full_shard; do
  for ranks in 1 2 4 8; do run "$strategy" "$ranks" threads - -; done
done
for ranks in 4 8; do run hybrid_shard "$ranks" threads - - --shard_size=2; done
if [[ "$last" == processes ]]; then
  run full_shard 2 processes - -
  run hybrid_shard 4 processes - - --shard_size=2
fi
# Resumed in the middle under another strategy, at another number of ranks, and over another transport.
run full_shard 8 threads 1 4
run shard_grad_op 2 "$last" "$runs" 8
run hybrid_shard 4 "$last" 2 4 --shard_size=2
run shard_optimizer 1 threads "$runs" 8

if [[ "${#hashes[@]}" != 1 ]]; then
  echo "$runs runs, ${#hashes[@]} different results: this is a bug" >&2
  exit 1
fi
echo "$runs runs, one result."
