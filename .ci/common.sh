# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# shellcheck shell=bash
# Functions of .ci/run and .ci/nightly; sourced by both from the root of the project.

cache="${ZEROTH_DISK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zeroth/bazel-disk}"
mkdir -p "$cache"
events="$(mktemp)"
registry="$(mktemp -d)"
state="$(mktemp -d)"
# The test targets that ran, those that Bazel left out, and a line for each test target or other step that failed.
touch "$state/ran" "$state/skipped" "$state/failed"
trap 'rm -rf "$events" "$registry" "$state"' EXIT
passed=0
skipped=0
checked=0 # other steps that ran

# Reasons, as regular expressions, for which a step or a test case may be left out: the machine or the build lacks
# something. Any other reason fails, so that no test is lost silently.
known_skips=(
  '^no CUDA toolkit$' 'no NVIDIA driver|no CUDA-capable device|there is no device of type|^no device$'
  'ranks of NCCL want' '^cuDNN: |UNIMPLEMENTED: cuDNN: ' '^.*: UNIMPLEMENTED: the instructions of compute capability'
  '^the history is not here$' '^version 14 is not installed$' '^clang is not installed$' '^ZEROTH_BASE names no commit$'
  '^needs Bazel 7 or 8' '^built without Arrow$' '^no AVX-512 here$' '^oneDNN has no bf16 matmul on this CPU$'
  'there is no mpirun|no mpirun of' 'lacks the packages that this test compares with' 'lacks torch and transformers'
  'Python has no package llama_cpp' 'has no python3$' '^there is no (Chromium|auditwheel|fish|skopeo|umoci|zsh)$' '^pip cannot install them$'
  '^no root folder of Debian' '^no cluster of Slurm here$' '^no emulator or no libraries of aarch64 here$' 'has no /dev/full$' 'has no IPv6$' 'tmpfs cannot be mounted here|may not mount a small file'
  '^(hosts|namespaces) cannot be made here: ' '^a sanitizer is linked in$' 'thread sanitizer (cannot|does not) see' 'show under --config=(tsan|asan) only'
)
# Reasons of test cases whose parameters leave nothing to test. These count neither as passed nor as skipped.
inapplicable_skips=(
  '^one rank cannot differ$' '^nobody to wait for$' '^only at powers of two$' '^this back end registers no memory$'
  'where streams run behind the host' "MPICH's mpirun ends all ranks" '^no formula for this strategy$'
  '^the strategy (has no divide factor|brings its own)$' '^one step overflows and no more$' '^this machine has (the tool|a driver)$'
)

fail() { # fail WHAT
  echo "FAILED: $*"
  echo "${*//$'\n'/ }" >>"$state/failed"
}

failures() { wc -l <"$state/failed"; }

say() { printf '\n=== %s [%d:%02d]\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

check() { # check WHAT COMMAND...
  local what="$1"
  shift
  say "$what"
  checked=$((checked + 1))
  if ! "$@"; then
    fail "$what"
  fi
}

# As check, for a command that exits with 3 where the machine lacks what it needs: then the step is left out for REASON.
check_or_skip() { # check_or_skip WHAT REASON COMMAND...
  local what="$1" reason="$2" code=0
  shift 2
  say "$what"
  "$@" || code=$?
  if [[ "$code" == 3 ]]; then
    skip "$what" "$reason"
    return
  fi
  checked=$((checked + 1))
  if [[ "$code" != 0 ]]; then
    fail "$what"
  fi
}

# Leaves a step out. Fails unless the reason is known.
skip() { # skip WHAT REASON
  local reason
  say "$1 SKIPPED: $2"
  for reason in "${known_skips[@]}"; do
    if [[ "$2" =~ $reason ]]; then
      skipped=$((skipped + 1))
      return
    fi
  done
  fail "$1 was skipped for a reason that known_skips of .ci/common.sh does not have"
}

# Sets the array `lines` to what a command prints. If it fails or prints nothing, the step WHAT fails: what it would have
# checked would otherwise be left out silently.
read_lines() { # read_lines WHAT COMMAND...
  local what="$1" text
  shift
  lines=()
  if ! text="$("$@")" || [[ -z "$text" ]]; then
    fail "$what: nothing was printed by: $*"
    return 1
  fi
  mapfile -t lines <<<"$text"
}

run_tests() { # run_tests WHAT BAZEL_ARGUMENTS...
  local what="$1" code=0 before counts more_passed more_skipped
  shift
  say "$what"
  : >"$events"
  before="$(failures)"
  ./bazelw test --keep_going --disk_cache="$cache" --build_event_json_file="$events" "$@" || code=$?
  if ! counts="$(.ci/count_tests.py "$events" "$state" "$(printf '%s\n' "${known_skips[@]}")" \
    "$(printf '%s\n' "${inapplicable_skips[@]}")")"; then
    counts="0 0"
    fail "$what: its tests could not be counted"
  fi
  read -r more_passed more_skipped <<<"$counts"
  # A broken BUILD file or library fails, although it has no test.
  if [[ "$code" != 0 && "$(failures)" == "$before" ]]; then fail "$what exited with $code"; fi
  passed=$((passed + more_passed))
  skipped=$((skipped + more_skipped))
}

# Sets `lines` to the labels that a query finds.
labels() { read_lines "a query" ./bazelw query --noshow_progress "$1"; }

toolkit_tests() { labels 'attr(tags, "\btoolkit\b", tests(//...))'; }

# Finds the tests that exist only with CUDA, without those of the toolkit's libraries. Tests with the tag "nightly"
# take minutes in the emulation, and repeat tests of the CPU on this device.
emulated_tests() { # emulated_tests [MORE_OF_THE_QUERY]
  labels "attr(target_compatible_with, incompatible, tests(//...)) except
    attr(tags, '\btoolkit\b', tests(//...)) ${1:-}"
}

# Runs the suites that compare numbers with float64 or bit by bit, as on a machine with fewer instructions: LIMIT is a
# value of ZEROTH_TEST_ISA (kernels/testing/instruction_set.cc).
run_numerical_tests() { # run_numerical_tests LIMIT [BAZEL_ARGUMENTS...]
  local limit="$1"
  shift
  labels 'attr(tags, "\bnumerical\b", tests(//...))' || return 0
  run_tests "numerical tests, instructions: $limit" --test_env=ZEROTH_TEST_ISA="$limit" "$@" "${lines[@]}"
}

# Bazel 9 has only modules, and cannot make a registry of the system's packages.
has_modules() { [[ "$(./bazelw --version)" =~ ^bazel\ [78]\. ]]; }

# An example project is a folder with its own WORKSPACE or MODULE.bazel, whose program is the target //:main.
check_example() { # check_example FOLDER TARGETS [BAZEL_ARGUMENTS...]
  local folder="$1" targets="$2"
  shift 2
  run_example() {
    (cd "$folder" && ../../bazelw build --disk_cache="$cache" "$@" "$targets" &&
      ../../bazelw run --disk_cache="$cache" "$@" //:main)
  }
  check "$folder: bazelw build $targets and run //:main" run_example "$@"
}

# Builds the examples that import Zeroth as a module, with a registry of the system's packages.
check_module_examples() {
  local module
  if ! has_modules; then
    skip "examples/*/MODULE.bazel" "needs Bazel 7 or 8, this is $(./bazelw --version)"
    return
  fi
  check "registry of the system's packages" third_party/registry/make_registry.py "$registry"
  for module in examples/*/MODULE.bazel; do
    check_example "$(dirname -- "$module")" //... --registry="file://$registry"
  done
}

# The subjects of commits after this one follow CONTRIBUTING.md.
subjects_since=3abca091

check_subjects() {
  if ! git cat-file -e "$subjects_since^{commit}" 2>/dev/null; then
    skip "subjects of commits" "the history is not here"
    return
  fi
  wrong_subjects() {
    local text
    text="$(git log --no-merges --format=%s "$subjects_since..HEAD")" || return 1
    awk 'length($0) > 72 || !/^[a-z0-9_.\/-]+(, [a-z0-9_.\/-]+)*: [a-z0-9_]/ && $0 != "" {
      print "\"" $0 "\": expected area: imperative, in at most 72 characters"; found = 1 }
      END { exit found }' <<<"$text"
  }
  check "subjects of commits" wrong_subjects
}

# A source without tests has at most 400 lines: it has one subject.
check_length() {
  read_lines "length of sources" git ls-files '*.cc' '*.h' '*.cu' '*.cuh' || return 0
  long_sources() {
    printf '%s\n' "${lines[@]}" | grep -vE '_test\.|_suite|/emulation/|^tests/' | xargs wc -l |
      awk '$1 > 400 && $2 != "total" { print $2 " has " $1 " lines, more than 400"; found = 1 } END { exit found }'
  }
  check "length of sources" long_sources
}

# Versions of clang-format differ, so one of them decides: Debian 12's.
check_format() {
  local clang_format
  clang_format="$(command -v clang-format-14 || command -v clang-format || true)"
  if [[ -z "$clang_format" || "$("$clang_format" --version)" != *"version 14."* ]]; then
    skip clang-format "version 14 is not installed"
    return
  fi
  read_lines "clang-format" git ls-files '*.cc' '*.h' '*.cu' '*.cuh' || return 0
  format_tree() { printf '%s\n' "${lines[@]}" | xargs "$clang_format" --dry-run --Werror; }
  check "clang-format of all sources" format_tree
}

# Runs clang-tidy on those of FILES that the preceding build compiles for CPUs; takes some 20 seconds per file. Fails for
# what .clang-tidy calls errors; other findings are advice.
check_tidy() { # check_tidy WHAT FILES...
  local what="$1" clang_tidy files
  shift
  clang_tidy="$(command -v clang-tidy-14 || true)"
  if [[ -z "$clang_tidy" ]]; then
    skip clang-tidy "version 14 is not installed"
    return
  fi
  tidy() {
    ./bazelw run --disk_cache="$cache" //bazel:compile_commands || return 1
    files="$(python3 -c 'import json, os, sys
known = {os.path.relpath(entry["file"]) for entry in json.load(open("compile_commands.json"))}
print("\n".join(name for name in sys.argv[1:] if name in known))' "$@")" || return 1
    if [[ -z "$files" ]]; then return 0; fi
    xargs --max-args=1 --max-procs="$(nproc)" "$clang_tidy" --quiet -p . <<<"$files"
  }
  check "clang-tidy of $what" tidy "$@"
}

has_cuda_toolkit() { [[ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]]; }

# Counts the test targets that no run of Bazel has run, names what failed, and says what was counted.
finish() {
  local never failed
  never="$(comm -23 <(sort -u "$state/skipped") <(sort -u "$state/ran"))"
  if [[ -n "$never" ]]; then
    say "tests that no configuration here has run"
    echo "$never"
    skipped=$((skipped + $(wc -l <<<"$never")))
  fi
  # For jobs of one step, which would otherwise be green where it cannot run.
  if [[ -n "${ZEROTH_MUST_RUN:-}" && $((passed + checked)) == 0 && ! -s "$state/failed" ]]; then
    fail "nothing has run, and ZEROTH_MUST_RUN is set"
  fi
  # Again at the end: a long log may be cut where the failure was.
  failed="$(failures)"
  if [[ "$failed" != 0 ]]; then
    say "what failed"
    cat "$state/failed"
  fi
  say "done"
  echo "$passed passed, $failed failed, $skipped skipped"
  [[ "$failed" == 0 ]]
}
