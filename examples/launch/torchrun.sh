#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Trains on GPUs, a process for each; run it on every machine with its own NODE. Further words are the
# trainer's.
#
#   NODE=0 NODES=2 MASTER=node0 ./torchrun.sh --data=/shared/book.txt --out=/shared/run
set -euo pipefail

trainer="${TRAINER:-zeroth-train}"
gpus="${GPUS_PER_NODE:-8}"
nodes="${NODES:-1}"

# Within a machine parameters are sharded, across machines replicated: traffic stays on the fast links.
strategy=(--strategy=full_shard)
if ((nodes > 1)); then strategy=(--strategy=hybrid_shard --shard_size="$gpus"); fi

exec torchrun --no-python --nnodes="$nodes" --node_rank="${NODE:-0}" --nproc_per_node="$gpus" \
  --master_addr="${MASTER:-127.0.0.1}" --master_port="${PORT:-29500}" \
  "$trainer" --device=cuda --comm=nccl --param_dtype=bf16 --reduce_dtype=bf16 "${strategy[@]}" "$@"
