#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Fetches what programs for aarch64 Linux are compiled and linked with, unless it is there, and prints the folder that
# holds it: Debian's packages for arm64 of the libraries in packages.txt, unpacked. The cross compiler takes the folder as
# its --sysroot, and qemu-aarch64 as its -L. Installs nothing: packages for two architectures exclude each other where
# their headers differ, and unpacking needs no root. Where it cannot it says why on stderr and exits with 1. Never asks
# anything.
#
# ../packages.txt says which libraries, ../cache.sh where the folder is kept.
set -euo pipefail

here="$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
probe=usr/lib/aarch64-linux-gnu/libdnnl.so

fail() {
  printf 'zeroth: no build for aarch64: %s\n' "$*" >&2
  exit 1
}

# shellcheck source=third_party/cache.sh
source "$here/../cache.sh"
locate aarch64 "$here/../packages.txt" "its libraries"
if [[ -e "$folder/$probe" ]]; then
  printf '%s\n' "$folder"
  exit 0
fi
command -v apt-get >/dev/null || fail "its libraries are Debian's packages, and there is no apt-get here"
begin "fetching its libraries"

mapfile -t libraries < <(sed '/^#/d; s/|.*//' "$here/../packages.txt" | grep -- '-dev$')

printf 'zeroth: fetching the libraries of Debian for arm64 into %s\n' "$folder" >&2
make_temporary
# Lists and state of their own, in which no package is installed: so apt-get also finds the C library and all others.
apt_get() {
  apt-get -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User="$(id -un)" \
    -o Dir::State="$temporary/apt" -o Dir::State::status="$temporary/apt/status" -o Dir::Cache="$temporary/apt" \
    -o Acquire::Retries=1 -q -y "$@"
}
unpack() {
  local package
  for package in "$temporary"/apt/archives/*.deb; do dpkg-deb --extract "$package" "$temporary/root" || return 1; done
}
{
  mkdir -p "$temporary"/apt/{lists,archives}/partial "$temporary/root" && touch "$temporary/apt/status" &&
    apt_get update &&
    apt_get install --no-install-recommends --download-only libc6-dev "${libraries[@]}" &&
    unpack && [[ -e "$temporary/root/$probe" ]]
} >"$failure" 2>&1 </dev/null || fail "apt-get could not fetch its libraries, see $failure"
keep "$temporary/root" "$probe"
printf '%s\n' "$folder"
