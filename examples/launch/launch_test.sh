#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# launch_test FOLDER TRAINER TESTDATA: each file of FOLDER trains a step once the lines at its top name a small model.
# Fake launchers replace torchrun and srun: they refuse options that those do not have, and
# run the trainer on the processor, with as many threads as ranks would be started. They override nothing but the
# device, the transport and the number of steps. mpirun.sh runs under the real mpirun.
set -euo pipefail
folder="$1"
work="$(mktemp -d "${TEST_TMPDIR:-/tmp}/launch.XXXXXX")"
export TRAINER work
# Open MPI 5 does not start without a home directory, and Bazel gives tests none.
export HOME="${HOME:-$work}"
# Its shared memory is named after mpirun's process, which may have the same number in another sandbox.
export OMPI_MCA_btl_vader_backing_directory="$work" OMPI_MCA_btl_sm_backing_directory="$work"
TRAINER="$(realpath -- "$2")"
mkdir -p "$work/bin" "$work/shared/tokenizer" "$work/shared/tokens"
ln -s -- "$TRAINER" "$work/bin/zeroth-train"
cp -- "$3/tokenizers/gpt2_json/tokenizer.json" "$work/shared/tokenizer"
sed 's/"vocab_size": 257/"vocab_size": 901/' "$3/llama_tiny/config.json" >"$work/config.json"
cp -- "$folder/README.md" "$work/text"

# llm.c's token file: 256 words of header, then ids of 16 bits. A byte tokenizer has no id of 257 or more.
bytes() { # bytes COUNT NUMBER...: little-endian
  local count="$1" number i
  shift
  for number in "$@"; do
    for ((i = 0; i < count; ++i)); do printf "\\x$(printf '%02x' $((number >> 8 * i & 255)))"; done
  done
}
{
  bytes 4 20240520 1 4096
  head -c 1012 /dev/zero
  some="$work/some"
  mapfile -t ids < <(seq 200 711)
  bytes 2 "${ids[@]}" >"$some"
  cat "$some" "$some" "$some" "$some" "$some" "$some" "$some" "$some"
} >"$work/shared/tokens/one.bin"

cat >"$work/bin/run_as" <<'END'
#!/usr/bin/env bash
# run_as RANKS TRAINER OPTIONS...
set -euo pipefail
[[ ${#ZEROTH_JOB_SECRET} -ge 32 ]] || { echo "ranks would meet without a secret"; exit 1; }
ranks="$1"
shift
exec "$@" --device=cpu --comm=local --world_size="$ranks" --steps=1 --sample_tokens=0
END
cat >"$work/bin/torchrun" <<'END'
#!/usr/bin/env bash
set -euo pipefail
nodes='' node='' ranks='' job=none python=yes
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --nnodes=*) nodes="${1#*=}" ;;
    --node_rank=*) node="${1#*=}" ;;
    --nproc_per_node=*) ranks="${1#*=}" ;;
    --rdzv_id=*) job="${1#*=}" ;;
    --master_addr=?* | --master_port=[0-9]*) ;;
    --no-python) python=no ;;
    *) echo "torchrun has no option $1"; exit 2 ;;
  esac
  shift
done
[[ "$python" == no ]] || { echo "torchrun would start Python"; exit 2; }
[[ -n "$job" && "$job" != none ]] || { echo "the job has no id"; exit 2; }
((node < nodes)) || { echo "node $node of $nodes"; exit 2; }
exec run_as $((nodes * ranks)) "$@"
END
cat >"$work/bin/srun" <<'END'
#!/usr/bin/env bash
set -euo pipefail
[[ "$1" == --kill-on-bad-exit=0 ]] || { echo "unknown: $1"; exit 2; }
shift
exec run_as $((SLURM_NNODES * SLURM_NTASKS_PER_NODE)) "$@"
END
cat >"$work/bin/scontrol" <<'END'
#!/usr/bin/env bash
printf '%s\n' "$*" >>"$work/scontrol"
END
chmod +x "$work"/bin/{run_as,torchrun,srun,scontrol}
PATH="$work/bin:$PATH"

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# Copies FILE with its lines changed. Each pattern must be found: a user is told to change these lines.
change() { # change FILE PATTERN REPLACEMENT [PATTERN REPLACEMENT]...
  local file="$1" text
  text="$(<"$folder/$file")"
  shift
  while (($# > 0)); do
    [[ "$text" == *"$1"* ]] || fail "$file has no line with $1"
    text="${text//"$1"/"$2"}"
    shift 2
  done
  printf '%s\n' "$text" >"$work/$file"
  chmod +x "$work/$file"
}

trains() { # trains WHAT COMMAND...
  local what="$1" output
  shift
  output="$("$@" 2>&1)" || fail "$what: $output"
  [[ "$output" == *"done after 1 steps"* ]] || fail "$what does not end with its step: $output"
  printf '%s\n' "$output" >"$work/output"
}

# Checks that the run of WHAT used what the file says.
expect() { # expect WHAT PART...
  local what="$1"
  shift
  for part in "$@"; do
    grep -qF -- "$part" "$work/output" || fail "$what: expected a part: $part; found: $(<"$work/output")"
  done
}

small=(llama_1b "$work/config.json" seq_len=2048 seq_len=64 batch_size=4 batch_size=1)
export SHARED="$work/shared"

change torchrun.sh "${small[@]}"
trains torchrun.sh "$work/torchrun.sh" --out="$work/shared/torchrun"
expect torchrun.sh "vocabulary 901" "full_shard over 8 ranks" "8 sequences of 64 tokens"
if output="$(NODES=2 "$work/torchrun.sh" 2>&1)"; then fail "torchrun.sh runs on two machines without a secret"; fi
[[ "$output" == *ZEROTH_JOB_SECRET* ]] || fail "torchrun.sh does not ask for a secret: $output"
ZEROTH_JOB_SECRET="$(printf '%064d' 7)" NODES=2 NODE=1 trains "torchrun.sh, two machines" \
  "$work/torchrun.sh" --out="$work/shared/torchrun2"
expect "torchrun.sh, two machines" "hybrid_shard over 16 ranks"

change slurm.sh "${small[@]}"
sbatch() { # sbatch FILE WORDS...: as Slurm tells a job what its #SBATCH lines ask for
  SLURM_NNODES="$(sed -n 's/^#SBATCH --nodes=//p' "$1")" \
    SLURM_NTASKS_PER_NODE="$(sed -n 's/^#SBATCH --ntasks-per-node=//p' "$1")" "$@"
}
trains slurm.sh sbatch "$work/slurm.sh" --out="$work/shared/slurm"
expect slurm.sh "vocabulary 901" "hybrid_shard over 16 ranks" "16 sequences of 64 tokens"
[[ ! -e "$work/scontrol" ]] || fail "slurm.sh queues a finished run again: $(<"$work/scontrol")"
# A run that a signal or its time ended is queued again, and one with an error is not.
sed -i 's/--steps=1 /--steps=${STEPS:-1} /' "$work/bin/run_as"
code=0
output="$(SLURM_JOB_ID=17 STEPS=1000000 sbatch "$work/slurm.sh" --out="$work/shared/slurm2" --max_seconds=1 2>&1)" || code=$?
[[ "$code" == 75 ]] || fail "slurm.sh ends with code $code, expected 75: $output"
[[ "$(<"$work/scontrol")" == "requeue 17" ]] || fail "slurm.sh calls scontrol $(<"$work/scontrol")"
if SLURM_JOB_ID=18 sbatch "$work/slurm.sh" --out="$work/shared/slurm3" --lr=-2 >"$work/output" 2>&1; then
  fail "slurm.sh hides an error: $(<"$work/output")"
fi
[[ "$(<"$work/scontrol")" == "requeue 17" ]] || fail "slurm.sh queues a run with an error again"

# The pod's command, with the ConfigMap's file where the pod has it, and a program that has another name than those of
# other runs here, because the preStop hook signals all of one name.
trainer_name="zeroth-pod-$$"
ln -s -- "$TRAINER" "$work/bin/$trainer_name"
change kubernetes.yaml llama_1b "$work/config.json" 'seq_len = 2048' 'seq_len = 64' 'batch_size = 4' 'batch_size = 1' \
  /shared/ "$SHARED/" /config/ "$work/" /tmp/code "$work/code" zeroth-train "$trainer_name"
# shellcheck disable=SC2016 # for Kubernetes to expand
change_variables=('$(JOB_COMPLETION_INDEX)' 1 '$(JOB_UID)' 0b2c-5a)
yaml="$(<"$work/kubernetes.yaml")"
for ((i = 0; i < ${#change_variables[@]}; i += 2)); do
  [[ "$yaml" == *"${change_variables[i]}"* ]] || fail "kubernetes.yaml does not use ${change_variables[i]}"
  yaml="${yaml//"${change_variables[i]}"/"${change_variables[i + 1]}"}"
done
sed -n '/^  run.toml: |/,/^---/s/^    //p' <<<"$yaml" >"$work/run.toml"
mapfile -t words < <(sed -n '/^ *command:$/,/^ *env:/s/^ *- //p' <<<"$yaml")
for name in JOB_COMPLETION_INDEX JOB_UID ZEROTH_JOB_SECRET; do
  grep -q -- "- name: $name\$" <<<"$yaml" || fail "kubernetes.yaml sets no $name"
done
ZEROTH_JOB_SECRET="$(printf '%064d' 7)"
export ZEROTH_JOB_SECRET
trains kubernetes.yaml "${words[@]}"
expect kubernetes.yaml "vocabulary 901" "hybrid_shard over 16 ranks" "16 sequences of 64 tokens"
# The pod ends with the code of its ranks, which the Job's policy looks at.
code=0
output="$("${words[@]}" --lr=-2 2>&1)" || code=$?
[[ "$code" == 1 ]] || fail "the pod of kubernetes.yaml ends with code $code after an error, expected 1: $output"
pre_stop="$(sed -n 's/^ *command: \[sh, -c, "\(.*\)"\]$/\1/p' <<<"$yaml")"
[[ -n "$pre_stop" ]] || fail "kubernetes.yaml has no preStop hook"
rm "$work/code"
STEPS=1000000 "${words[@]}" --out="$work/shared/pod" >"$work/output" 2>&1 &
pod=$!
while [[ ! -s "$work/shared/pod/metrics.jsonl" ]] && kill -0 "$pod"; do sleep 0.1; done
sh -c "$pre_stop" >>"$work/output"
code=0
wait "$pod" || code=$?
[[ "$code" == 75 ]] || fail "the pod of kubernetes.yaml ends with code $code after its hook, expected 75: $(<"$work/output")"
expect kubernetes.yaml "interrupted after"

for mpirun in mpirun mpirun.mpich; do # of Open MPI, if Debian has both, and of MPICH
  if command -v "$mpirun" >/dev/null; then
    for ranks in 2 "$(($(nproc) + 1))"; do # as many as cores, and more
      trains "mpirun.sh, $mpirun" env MPIRUN="$mpirun" RANKS="$ranks" "$folder/mpirun.sh" --data="$work/text" \
        --seq_len=16 --batch_size=1 --steps=1 --sample_tokens=0 --out="$work/$mpirun$ranks"
      expect "mpirun.sh, $mpirun" "full_shard over $ranks ranks"
    done
  else
    echo "SKIPPED: mpirun.sh: there is no $mpirun here"
  fi
done
