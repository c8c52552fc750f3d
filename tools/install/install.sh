#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Installs the programs outside the build tree: stripped, as PREFIX/bin/zeroth-NAME, each with a manual
# page and completion of its flags in Bash, both made from its own --help.
#
#   ./bazelw run //tools/install -- --prefix=/usr/local
#
# Bazel passes NAME=PROGRAM for each program before the user's arguments.
set -euo pipefail

die() {
  printf 'install: %s\n' "$@" >&2
  exit 1
}

prefix=''
programs=()
for word in "$@"; do
  case "$word" in
    --prefix=?*) prefix="${word#--prefix=}" ;;
    -*) die "there is no flag '$word'; expected --prefix=DIRECTORY" ;;
    *=*) programs+=("$word") ;;
    *) die "unexpected argument '$word'; expected --prefix=DIRECTORY" ;;
  esac
done
[[ -n "$prefix" ]] || die "--prefix is missing: expected --prefix=DIRECTORY, as in --prefix=/usr/local"
# Bazel runs programs in another directory; a relative path means the user's directory.
[[ "$prefix" == /* ]] || prefix="${BUILD_WORKING_DIRECTORY:-$PWD}/$prefix"

bin="$prefix/bin"
man="$prefix/share/man/man1"
completions="$prefix/share/bash-completion/completions"
mkdir -p -- "$bin" "$man" "$completions" || die "cannot make directories in $prefix; choose another --prefix, or become root"

for program in "${programs[@]}"; do
  name="zeroth-${program%%=*}"
  built="${program#*=}"
  # Replaced atomically, so that a running program keeps its file.
  strip -o "$bin/.$name" -- "$built"
  chmod 755 "$bin/.$name"
  mv -f -- "$bin/.$name" "$bin/$name"

  # Arrow's libraries are not the system's; programs look for them here, too (third_party/arrow).
  while read -r library; do
    mkdir -p -- "$prefix/lib/zeroth"
    [[ -e "$prefix/lib/zeroth/${library##*/}" ]] || cp -L -- "$library" "$prefix/lib/zeroth"
  done < <(ldd "$built" | sed -n 's,.* => \(/.*/lib\(arrow\|parquet\)\.so[^ ]*\) .*,\1,p')

  help="$("$bin/$name" --help || true)"
  [[ -n "$help" ]] || die "$name --help printed nothing"
  {
    printf '.TH %s 1 "" Zeroth\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n[\\fIFLAGS\\fR]\n.SH DESCRIPTION\n.nf\n' \
      "${name^^}" "$name" "$(sed -n "1s/^$name: //;1s/\\\\/\\\\e/g;1p" <<<"$help")" "$name"
    # A line that begins with a dot or a quote would be a command.
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/" <<<"$help"
    printf '.fi\n'
  } >"$man/$name.1"
  {
    printf 'complete -o nospace -o default -W "'
    sed -n 's/^ *--\([a-z0-9_]*\).*/--\1=/p' <<<"$help" | sort -u | tr '\n' ' '
    printf '" %s\n' "$name"
  } >"$completions/$name"
done
echo "Installed ${#programs[@]} programs in $bin: ${programs[*]/%=*/}, each behind zeroth-."
