#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Runs bazelw on a fake machine: a PATH with only the programs of a case.
# shellcheck disable=SC2016  # The bodies of fakes expand when they run.
set -euo pipefail

readonly source_dir="$PWD"
all="bazel-bootstrap $(sed '/^#/d; s/|.*//' third_party/packages.txt | tr '\n' ' ')"
readonly all
failures=0

# A fresh fake machine in $machine: everything installed, root, Bazel 4.
new_machine() {
  machine="$(mktemp -d "${TEST_TMPDIR:-/tmp}/machine.XXXXXX")"
  mkdir -p "$machine/bin" "$machine/tree/bazel" "$machine/tree/core/base" "$machine/elsewhere" \
    "$machine/tree/third_party/python" "$machine/tree/third_party/arrow" "$machine/tree/third_party/aarch64"
  cp "$source_dir/bazelw" "$machine/tree/bazelw"
  cp "$source_dir"/third_party/python/{environment.sh,requirements.txt} "$machine/tree/third_party/python"
  cp "$source_dir"/third_party/arrow/{fetch_arrow.sh,arrow.txt} "$machine/tree/third_party/arrow"
  cp "$source_dir/third_party/aarch64/fetch_sysroot.sh" "$machine/tree/third_party/aarch64"
  cp "$source_dir"/third_party/{cache.sh,packages.txt} "$machine/tree/third_party"
  touch "$machine/tree/WORKSPACE"
  # shellcheck disable=SC2086  # One name a line.
  printf '%s\n' $all >"$machine/installed"
  : >"$machine/calls"
  local tool
  for tool in bash env cat cut sed dirname mktemp rm grep sha256sum find mkdir mv touch; do
    ln -s "$(command -v "$tool")" "$machine/bin/$tool"
  done
  python="$machine/cache/zeroth/python-$(sha256sum "$source_dir/third_party/python/requirements.txt" | cut -c 1-16)/bin/python"
  fake python3 '
    echo "python3 $*" >>"$machine/calls"
    if [ -e "$machine/no_venv" ] && [ ! -e "$machine/updated" ]; then exit 1; fi
    if [ "$1" = -m ]; then mkdir -p "$4/bin"; cp "$machine/bin/fake_python" "$4/bin/python"; fi'
  fake fake_python '
    if [ "$1" = -m ] && [ -e "$machine/no_network" ]; then echo "no route to host"; exit 1; fi'
  ln -s "$(command -v cp)" "$machine/bin/cp"
  mkdir -p "$(dirname "$python")"
  cp "$machine/bin/fake_python" "$python"
  arrow="$machine/cache/zeroth/arrow-$(sha256sum "$source_dir/third_party/arrow/arrow.txt" | cut -c 1-16)"
  mkdir -p "$arrow/include/parquet/arrow"
  touch "$arrow/include/parquet/arrow/reader.h"
  # The libraries for aarch64.
  sysroot="$machine/cache/zeroth/aarch64-$(sha256sum "$source_dir/third_party/packages.txt" | cut -c 1-16)"
  mkdir -p "$sysroot/var/lib/dpkg"
  touch "$sysroot/var/lib/dpkg/status"
  fake id 'echo 0'
  fake dpkg-query '
    code=0
    for word in "$@"; do
      case "$word" in -*|*\$*) continue ;; esac
      if grep -qx -- "$word" "$machine/installed"; then echo "installed $word"; else code=1; fi
    done
    exit $code'
  fake apt-get '
    echo "apt-get $*" >>"$machine/calls"
    if [ "$1" = update ]; then : >"$machine/updated"; exit 0; fi
    if [ -e "$machine/stale" ] && [ ! -e "$machine/updated" ]; then echo "E: 404"; exit 100; fi
    if [ -e "$machine/broken" ]; then echo "E: Unable to locate package"; exit 100; fi
    for word in "$@"; do
      case "$word" in install|-*|DPkg*) ;; *) echo "$word" >>"$machine/installed" ;; esac
    done'
  fake mpirun 'exit 0'
  fake_bazel bazel no_version
}

# fake NAME BODY: a program of the fake machine.
fake() {
  printf '#!/usr/bin/env bash\nmachine=%q\n%s\n' "$machine" "$2" >"$machine/bin/$1"
  chmod +x "$machine/bin/$1"
}

fake_bazel() {
  fake "$1" '
    if [ "$*" = --version ]; then echo "bazel '"$2"'"; exit 0; fi
    echo "${ZEROTH_PYTHON:-none}" >"$machine/python_of_tests"
    echo "${ARROW_HOME:-none}" >"$machine/arrow_of_builds"
    echo "${ZEROTH_SYSROOT:-none}" >"$machine/sysroot_of_builds"
    printf "%s" "'"$1"' in $PWD:" >>"$machine/calls"
    printf " [%s]" "$@" >>"$machine/calls"
    echo >>"$machine/calls"
    exit 3'
}

lack() {
  local package
  for package in "$@"; do sed -i "/^$package\$/d" "$machine/installed"; done
}

# Runs bazelw from a folder of the fake machine; leaves $code, $out (stdout and stderr), $calls.
run() {
  local folder="$1"
  shift
  : >"$machine/calls"
  code=0
  out="$(cd "$machine/$folder" && PATH="$machine/bin" XDG_CACHE_HOME="$machine/cache" \
    "$machine/tree/bazelw" "$@" 2>&1)" || code=$?
  calls="$(cat "$machine/calls")"
}

expect() { # expect WHAT ACTUAL EXPECTED
  if [[ "$2" != "$3" ]]; then
    printf 'FAILED %s: %s\n  expected: %s\n  found:    %s\n' "$case" "$1" "$3" "$2"
    failures=$((failures + 1))
  fi
}

expect_contains() { # expect_contains WHAT ACTUAL PART
  if [[ "$2" != *"$3"* ]]; then
    printf 'FAILED %s: %s\n  expected a part: %s\n  found:           %s\n' "$case" "$1" "$3" "$2"
    failures=$((failures + 1))
  fi
}

unset BAZEL ZEROTH_PYTHON ARROW_HOME ZEROTH_SYSROOT

case="everything installed"
new_machine
run tree test //... '--flag=two words'
expect "exit code is Bazel's" "$code" 3
expect "silence" "$out" ""
expect "arguments" "$calls" "bazel in $machine/tree: [test] [//...] [--flag=two words]"

expect "Arrow" "$(cat "$machine/arrow_of_builds")" "$arrow"

case="Arrow cannot be fetched"
new_machine
rm -r "$arrow"
touch "$machine/no_network"
run tree build //...
expect "exit code is Bazel's" "$code" 3
expect_contains "says so" "$out" "zeroth: builds will leave out parquet and compressed files: pip could not fetch Arrow, see $arrow.failed"
expect "builds all the same" "$(cat "$machine/arrow_of_builds")" none
run tree query //...
expect "a query fetches nothing" "$out" ""

case="a build for aarch64"
new_machine
cp -r "$arrow" "${arrow/arrow-/arrow_aarch64-}"
run tree build --config=aarch64 //...
expect "exit code is Bazel's" "$code" 3
expect "installs the cross compiler" "$out" \
  "bazelw: installing what building Zeroth needs: g++-aarch64-linux-gnu (C++ compiler for aarch64)"
expect "its libraries" "$(cat "$machine/sysroot_of_builds")" "$sysroot"
expect "its Arrow" "$(cat "$machine/arrow_of_builds")" "${arrow/arrow-/arrow_aarch64-}"
run tree build //...
expect "silence" "$out" ""
expect "other builds have none of it" "$(cat "$machine/sysroot_of_builds") $(cat "$machine/arrow_of_builds")" "none $arrow"
rm -r "$sysroot"
run tree build --config=aarch64 //...
expect "exit code" "$code" 1
expect_contains "why" "$out" "zeroth: no build for aarch64: apt-get could not fetch its libraries, see $sysroot.failed"
expect_contains "in lists of its own" "$calls" "apt-get -o APT::Architecture=arm64"
expect "no Bazel" "$(grep -c '^bazel' <<<"$calls" || true)" 0

case="from a folder inside the tree"
new_machine
run tree/core/base build :all
expect "stays there" "$calls" "bazel in $machine/tree/core/base: [build] [:all]"

case="from outside any project"
new_machine
run elsewhere build //...
expect "goes to the tree" "$calls" "bazel in $machine/tree: [build] [//...]"
expect_contains "says so" "$out" "working in $machine/tree"

case="from another project"
new_machine
touch "$machine/elsewhere/WORKSPACE"
run elsewhere build //...
expect "stays there" "$calls" "bazel in $machine/elsewhere: [build] [//...]"

case="two packages missing, as root"
new_machine
lack libabsl-dev libdnnl-dev
run tree build //...
expect "exit code" "$code" 3
expect "one line" "$out" \
  "bazelw: installing what building Zeroth needs: libabsl-dev (Abseil), libdnnl-dev (oneDNN, matrix products)"
expect_contains "installs them" "${calls%%$'\n'*}" "apt-get install -y"
expect_contains "only them" "${calls%%$'\n'*}" "DPkg::Lock::Timeout=300 libabsl-dev libdnnl-dev"
expect_contains "then Bazel" "$calls" "bazel in $machine/tree: [build] [//...]"
run tree build //...
expect "second run is silent" "$out" ""
expect "second run installs nothing" "$calls" "bazel in $machine/tree: [build] [//...]"

case="stale package lists"
new_machine
lack libhwy-dev
touch "$machine/stale"
run tree build //...
expect "exit code" "$code" 3
expect_contains "updates" "$calls" "apt-get update"
expect "still one line" "$out" \
  "bazelw: installing what building Zeroth needs: libhwy-dev (Highway, portable SIMD)"

case="apt-get cannot"
new_machine
lack googletest
touch "$machine/broken"
run tree build //...
expect "exit code" "$code" 1
expect_contains "apt-get's words" "$out" "E: Unable to locate package"
expect_contains "names it" "$out" "apt-get could not install: googletest"
expect "no Bazel" "$(grep -c '^bazel' <<<"$calls" || true)" 0

case="through sudo"
new_machine
lack g++
fake id 'echo 1000'
fake sudo 'echo "sudo $*" >>"$machine/calls"; [ "$1" = -n ] && shift; [ "$1" = true ] || exec "$@"'
run tree build //...
expect "exit code" "$code" 3
expect_contains "installs" "$calls" "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get install -y"

case="sudo wants a password"
new_machine
lack g++
fake id 'echo 1000'
fake sudo 'exit 1'
run tree build //...
expect "exit code" "$code" 1
expect_contains "the command" "$out" "run: sudo apt-get install -y g++"
expect "no Bazel, no apt-get" "$calls" ""

case="neither root nor sudo"
new_machine
lack g++ googletest
fake id 'echo 1000'
run tree build //...
expect "exit code" "$code" 1
expect_contains "the command" "$out" "As root, run: apt-get install -y g++ googletest"
expect "no Bazel, no apt-get" "$calls" ""

case="dpkg without apt-get"
new_machine
lack nlohmann-json3-dev
rm "$machine/bin/apt-get"
run tree build //...
expect "exit code" "$code" 1
expect_contains "what" "$out" "nlohmann-json3-dev (JSON)"
expect_contains "why not" "$out" "There is no apt-get here"
expect "no Bazel" "$calls" ""

case="neither dpkg nor apt-get"
new_machine
rm "$machine/bin/apt-get" "$machine/bin/dpkg-query"
run tree build //...
expect "exit code" "$code" 1
expect_contains "what" "$out" "g++ (C++ compiler)"
expect "no Bazel" "$calls" ""

case="no Bazel at all"
new_machine
lack bazel-bootstrap
rm "$machine/bin/bazel"
run tree build //...
expect_contains "installs the packaged one" "$out" "bazel-bootstrap (Bazel)"

case="--no-install"
new_machine
run tree --no-install test //...
expect "silence" "$out" ""
expect "Bazel does not see it" "$calls" "bazel in $machine/tree: [test] [//...]"
rm -r "$machine/cache" "$machine/bin/mpirun"
run tree --no-install test //...
expect "fetches nothing for tests" "$calls" "bazel in $machine/tree: [test] [//...]"
expect "tests get no Python" "$(cat "$machine/python_of_tests")" none
lack libabsl-dev g++
run tree --no-install build //...
expect "exit code" "$code" 1
expect_contains "what" "$out" "g++ (C++ compiler), libabsl-dev (Abseil)"
expect_contains "the command" "$out" "As root, run: apt-get install -y g++ libabsl-dev"
expect "no Bazel, no apt-get" "$calls" ""

case="a Bazel of the user's own"
new_machine
lack bazel-bootstrap
run tree build //...
expect "silence" "$out" ""

case="bazelisk only"
new_machine
lack bazel-bootstrap
rm "$machine/bin/bazel"
fake_bazel bazelisk 7.7.1
run tree build //...
expect "silence" "$out" ""
expect "WORKSPACE mode" "$calls" \
  "bazelisk in $machine/tree: [--bazelrc=$machine/tree/bazel/workspace_mode.bazelrc] [build] [//...]"

case="a registry is named"
new_machine
lack bazel-bootstrap
fake_bazel bazel 7.7.1
readonly with_modules="--bazelrc=$machine/tree/bazel/module_mode.bazelrc"
run tree build --registry=file:///r //...
expect "module mode" "$calls" "bazel in $machine/tree: [$with_modules] [build] [--registry=file:///r] [//...]"
run tree run //train -- --registry=file:///r
expect_contains "a program's argument is none" "$calls" "workspace_mode.bazelrc] [run] [//train]"
echo 'common --registry=file:///r' >"$machine/tree/user.bazelrc"
run tree build //...
expect "from the settings" "$calls" "bazel in $machine/tree: [$with_modules] [build] [//...]"
echo '# common --registry=file:///r' >"$machine/tree/user.bazelrc"
run tree build //...
expect_contains "not from a comment" "$calls" "workspace_mode.bazelrc"

case="a project without WORKSPACE"
new_machine
touch "$machine/elsewhere/MODULE.bazel"
fake_bazel bazel 7.7.1
run elsewhere build //...
expect "module mode" "$calls" \
  "bazel in $machine/elsewhere: [--bazelrc=$machine/tree/bazel/module_mode.bazelrc] [build] [//...]"
fake_bazel bazel 9.0.0
run elsewhere build //...
expect "Bazel's own default" "$calls" "bazel in $machine/elsewhere: [build] [//...]"
fake_bazel bazel 4.2.3
run elsewhere build //...
expect "exit code" "$code" 1
expect_contains "why" "$out" "need Bazel 7 or newer; $machine/bin/bazel is version 4"
expect "no Bazel" "$calls" ""

case="BAZEL names another"
new_machine
fake_bazel mybazel 6.5.0
export BAZEL="$machine/bin/mybazel"
run tree build //...
expect "runs it" "$calls" "mybazel in $machine/tree: [build] [//...]"
unset BAZEL

# A machine whose Python environment has not been made yet.
new_machine_without_python() {
  new_machine
  rm -r "${python%/bin/python}"
}

case="the Python environment is there"
new_machine
run tree --host_jvm_args=-Xmx1g test //...
expect "silence" "$out" ""
expect "tests get it" "$(cat "$machine/python_of_tests")" "$python"

case="the Python environment is missing"
new_machine_without_python
run tree build //...
expect "a build needs none" "$out" ""
run tree test //...
expect "exit code is Bazel's" "$code" 3
expect "one line" "$out" "zeroth: installing the Python packages that tests read our files with, in ${python%/bin/python}"
expect "tests get it" "$(cat "$machine/python_of_tests")" "$python"
expect "nothing else is left" "$(basename -a "$machine"/cache/zeroth/python-*)" "$(basename "${python%/bin/python}")"
run tree test //...
expect "second run is silent" "$out" ""

case="no network for the Python environment"
new_machine_without_python
touch "$machine/no_network"
run tree test //...
expect "exit code is Bazel's" "$code" 3
expect_contains "says so" "$out" "will be skipped: pip could not install them"
expect "pip's words" "$(cat "${python%/bin/python}.failed")" "no route to host"
expect "tests get none" "$(cat "$machine/python_of_tests")" none
rm "$machine/no_network"
run tree test //...
expect_contains "does not try every time" "$out" "less than 60 minutes ago"
rm "${python%/bin/python}.failed"
run tree test //...
expect "tries again" "$(cat "$machine/python_of_tests")" "$python"

case="Python cannot make environments"
new_machine_without_python
touch "$machine/no_venv" "$machine/stale"
run tree test //...
expect_contains "installs what can" "$calls" "--no-install-recommends -o DPkg::Lock::Timeout=300 python3-venv"
expect "tests get it" "$(cat "$machine/python_of_tests")" "$python"

case="Python cannot make environments and apt-get cannot help"
new_machine_without_python
touch "$machine/no_venv" "$machine/broken"
run tree test //...
expect "exit code is Bazel's" "$code" 3
expect_contains "the command" "$out" "as root, run: apt-get install python3-venv"

case="ZEROTH_PYTHON names another"
new_machine_without_python
export ZEROTH_PYTHON=/my/python
run tree test //...
expect "silence" "$out" ""
expect "tests get it" "$(cat "$machine/python_of_tests")" /my/python
unset ZEROTH_PYTHON

case="no mpirun"
new_machine
rm "$machine/bin/mpirun"
run tree build //...
expect "a build needs none" "$out" ""
run tree run //train -- //examples:same_bits
expect "nor does another program" "$out" ""
run tree run //examples:same_bits
expect_contains "the first example uses it" "$out" "openmpi-bin, mpich (mpirun), iproute2, libfaketime (hosts)"
run tree test //...
expect "exit code is Bazel's" "$code" 3
expect "one line" "$out" "bazelw: installing what starts ranks as processes: openmpi-bin, mpich (mpirun), iproute2, libfaketime (hosts)"
expect_contains "installs it" "${calls%%$'\n'*}" "DPkg::Lock::Timeout=300 openmpi-bin mpich iproute2 libfaketime"
touch "$machine/broken"
run tree test //...
expect "exit code is Bazel's" "$code" 3
expect_contains "says that it cannot" "$out" "what needs them is left out"
fake id 'echo 1000'
run tree test //...
expect "no questions" "$out" ""

echo "$failures failures"
[[ "$failures" == 0 ]]
