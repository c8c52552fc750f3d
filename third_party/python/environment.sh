#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Makes the Python environment that //tests/interop reads and writes files with, unless there is one,
# and prints its interpreter's path. Where it cannot it says why on stderr, in one line, and exits with
# 1: those tests are skipped then, and everything else works. Never asks anything.
#
# The environment lies in ${XDG_CACHE_HOME:-$HOME/.cache}/zeroth, under a name made of the requirements'
# checksum: other versions are another environment, and clones of the same version share one.
set -euo pipefail

folder="$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
requirements="$folder/requirements.txt"
# Without a network every attempt costs a while; one that failed is repeated after so many minutes.
readonly retry_minutes=60

fail() {
  printf 'zeroth: the tests against Python packages will be skipped: %s\n' "$*" >&2
  exit 1
}

[[ -n "${XDG_CACHE_HOME:-${HOME:-}}" ]] || fail "neither XDG_CACHE_HOME nor HOME says where to keep them"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/zeroth"
checksum="$(sha256sum <"$requirements")"
environment="$cache/python-${checksum:0:16}"
interpreter="$environment/bin/python"
failure="$environment.failed"

if [[ -x "$interpreter" ]]; then
  printf '%s\n' "$interpreter"
  exit 0
fi
if [[ -n "$(find "$failure" -mmin "-$retry_minutes" 2>/dev/null)" ]]; then
  fail "installing them failed less than $retry_minutes minutes ago, see $failure; remove it to try again"
fi

mkdir -p "$cache" || fail "cannot create $cache"
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

printf 'zeroth: installing the Python packages that tests read our files with, in %s\n' "$environment" >&2
# Made under another name: another clone may be at it too, and half an environment must not be found.
temporary="$(mktemp -d "$environment.XXXXXX")"
trap 'rm -rf "$temporary"' EXIT
{
  python3 -m venv --clear "$temporary" &&
    "$temporary/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --no-deps \
      --only-binary=:all: --retries=1 --require-hashes --requirement="$requirements" &&
    "$temporary/bin/python" -c 'import gguf, numpy, safetensors.numpy'
} >"$failure" 2>&1 </dev/null || fail "pip could not install them, see $failure"
rm -f "$failure"
# Only the interpreter is used, which finds its packages from where it lies.
mv -T "$temporary" "$environment" 2>/dev/null || [[ -x "$interpreter" ]] ||
  fail "cannot rename $temporary to $environment"
printf '%s\n' "$interpreter"
