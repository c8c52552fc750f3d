#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# package_test PACKAGES TEXT: installs the wheel and the Debian package, and runs each command once, from folders
# without the repository and with an environment that says nothing of it.
set -euo pipefail
packages="$PWD/$1"
text="$PWD/$2"
folder="$(mktemp -d "${TEST_TMPDIR:-/tmp}/packages.XXXXXX")"

fail() {
  printf 'FAILED: %s\n' "$@" >&2
  exit 1
}

run_each() { # run_each ZEROTH
  local here
  here="$(mktemp -d "$folder/here.XXXXXX")"
  head -c 2000 "$text" >"$here/text.md"
  cd "$here"
  zeroth() { env -i PATH=/usr/bin:/bin HOME="$here" "$program" "$@"; }
  local program="$1"
  [[ "$(zeroth --version)" == "Zeroth $version, commit "* ]] || fail "$program --version: $(zeroth --version)"
  zeroth tokenize --in=text.md --tokenizer=byte --out=tokens.bin || fail tokenize
  zeroth plan --model=gpt2_124m --machine=H100 --world_size=8 --seq_len=512 | grep fits >/dev/null || fail plan
  zeroth train --data=text.md --steps=2 --seq_len=16 --batch_size=1 --world_size=2 --out=run || fail train
  zeroth generate --model=run/final --prompt=The --max_tokens=4 || fail generate
  zeroth evaluate --model=run/final --data=text.md --seq_len=16 || fail evaluate
  zeroth convert --in=run/final --out=model.gguf || fail convert
  zeroth inspect model.gguf | grep embd >/dev/null || fail inspect
  zeroth completion bash | grep -e --strategy= >/dev/null || fail completion
  if python3 -c 'import tomllib' 2>/dev/null; then
    zeroth report run || fail report
    zeroth follow run --help | grep mlflow >/dev/null || fail follow
  fi
  cd - >/dev/null
}

wheel="$(echo "$packages"/*.whl)"
deb="$(echo "$packages"/*.deb)"
version="$(sed 's/.*zeroth-\([^-]*\)-.*/\1/' <<<"$wheel")"
ls -l "$packages"

# Nothing is found where it was built: every library is the system's or lies beside the programs.
dpkg-deb -x "$deb" "$folder/deb" 2>/dev/null || fail "dpkg-deb cannot unpack $deb"
for file in "$folder"/deb/usr/lib/zeroth/*; do
  readelf -h "$file" >/dev/null 2>&1 || continue
  while read -r name path; do
    [[ "$path" == "$folder/"* || "$name" =~ ^(libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s)\.so ]] ||
      fail "$file finds $name at $path"
  done < <(ldd "$file" | sed -n 's/^\s*\(\S*\) => \(.*\)/\1 \2/p')
  if readelf -S "$file" | grep -q ' \.symtab '; then fail "$file has its symbols"; fi
done
dpkg-deb --field "$deb" Depends | grep -q 'libc6 (>= 2\.' || fail "$deb does not say which libc6 it needs"
[[ "$(dpkg-deb --contents "$deb" | awk '{print $2}' | sort -u)" == root/root ]] || fail "$deb has files of others"
run_each "$folder/deb/usr/bin/zeroth"

python3 -m venv "$folder/venv" || fail "python3 cannot make an environment"
"$folder/venv/bin/pip" install --quiet --no-index --disable-pip-version-check "$wheel" || fail "pip cannot install $wheel"
run_each "$folder/venv/bin/zeroth"
[[ "$(cd / && "$folder/venv/bin/python" -m zeroth --version)" == "Zeroth $version"* ]] || fail "python -m zeroth"

# The wheel's name promises a glibc, which is where it is found out whether it is too old.
if command -v auditwheel >/dev/null; then
  said="$(auditwheel show "$wheel" 2>&1)" || fail "$said"
  [[ "$said" == *"manylinux_"* ]] || fail "$said"
else
  echo "SKIPPED: there is no auditwheel"
fi
