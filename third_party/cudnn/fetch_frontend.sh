#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Fetches the headers of cudnn-frontend, unless they are there, and prints the folder whose include/
# they lie in. Where it cannot it says why on stderr, in one line, and exits with 1: CUDA builds then
# leave out attention by cuDNN. Never asks anything.
#
# The folder is in ${XDG_CACHE_HOME:-$HOME/.cache}/zeroth, under a name made of the checksum of
# frontend.txt, which says what is fetched.
set -euo pipefail

here="$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
# Without a network every attempt costs a while; one that failed is repeated after so many minutes.
readonly retry_minutes=60

fail() {
  printf 'zeroth: CUDA builds will leave out attention by cuDNN: %s\n' "$*" >&2
  exit 1
}

[[ -n "${XDG_CACHE_HOME:-${HOME:-}}" ]] || fail "neither XDG_CACHE_HOME nor HOME says where to keep its headers"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/zeroth"
checksum="$(sha256sum <"$here/frontend.txt")"
frontend="$cache/cudnn-frontend-${checksum:0:16}"
failure="$frontend.failed"

if [[ -e "$frontend/include/cudnn_frontend.h" ]]; then
  printf '%s\n' "$frontend"
  exit 0
fi
if [[ -n "$(find "$failure" -mmin "-$retry_minutes" 2>/dev/null)" ]]; then
  fail "fetching its headers failed less than $retry_minutes minutes ago, see $failure; remove it to try again"
fi
mkdir -p "$cache" || fail "cannot create $cache"
python="${ZEROTH_PYTHON:-$("$here/../python/environment.sh")}" || fail "there is no Python to fetch its headers with"

printf 'zeroth: fetching the headers of cudnn-frontend into %s\n' "$frontend" >&2
# Made under another name: another clone may be at it too, and half a folder must not be found.
temporary="$(mktemp -d "$frontend.XXXXXX")"
trap 'rm -rf "$temporary"' EXIT
{
  "$python" -m pip download --quiet --no-input --disable-pip-version-check --no-deps --retries=1 \
    --only-binary=:all: --implementation=cp --python-version=3.11 --platform=manylinux_2_28_x86_64 \
    --require-hashes --requirement="$here/frontend.txt" --dest="$temporary" &&
    "$python" -m zipfile -e "$temporary"/nvidia_cudnn_frontend-*.whl "$temporary/package" &&
    mkdir "$temporary/kept" &&
    mv "$temporary/package/include" "$temporary"/package/*.dist-info/licenses "$temporary/kept" &&
    [[ -e "$temporary/kept/include/cudnn_frontend.h" ]]
} >"$failure" 2>&1 </dev/null || fail "pip could not fetch its headers, see $failure"
rm -f "$failure"
mv -T "$temporary/kept" "$frontend" 2>/dev/null || [[ -e "$frontend/include/cudnn_frontend.h" ]] ||
  fail "cannot rename $temporary/kept to $frontend"
printf '%s\n' "$frontend"
