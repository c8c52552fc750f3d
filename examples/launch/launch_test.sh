#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# launch_test FOLDER TRAINER: the trainer accepts the options in the files of FOLDER. For files that need a
# cluster or GPUs, a fake launcher runs the trainer once, which must get as far as looking for its GPU.
# mpirun.sh trains.
set -euo pipefail
folder="$1"
work="$(mktemp -d "${TEST_TMPDIR:-/tmp}/launch.XXXXXX")"
export TRAINER work
# Open MPI 5 does not start without a home directory, and Bazel gives tests none.
export HOME="${HOME:-$work}"
# Its shared memory is named after mpirun's process, which may have the same number in another sandbox.
export OMPI_MCA_btl_vader_backing_directory="$work" OMPI_MCA_btl_sm_backing_directory="$work"
TRAINER="$(realpath -- "$2")"
mkdir "$work/bin" "$work/tokenizer"
cp -- "$folder/README.md" "$work/text"
ln -s -- "$TRAINER" "$work/bin/zeroth-train"
for launcher in torchrun srun; do
  cat >"$work/bin/$launcher" <<'END'
#!/usr/bin/env bash
while [[ "$(basename -- "$1")" != train && "$1" != zeroth-train ]]; do shift; done
exec "$@"
END
  chmod +x "$work/bin/$launcher"
done
PATH="$work/bin:$PATH"

expect() { # expect WHAT OUTPUT PART
  if [[ "$2" != *"$3"* ]]; then
    printf 'FAILED: %s\n  expected a part: %s\n  found: %s\n' "$1" "$3" "$2" >&2
    exit 1
  fi
}
no_gpu='--config=cuda'

expect torchrun.sh "$(NODES=2 "$folder/torchrun.sh" --data="$work/text" --out="$work/1" 2>&1 || true)" "$no_gpu"
expect slurm.sh "$(SHARED="$work" "$folder/slurm.sh" 2>&1 || true)" "$no_gpu"
mapfile -t words < <(sed -n '/- zeroth-train/,/env:/s/^ *- //p' "$folder/kubernetes.yaml" | sed "s#=/shared/tokens/.*#=$work/text#")
expect kubernetes.yaml "$("${words[@]}" --out="$work/2" 2>&1 || true)" "$no_gpu"

if command -v mpirun >/dev/null; then
  expect mpirun.sh "$(RANKS=2 "$folder/mpirun.sh" --data="$work/text" --seq_len=16 --batch_size=1 \
    --steps=2 --sample_tokens=0 --out="$work/3" 2>&1)" "done after 2 steps"
else
  echo "No mpirun here: mpirun.sh was not run."
fi
