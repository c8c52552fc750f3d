#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Trains on CPUs, a process for each rank, with mpirun of Open MPI or MPICH. Further arguments go to the
# trainer. Ranks meet by MPI, so they need no job's number or secret.
#
#   RANKS=2 ./mpirun.sh --data=book.txt
#   RANKS=16 HOSTS=hosts.txt ./mpirun.sh --data=/shared/book.txt --out=/shared/run
#   MPIRUN=mpirun.mpich ./mpirun.sh --data=book.txt
set -euo pipefail

trainer="${TRAINER:-zeroth-train}"
mpirun="${MPIRUN:-mpirun}"
ranks="${RANKS:-2}"
# The cores of a machine divided by the ranks on it.
threads="${THREADS_PER_RANK:-1}"

binds=yes # each rank to its own cores
if [[ -z "${HOSTS:-}" ]] && ((ranks * threads > $(nproc))); then binds=no; fi

options=(-n "$ranks")
case "$("$mpirun" --version)" in
  *"Open MPI"* | *OpenRTE*)
    if [[ "$binds" == yes ]]; then
      options+=(--map-by "slot:PE=$threads" --bind-to core)
    else
      options+=(--oversubscribe --bind-to none)
    fi
    if [[ -n "${HOSTS:-}" ]]; then options+=(--hostfile "$HOSTS"); fi
    # It refuses root, also in a container.
    if [[ "$(id -u)" == 0 ]]; then options+=(--allow-run-as-root); fi
    ;;
  *HYDRA*) # MPICH
    if [[ "$binds" == yes ]]; then options+=(-bind-to "core:$threads"); fi
    if [[ -n "${HOSTS:-}" ]]; then options+=(-f "$HOSTS"); fi
    ;;
  *)
    echo "mpirun.sh: $mpirun is of neither Open MPI nor MPICH; start the trainer as its manual says" >&2
    exit 2
    ;;
esac

exec "$mpirun" "${options[@]}" "$trainer" --comm=mpi --threads_per_rank="$threads" --strategy=full_shard "$@"
