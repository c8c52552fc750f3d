#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# package_test PACKAGES TEXT PACK DISPATCHER PROGRAM INTERPRETER_FILE: installs the wheel and the Debian package, unpacks
# the image, and runs each command once, from folders without the repository and with an environment that says nothing of
# it. Packs PROGRAM alone again. INTERPRETER_FILE names a Python that has auditwheel.
set -euo pipefail
packages="$PWD/$1"
text="$PWD/$2"
pack="$PWD/$3"
dispatcher="$PWD/$4"
packed="$PWD/$5"
python="$(cat "$6")"
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
  local command
  for command in convert evaluate generate inspect plan tokenize; do
    [[ "$(zeroth "$command" --version)" == "Zeroth $version"* ]] || fail "$command --version: $(zeroth "$command" --version)"
  done
  zeroth tokenize --in=text.md --tokenizer=byte --out=tokens.bin || fail tokenize
  zeroth plan --model=gpt2_124m --machine=H100 --world_size=8 --seq_len=512 | grep fits >/dev/null || fail plan
  zeroth train --data=text.md --steps=2 --seq_len=16 --batch_size=1 --world_size=2 --out=run || fail train
  zeroth generate --model=run/final --prompt=The --max_tokens=4 || fail generate
  zeroth evaluate --model=run/final --data=text.md --seq_len=16 || fail evaluate
  zeroth convert --in=run/final --out=model.gguf || fail convert
  zeroth inspect model.gguf | grep embd >/dev/null || fail inspect
  zeroth completion bash | grep -e --strategy= >/dev/null || fail completion
  if [[ "$program" == "$folder/image" ]]; then
    if said="$(zeroth report run 2>&1)"; then fail "the image has report, but no Python"; fi
    [[ "$said" == *"image leaves out report and follow"* ]] || fail "zeroth report in the image says: $said"
  elif python3 -c 'import tomllib' 2>/dev/null; then
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
modes="$(dpkg-deb --contents "$deb" | awk '$6 ~ "^./usr/lib/zeroth/." {print $1, $6 ~ /[.]so[.]?/ ? "library" : "program"}' | sort -u)"
[[ "$modes" == $'-rw-r--r-- library\n-rwxr-xr-x program' ]] || fail "$deb has files of the modes: $modes"
run_each "$folder/deb/usr/bin/zeroth"

# Licences of what is compiled in, of what is bundled, and of what these point to.
licenses="$folder/deb/usr/share/doc/zeroth/copyright"
for words in 'Niels Lohmann' 'Mark Gillard' 'libabsl-dev' 'libhwy-dev' 'libxxhash-dev' 'libgomp1'; do
  grep -q "$words" "$licenses" || fail "$deb says nothing of $words in its copyright"
done
while read -r common; do
  [[ "$(grep -c "^====.* $common\(,\|\$\)" "$licenses")" == 1 ]] || fail "$deb points to $common, but has no text of it"
done < <(grep -o '/usr/share/common-licenses/[A-Za-z0-9.+-]*[A-Za-z0-9]' "$licenses" | sort -u)

python3 -m venv "$folder/venv" || fail "python3 cannot make an environment"
"$folder/venv/bin/pip" install --quiet --no-index --disable-pip-version-check "$wheel" || fail "pip cannot install $wheel"
run_each "$folder/venv/bin/zeroth"
[[ "$(cd / && "$folder/venv/bin/python" -m zeroth --version)" == "Zeroth $version"* ]] || fail "python -m zeroth"
# -X importtime ends with the module that was asked for: microseconds of its own | with what it imports | its name
took="$(cd / && "$folder/venv/bin/python" -X importtime -c 'import zeroth' 2>&1 | tail -n 1)"
[[ "$took" =~ \|\ *([0-9]+)\ \|\ zeroth$ ]] || fail "python -X importtime prints: $took"
echo "import zeroth takes ${BASH_REMATCH[1]} microseconds"

# The name promises which systems can run the wheel, by the versions of glibc and of libstdc++.
cmp "$folder"/venv/lib/python*/site-packages/zeroth-*.dist-info/LICENSE "$licenses" || fail "$wheel and $deb have different licences"
platform="${wheel##*-}"
platform="${platform%.whl}"
if [[ -n "$python" ]] && "$python" -c 'import auditwheel' 2>/dev/null; then
  said="$("$python" -m auditwheel show "$wheel" 2>&1)" || fail "$said"
  [[ "$(tr -s '[:space:]' ' ' <<<"$said")" == *"following platform tag: \"$platform\""* ]] || fail "$wheel: $said"
else
  echo "SKIPPED: there is no auditwheel"
fi

# Runs the image as a container's runtime does: in a root folder that has only the image's files, without network, with the
# arguments, environment and folder that umoci reads from the image, and with this folder mounted at /work.
image="$(echo "$packages"/*.oci.tar)"
if ! command -v umoci >/dev/null; then
  echo "SKIPPED: there is no umoci"
elif ! said="$(unshare --user --map-root-user --mount --net mount -t tmpfs tmpfs /tmp 2>&1)"; then
  echo "SKIPPED: namespaces cannot be made here: $said"
else
  mkdir "$folder/layout"
  tar --extract --file="$image" --directory="$folder/layout"
  umoci unpack --rootless --image="$folder/layout:$version" "$folder/bundle" || fail "umoci cannot unpack $image"
  python3 -c '
import json, sys
process = json.load(open(sys.argv[1] + "/config.json"))["process"]
for name, lines in (("env", process["env"]), ("cwd", [process["cwd"]]), ("args", process["args"])):
    open(sys.argv[1] + "/" + name, "w").write("".join(line + "\n" for line in lines))' "$folder/bundle"
  cat >"$folder/image" <<'END'
#!/usr/bin/env bash
bundle="$(dirname -- "$0")/bundle"
mapfile -t env <"$bundle/env"
mapfile -t args <"$bundle/args"
exec unshare --user --map-root-user --mount --net bash -euc '
  mount --bind . "$1/work"
  for name in dev proc; do mount --rbind "/$name" "$1/$name"; done
  shift
  exec "$@"' enter "$bundle/rootfs" env -i "${env[@]}" unshare --root="$bundle/rootfs" --wd="$(<"$bundle/cwd")" \
  "${args[@]}" "$@"
END
  chmod +x "$folder/image"
  run_each "$folder/image"
fi
if command -v skopeo >/dev/null; then
  said="$(skopeo --tmpdir="$folder" inspect --config "oci-archive:$image")" || fail "skopeo cannot read $image"
  [[ "$(tr -d '[:space:]' <<<"$said")" == *'"Entrypoint":["zeroth"]'* ]] || fail "skopeo says of $image: $said"
else
  echo "SKIPPED: there is no skopeo"
fi

# The same bytes, whatever the umask, the folder and the words of this machine.
pack_again() { # pack_again UMASK FOLDER LANGUAGE
  mkdir -p "$folder/$2"
  (umask "$1" && cd "$folder/$2" && TMPDIR="$folder/$2" LC_ALL="$3" python3 -B "$pack" packed "$version" "$dispatcher" \
    "$text" inspect="$packed") || fail "package.py cannot pack $packed"
  (cd "$folder/$2/packed" && sha256sum -- *)
}
expected="$(pack_again 022 one C)"
[[ "$(wc -l <<<"$expected")" == 3 ]] || fail "package.py wrote: $expected"
[[ "$(pack_again 077 another/folder C.UTF-8)" == "$expected" ]] || fail "package.py does not write the same bytes twice"
