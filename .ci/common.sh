# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# What .ci/run and .ci/nightly share; sourced by both from the root of the project.

cache="${ZEROTH_DISK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/zeroth/bazel-disk}"
mkdir -p "$cache"
events="$(mktemp)"
registry="$(mktemp -d)"
trap 'rm -rf "$events" "$registry"' EXIT
passed=0
failed=0

say() { printf '\n=== %s [%d:%02d]\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

check() { # check WHAT COMMAND...
  local what="$1"
  shift
  say "$what"
  if ! "$@"; then
    echo "FAILED: $what"
    failed=$((failed + 1))
  fi
}

# Prints the tests that took longest, then "PASSED FAILED". The counts come from Bazel's event stream, because a
# test that could not be built is missing in the printed summary and must count as failed. A test that is
# skipped in this configuration counts as neither.
count_tests() {
  python3 - "$events" <<'END'
import json, sys
tests, passed, skipped, seconds = set(), set(), set(), {}
with open(sys.argv[1], encoding="utf-8") as stream:
    for line in stream:
        event = json.loads(line)
        identity = event["id"]
        if "targetConfigured" in identity and "testSize" in event.get("configured", {}):
            tests.add(identity["targetConfigured"]["label"])
        if "testSummary" in event:
            label = identity["testSummary"]["label"]
            seconds[label] = int(event["testSummary"].get("totalRunDurationMillis", 0)) / 1000
            if event["testSummary"].get("overallStatus") == "PASSED":
                passed.add(label)
        if "targetCompleted" in identity and event.get("aborted", {}).get("reason") == "SKIPPED":
            skipped.add(identity["targetCompleted"]["label"])
print("all tests: %.0f s; the longest:" % sum(seconds.values()), file=sys.stderr)
for label in sorted(seconds, key=seconds.get, reverse=True)[:12]:
    print("  %6.1f s  %s" % (seconds[label], label), file=sys.stderr)
print(len(passed), len(tests - passed - skipped))
END
}

run_tests() { # run_tests WHAT BAZEL_ARGUMENTS...
  local what="$1" code=0 counts more_passed more_failed
  shift
  say "$what"
  : >"$events"
  ./bazelw test --keep_going --disk_cache="$cache" --build_event_json_file="$events" "$@" || code=$?
  counts="$(count_tests)" || counts="0 1"
  read -r more_passed more_failed <<<"$counts"
  # A broken BUILD file or library fails no test of its own.
  if [[ "$code" != 0 && "$more_failed" == 0 ]]; then
    echo "FAILED: $what exited with $code"
    more_failed=1
  fi
  passed=$((passed + more_passed))
  failed=$((failed + more_failed))
}

# Prints the labels that a query finds, one a line.
labels() { ./bazelw query "$1" 2>/dev/null; }

toolkit_tests() { labels 'attr(tags, "\btoolkit\b", tests(//...))'; }

# Prints the tests that exist only with CUDA, without those of the toolkit's libraries. Tests with the tag "nightly"
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
  # shellcheck disable=SC2046 # one argument per label
  run_tests "numerical tests, instructions: $limit" --test_env=ZEROTH_TEST_ISA="$limit" "$@" \
    $(labels 'attr(tags, "\bnumerical\b", tests(//...))')
}

# Bazel 9 has only modules, and cannot make a registry of the system's packages.
has_modules() { [[ "$(./bazelw --version)" =~ ^bazel\ [78]\. ]]; }

# An example project is a folder with a WORKSPACE or a MODULE.bazel of its own, whose program is the target //:main.
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
    say "examples/*/MODULE.bazel SKIPPED: they need Bazel 7 or 8, this is $(./bazelw --version)"
    return
  fi
  check "registry of the system's packages" third_party/registry/make_registry.py "$registry"
  for module in examples/*/MODULE.bazel; do
    check_example "$(dirname -- "$module")" //... --registry="file://$registry"
  done
}

# A source without tests has at most 400 lines: it has one subject.
check_length() {
  long_sources() {
    git ls-files '*.cc' '*.h' '*.cu' '*.cuh' | grep -vE '_test\.|_suite|/emulation/|^tests/' | xargs wc -l |
      awk '$1 > 400 && $2 != "total" { print $2 " has " $1 " lines, more than 400"; found = 1 } END { exit found }'
  }
  check "length of sources" long_sources
}

# Versions of clang-format differ, so one of them decides: Debian 12's.
check_format() {
  local clang_format
  clang_format="$(command -v clang-format-14 || command -v clang-format || true)"
  if [[ -z "$clang_format" || "$("$clang_format" --version)" != *"version 14."* ]]; then
    say "clang-format SKIPPED: version 14 is not installed"
    return
  fi
  format_tree() { git ls-files '*.cc' '*.h' '*.cu' '*.cuh' | xargs "$clang_format" --dry-run --Werror; }
  check "clang-format of all sources" format_tree
}

# Runs clang-tidy on those of FILES that the preceding build compiles for CPUs; takes some 20 seconds a file. Fails for
# what .clang-tidy calls errors; other findings are advice.
check_tidy() { # check_tidy WHAT FILES...
  local what="$1" clang_tidy files
  shift
  clang_tidy="$(command -v clang-tidy-14 || true)"
  if [[ -z "$clang_tidy" ]]; then
    say "clang-tidy SKIPPED: version 14 is not installed"
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

finish() {
  say "done"
  echo "$passed passed, $failed failed"
  [[ "$failed" == 0 ]]
}
