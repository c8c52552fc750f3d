#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Fetches the headers of cudnn-frontend, unless they are there, and prints the folder whose include/
# they lie in. Where it cannot it says why on stderr, in one line, and exits with 1: CUDA builds then
# leave out attention by cuDNN. Never asks anything.
#
# frontend.txt says what is fetched, cache.sh where it is kept.
set -euo pipefail

here="$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
probe=include/cudnn_frontend.h

fail() {
  printf 'zeroth: CUDA builds will leave out attention by cuDNN: %s\n' "$*" >&2
  exit 1
}

# shellcheck source=third_party/cache.sh
source "$here/../cache.sh"
locate cudnn-frontend "$here/frontend.txt" "its headers"
if [[ -e "$folder/$probe" ]]; then
  printf '%s\n' "$folder"
  exit 0
fi
begin "fetching its headers"
python="${ZEROTH_PYTHON:-$("$here/../python/environment.sh")}" || fail "there is no Python to fetch its headers with"

printf 'zeroth: fetching the headers of cudnn-frontend into %s\n' "$folder" >&2
make_temporary
{
  "$python" -m pip download --quiet --no-input --disable-pip-version-check --no-deps --retries=1 \
    --only-binary=:all: --implementation=cp --python-version=3.11 --platform=manylinux_2_28_x86_64 \
    --require-hashes --requirement="$here/frontend.txt" --dest="$temporary" &&
    "$python" -m zipfile -e "$temporary"/nvidia_cudnn_frontend-*.whl "$temporary/package" &&
    mkdir "$temporary/kept" &&
    mv "$temporary/package/include" "$temporary"/package/*.dist-info/licenses "$temporary/kept" &&
    [[ -e "$temporary/kept/$probe" ]]
} >"$failure" 2>&1 </dev/null || fail "pip could not fetch its headers, see $failure"
keep "$temporary/kept" "$probe"
printf '%s\n' "$folder"
