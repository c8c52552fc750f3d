#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
#SBATCH --job-name=zeroth
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --signal=USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#
# A rank for each GPU. Two minutes before its time ends, or when it is preempted, the run saves a
# checkpoint, stops with code 75, and is queued again to go on from there. For CPUs: leave out
# --gpus-per-node, and train with --device=cpu --comm=mpi instead, under srun --mpi=pmix (Open MPI) or
# --mpi=pmi2 (MPICH). Further arguments go to the trainer.
set -euo pipefail

# Change these lines, and those above.
shared="${SHARED:?a folder that all nodes see, as SHARED=/shared/me}"
options=(--model=llama_1b --tokenizer="$shared/tokenizer" --seq_len=2048 --batch_size=4 --steps=10000
  --data="$shared/tokens/*.bin" --out="$shared/run" --resume=auto --checkpoint_every=500)

# Only processes with the secret can join. srun passes it on to them.
export ZEROTH_JOB_SECRET="${ZEROTH_JOB_SECRET:-$(od -An -N32 -tx1 /dev/urandom | tr -d " \n")}"

# srun must not kill ranks because others have exited with 75: ranks notice by themselves that one is
# lost.
code=0
srun --kill-on-bad-exit=0 zeroth-train \
  --device=cuda --comm=nccl \
  --strategy=hybrid_shard --shard_size=8 --param_dtype=bf16 --reduce_dtype=bf16 \
  "${options[@]}" --async_checkpoint "$@" || code=$?
if [[ "$code" == 75 ]]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
