#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Makes the Python environment that //tests/interop reads and writes files with, unless there is one,
# and prints its interpreter's path. Where it cannot it says why on stderr, in one line, and exits with
# 1: those tests are skipped then, and everything else works. Never asks anything.
#
# requirements.txt says what is installed, cache.sh where it is kept.
set -euo pipefail

here="$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"

fail() {
  printf 'zeroth: the tests against Python packages will be skipped: %s\n' "$*" >&2
  exit 1
}

# shellcheck source=third_party/cache.sh
source "$here/../cache.sh"
locate python "$here/requirements.txt" "them"
interpreter="$folder/bin/python"
if [[ -x "$interpreter" ]]; then
  printf '%s\n' "$interpreter"
  exit 0
fi
begin "installing them"
can_make_environments() { python3 -c 'import ensurepip, venv' >/dev/null 2>&1; }
if ! can_make_environments; then
  as_root=()
  if [[ "$(id -u)" != 0 ]]; then as_root=(sudo -n); fi
  by_hand="this machine lacks python3-venv; as root, run: apt-get install python3-venv"
  command -v apt-get >/dev/null || fail "this machine lacks Python 3 with the modules venv and ensurepip"
  install() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
      -o DPkg::Lock::Timeout=300 python3-venv </dev/null
  }
  install >"$failure" 2>&1 || { "${as_root[@]}" apt-get update && install; } >"$failure" 2>&1 ||
    fail "$by_hand"
  can_make_environments || fail "$by_hand"
fi

printf 'zeroth: installing the Python packages that tests read our files with, in %s\n' "$folder" >&2
make_temporary
{
  python3 -m venv --clear "$temporary" &&
    "$temporary/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --no-deps \
      --only-binary=:all: --retries=1 --require-hashes --requirement="$here/requirements.txt" &&
    "$temporary/bin/python" -c 'import auditwheel.main, gguf, numpy, safetensors.numpy, tensorboard.backend.event_processing.event_accumulator, tokenizers'
} >"$failure" 2>&1 </dev/null || fail "pip could not install them, see $failure"
# Only the interpreter is used, which finds its packages from where it lies.
keep "$temporary" bin/python
printf '%s\n' "$interpreter"
