#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Fetches what programs for aarch64 Linux are compiled, linked, packed and tried with, unless it is there, and prints the
# folder that holds it: Debian's packages for arm64 of the libraries in packages.txt and of the programs below, unpacked,
# with dpkg's database of them. The cross compiler takes the folder as its --sysroot, qemu-aarch64 as its -L, and
# tools/package as the system whose libraries it packs. Installs nothing: packages for two architectures exclude each other where
# their headers differ, and unpacking needs no root. Where it cannot it says why on stderr and exits with 1. Never asks
# anything.
#
# ../packages.txt says which libraries, ../cache.sh where the folder is kept.
set -euo pipefail

here="$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)"
probe=var/lib/dpkg/status
# Those that bin/zeroth of the packages calls, and Python for the wheel.
programs=(coreutils dash python3 sed)

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
  local database="$temporary/root/var/lib/dpkg" package name
  mkdir -p "$database/info" "$database/updates"
  echo 1 >"$database/info/format" # which names files by architecture
  # dpkg calls the architecture of its own program native, so it knows arm64 as a foreign one.
  printf '%s\n' "$(dpkg --print-architecture)" arm64 >"$database/arch"
  for package in "$temporary"/apt/archives/*.deb; do
    name="$(dpkg-deb --field "$package" Package)"
    # A Multi-Arch: same package has its architecture in the names of dpkg's files.
    if [[ "$(dpkg-deb --field "$package" Multi-Arch)" == same ]]; then name+=:arm64; fi
    dpkg-deb --extract "$package" "$temporary/root" &&
      dpkg-deb --fsys-tarfile "$package" | tar -t | sed 's/^\.//; s,/$,,; s,^$,/.,' >"$database/info/$name.list" &&
      { printf 'Status: install ok installed\n' && dpkg-deb --field "$package" && echo; } >>"$database/status" || return 1
  done
  # The package's script makes the link.
  [[ -e "$temporary/root/bin/sh" ]] || ln -s dash "$temporary/root/bin/sh"
}
{
  mkdir -p "$temporary"/apt/{lists,archives}/partial "$temporary/root" && touch "$temporary/apt/status" &&
    apt_get update &&
    apt_get install --no-install-recommends --download-only libc6-dev "${libraries[@]}" "${programs[@]}" &&
    unpack && [[ -e "$temporary/root/$probe" ]]
} >"$failure" 2>&1 </dev/null || fail "apt-get could not fetch its libraries, see $failure"
# Older versions of this script made a folder of this name without the database.
if [[ ! -e "$folder/$probe" ]]; then rm -rf "$folder"; fi
keep "$temporary/root" "$probe"
printf '%s\n' "$folder"
