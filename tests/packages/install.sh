#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# install.sh deb|wheel|wheels|torch [processors]: installs one package on a Debian on which nothing is installed, and trains
# with it. `wheels` are the wheel and the one for NVIDIA GPUs, with NVIDIA's libraries from PyPI. Run by clean_roots.py in a
# folder with the packages and README.md. Prints a line "MEASURED NAME=NUMBER...": seconds from nothing until it is installed,
# until the first step, and until the run is done; MB on disk.
# With `processors` it then trains for a few steps as on older processors; each output follows a line "PROCESSOR NAME".
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
files="$PWD"

die() {
  echo "FAILED: $*"
  exit 1
}

for compiler in cc c++ gcc g++ clang bazel; do
  if command -v "$compiler"; then die "a clean system has no compiler"; fi
done
megabytes() { du -smx --exclude="$files" --exclude=/var/cache --exclude=/var/lib/apt --exclude=/root / 2>/dev/null | cut -f 1; }
before="$(megabytes)"
begin="$EPOCHREALTIME"
# EPOCHREALTIME has six decimals; the locale's decimal point.
seconds() { printf '%d.%d' $(((${EPOCHREALTIME/./} - ${begin/./}) / 1000000)) $(((${EPOCHREALTIME/./} - ${begin/./}) / 100000 % 10)); }

apt() { apt-get install -y -qq "$@" >/tmp/apt.log 2>&1 || { cat /tmp/apt.log && die "apt-get install $*"; }; }

apt-get update -qq
mkdir /tmp/run
case "$1" in
  deb)
    apt ./zeroth_*.deb
    programs=/usr/lib/zeroth
    ;;
  wheel | wheels | torch)
    apt --no-install-recommends python3-venv
    python3 -m venv /opt/venv
    export PATH="/opt/venv/bin:$PATH"
    case "$1" in
      wheel) what=("$files"/zeroth-*.whl) ;;
      wheels) what=("$files"/zeroth*.whl) ;;
      *) what=("$1") ;;
    esac
    pip install --quiet --no-cache-dir --disable-pip-version-check "${what[@]}" || die "pip install ${what[*]}"
    programs="$(echo /opt/venv/lib/python3*/site-packages/zeroth/lib/zeroth)"
    ;;
esac
installed="$(seconds)"

cd /tmp/run # without the packages
cp "$files/README.md" .
if [[ "$1" == torch ]]; then
  python -c '
import torch
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(1, 8)).sum().backward()
optimizer.step()
print("torch", torch.__version__)'
  first="$(seconds)"
else
  first='' last=''
  while read -r line; do
    echo "$line"
    last="$line"
    if [[ -z "$first" && "$line" == "step 1/"* ]]; then first="$(seconds)"; fi
  done < <(zeroth train --data=README.md --log_every=1 || echo "exit code $?")
  [[ "$last" == "done after "* ]] || die "the run ended with: $last"
  [[ -n "$first" ]] || die "the run printed no first step"
fi
echo "MEASURED installed=$installed first_step=$first done=$(seconds) megabytes=$(($(megabytes) - before))"

if [[ "${2:-}" == processors ]]; then
  apt --no-install-recommends qemu-user
  # This machine's own, one with AVX2 and no AVX-512, and the first with SSE4.2, which Arrow's libraries need. The dispatcher
  # is a script, which would start the program on this processor again.
  for processor in native Haswell Nehalem; do
    emulator=()
    if [[ "$processor" != native ]]; then emulator=(qemu-x86_64 -cpu "$processor"); fi
    echo "PROCESSOR $processor"
    "${emulator[@]}" "$programs/train" --version 2>/tmp/warnings || { cat /tmp/warnings && die "--version on $processor"; }
    "${emulator[@]}" "$programs/train" --data=README.md --steps=3 --log_every=1 --seq_len=32 --batch_size=2 --sample_tokens=0 \
      --world_size=1 --out="$processor" 2>/tmp/warnings || { cat /tmp/warnings && die "train on $processor"; }
  done
fi
