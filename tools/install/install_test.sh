#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# install_test INSTALL NAME=PROGRAM...: what is installed runs, alone, with its page and completion.
set -euo pipefail
install="$1"
shift
prefix="$(mktemp -d "${TEST_TMPDIR:-/tmp}/prefix.XXXXXX")"

fail() {
  printf 'FAILED: %s\n' "$@" >&2
  exit 1
}

"$install" "$@" --prefix="$prefix"
for program in "$@"; do
  name="zeroth-${program%%=*}"
  help="$(cd / && "$prefix/bin/$name" --help || true)"
  [[ "$help" == *--* && "$help" != *"No flags matched"* ]] || fail "$name --help printed: $help"
  # Arrow's libraries are where the installed program finds them on a machine that never built it.
  for library in $(ldd "$prefix/bin/$name" | sed -n 's/^\s*\(lib\(arrow\|parquet\)\.so[^ ]*\) .*/\1/p'); do
    [[ -e "$prefix/lib/zeroth/$library" ]] || fail "$library of $name was not installed"
  done
  if readelf -S "$prefix/bin/$name" | grep -q ' \.symtab '; then fail "$name has its symbols"; fi
  grep -q '^\.TH ZEROTH-' "$prefix/share/man/man1/$name.1" || fail "$name has no manual page"
  if command -v man >/dev/null; then
    man -l "$prefix/share/man/man1/$name.1" | grep -q -- "$name" || fail "man cannot show $name"
  fi
done

# Completion, as Bash would do it.
# shellcheck disable=SC1091  # Made by the script under test.
source "$prefix/share/bash-completion/completions/zeroth-train"
words="$(complete -p zeroth-train | sed 's/.*-W .\([^'"'"']*\).*/\1/')"
mapfile -t found < <(compgen -W "$words" -- --strat)
[[ "${found[*]}" == "--strategy=" ]] || fail "--strat completes to '${found[*]}'"

# Relative to where the user stands; over what is there.
BUILD_WORKING_DIRECTORY="$prefix" "$install" "$1" --prefix=again >/dev/null
BUILD_WORKING_DIRECTORY="$prefix" "$install" "$1" --prefix=again >/dev/null
[[ -x "$prefix/again/bin/zeroth-${1%%=*}" ]] || fail "a relative prefix"

if message="$("$install" "$@" 2>&1)"; then fail "no prefix was accepted"; fi
[[ "$message" == *"--prefix=/usr/local"* ]] || fail "$message"
if message="$("$install" "$@" --prefx=/tmp 2>&1)"; then fail "a wrong flag was accepted"; fi
[[ "$message" == *"there is no flag '--prefx=/tmp'"* ]] || fail "$message"
if message="$("$install" "$@" --prefix=/proc/nowhere 2>&1)"; then fail "installed in /proc"; fi
[[ "$message" == *"choose another --prefix"* ]] || fail "$message"
