#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Trains on CPUs, a process for each rank. Further arguments go to the trainer. Ranks meet by MPI, so they
# need no job's number or secret.
#
#   RANKS=2 ./mpirun.sh --data=book.txt
#   RANKS=16 HOSTS=hosts.txt ./mpirun.sh --data=/shared/book.txt --out=/shared/run
set -euo pipefail

trainer="${TRAINER:-zeroth-train}"
ranks="${RANKS:-2}"
# The cores of a machine divided by the ranks on it.
threads="${THREADS_PER_RANK:-1}"

options=(-n "$ranks" --map-by "slot:PE=$threads" --bind-to core)
if [[ -n "${HOSTS:-}" ]]; then options+=(--hostfile "$HOSTS"); fi
# Open MPI asks for these in a container, and where there are more ranks than cores.
if [[ "$(id -u)" == 0 ]]; then options+=(--allow-run-as-root); fi
if ((ranks * threads > $(nproc))) && [[ -z "${HOSTS:-}" ]]; then options=(-n "$ranks" --oversubscribe --bind-to none "${options[@]:6}"); fi

exec mpirun "${options[@]}" "$trainer" --comm=mpi --threads_per_rank="$threads" --strategy=full_shard "$@"
