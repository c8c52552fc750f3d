# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Sourced by scripts that make a folder once and keep it, after they define fail(), which prints its
# arguments and exits. The folder lies in ${XDG_CACHE_HOME:-$HOME/.cache}/zeroth, under a name with the
# checksum of the file that lists its contents: other contents get another folder, and clones of the
# same version share one.

# Without a network every attempt takes a while, so a failed one is repeated after this many minutes.
readonly retry_minutes=60

locate() { # locate NAME CONTENTS WHAT: sets `folder`, and `failure`, the log of a failed attempt
  [[ -n "${XDG_CACHE_HOME:-${HOME:-}}" ]] || fail "neither XDG_CACHE_HOME nor HOME says where to keep $3"
  local checksum
  checksum="$(sha256sum <"$2")"
  folder="${XDG_CACHE_HOME:-$HOME/.cache}/zeroth/$1-${checksum:0:16}"
  failure="$folder.failed"
}

begin() { # begin ATTEMPT: ends the script where the attempt failed lately
  if [[ -n "$(find "$failure" -mmin "-$retry_minutes" 2>/dev/null)" ]]; then
    fail "$1 failed less than $retry_minutes minutes ago, see $failure; remove it to try again"
  fi
  mkdir -p "$(dirname -- "$folder")" || fail "cannot create $(dirname -- "$folder")"
}

make_temporary() { # sets `temporary`, which goes when the script ends
  # Made under another name: another clone may be at it too, and half a folder must not be found.
  temporary="$(mktemp -d "$folder.XXXXXX")"
  trap 'rm -rf "$temporary"' EXIT
}

keep() { # keep MADE PROBE: renames it to `folder`, unless another clone was first
  rm -f "$failure"
  mv -T "$1" "$folder" 2>/dev/null || [[ -e "$folder/$2" ]] || fail "cannot rename $1 to $folder"
}
