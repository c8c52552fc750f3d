#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Fetches the C++ libraries of Apache Arrow, unless they are there, and prints the folder that has their
# include/ and lib/. Where it cannot it says why on stderr, in one line, and exits with 1: builds then
# leave out parquet and compressed files. Never asks anything.
#
#   fetch_arrow.sh [PROCESSOR]   for programs of another processor (aarch64) than this machine's
#
# arrow.txt says what is fetched, cache.sh where it is kept.
set -euo pipefail

here="$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
probe=include/parquet/arrow/reader.h

fail() {
  printf 'zeroth: builds will leave out parquet and compressed files: %s\n' "$*" >&2
  exit 1
}

# shellcheck source=third_party/cache.sh
source "$here/../cache.sh"
processor="${1:-}"
locate "arrow${processor:+_$processor}" "$here/arrow.txt" "its libraries"
if [[ -e "$folder/$probe" ]]; then
  printf '%s\n' "$folder"
  exit 0
fi
begin "fetching Arrow"
python="${ZEROTH_PYTHON:-$("$here/../python/environment.sh")}" || fail "there is no Python to fetch Arrow with"

printf 'zeroth: fetching the C++ libraries of Apache Arrow into %s\n' "$folder" >&2
make_temporary
{
  "$python" -m pip download --quiet --no-input --disable-pip-version-check --no-deps --retries=1 \
    --only-binary=:all: --implementation=cp --python-version=3.11 --platform="manylinux_2_28_${processor:-$(uname -m)}" \
    --require-hashes --requirement="$here/arrow.txt" --dest="$temporary" &&
    "$python" -m zipfile -e "$temporary"/pyarrow-*.whl "$temporary/package" &&
    mkdir -p "$temporary/kept/lib" &&
    mv "$temporary"/package/pyarrow/lib{arrow,parquet}.so.* "$temporary/kept/lib" &&
    mv "$temporary/package/pyarrow/include" "$temporary"/package/*.dist-info/licenses "$temporary/kept" &&
    [[ -e "$temporary/kept/$probe" ]]
} >"$failure" 2>&1 </dev/null || fail "pip could not fetch Arrow, see $failure"
keep "$temporary/kept" "$probe"
printf '%s\n' "$folder"
