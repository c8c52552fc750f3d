#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Trains on GPUs, a process for each; run it on every machine with its own NODE. Further arguments
# go to the trainer.
#
#   SHARED=/shared/me ./torchrun.sh
#   NODE=0 NODES=2 MASTER=node0 JOB=7 ZEROTH_JOB_SECRET=… SHARED=/shared/me ./torchrun.sh
#
# JOB tells this run from others that use the same port. Only processes with the secret can join it. Both
# are the same on all machines: openssl rand -hex 32 draws a secret.
set -euo pipefail

# Change these lines.
shared="${SHARED:?a folder that all machines see, as SHARED=/shared/me}"
options=(--model=llama_1b --tokenizer="$shared/tokenizer" --seq_len=2048 --batch_size=4 --steps=10000
  --data="$shared/tokens/*.bin" --out="$shared/run" --resume=auto --checkpoint_every=500)
gpus="${GPUS_PER_NODE:-8}"

trainer="${TRAINER:-zeroth-train}"
nodes="${NODES:-1}"

# Within a machine parameters are sharded, across machines replicated: traffic stays on the fast links.
strategy=(--strategy=full_shard)
if ((nodes > 1)); then
  strategy=(--strategy=hybrid_shard --shard_size="$gpus")
  : "${ZEROTH_JOB_SECRET:?a secret, the same on all machines, as openssl rand -hex 32 prints it}"
else
  ZEROTH_JOB_SECRET="${ZEROTH_JOB_SECRET:-$(od -An -N32 -tx1 /dev/urandom | tr -d " \n")}"
fi
export ZEROTH_JOB_SECRET

exec torchrun --no-python --nnodes="$nodes" --node_rank="${NODE:-0}" --nproc_per_node="$gpus" \
  --master_addr="${MASTER:-127.0.0.1}" --master_port="${PORT:-29500}" --rdzv_id="${JOB:-zeroth}" \
  "$trainer" --device=cuda --comm=nccl --param_dtype=bf16 --reduce_dtype=bf16 "${strategy[@]}" "${options[@]}" "$@"
