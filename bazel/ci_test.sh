#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# Tests the counts of .ci/run and .ci/nightly, with a fake Bazel that replays event streams in the
# format of Bazel 4 to 7, and a fake git. Nothing is built.
set -euo pipefail
work="$(mktemp -d "${TEST_TMPDIR:-/tmp}/ci.XXXXXX")"
mkdir "$work/bin"
cp -RL .ci "$work/.ci"
workflow="$PWD/.github/workflows/ci.yml"
export ZEROTH_DISK_CACHE="$work/cache" CUDA_HOME="$work/no_toolkit" work
PATH="$work/bin:$PATH"
cd "$work"
unset ZEROTH_BASE

fail() {
  printf 'FAILED: %s\n%s\n' "$*" "${output:-}" >&2
  exit 1
}
fake() { # fake NAME BODY
  printf '#!/usr/bin/env bash\n%s\n' "$2" >"$1"
  chmod +x "$1"
}

# `query` prints the file "labels"; `test` plays the file "events".
new_machine() {
  echo //some:numerical_test >labels
  : >events
  echo 0 >code
  rm -rf examples
  # shellcheck disable=SC2016 # for the fakes
  fake bazelw 'case "$1" in
    --version) echo "bazel 4.2.3" ;;
    query) cat labels; [[ -s labels ]] ;;
    test)
      for word in "$@"; do
        if [[ "$word" == --build_event_json_file=* ]]; then cat events >"${word#*=}"; fi
      done
      exit "$(cat code)" ;;
    *) ;;
  esac'
  # shellcheck disable=SC2016
  fake bin/git 'case "$1" in ls-files) echo some.cc ;; merge-base) echo 1234 ;; diff) echo some.cc ;; esac'
  fake bin/clang-format-14 'echo "clang-format version 14.0.6"'
  fake bin/clang-tidy-14 'exit 0'
  fake bin/clang 'exit 0'
  mkdir -p examples/import_project examples/own_parts
  echo '// one line' >some.cc
  echo '[{"file": "some.cc", "directory": "."}]' >compile_commands.json
}

# Events of a test, with a test.xml if it ran.
configured() { printf '{"id":{"targetConfigured":{"label":"%s"}},"configured":{"targetKind":"x","testSize":"SMALL"}}\n' "$1"; }
ran() { # ran LABEL STATUS XML
  configured "$1"
  local xml
  xml="$(mktemp "$work/test XXXXXX.xml")"
  printf '<?xml version="1.0" encoding="UTF-8"?>\n%s\n' "$3" >"$xml"
  printf '{"id":{"testResult":{"label":"%s","run":1,"shard":1,"attempt":1}},"testResult":{"testActionOutput":[{"name":"test.log","uri":"file:///none"},{"name":"test.xml","uri":"file://%s"}],"status":"%s"}}\n' \
    "$1" "${xml// /%20}" "$2"
  printf '{"id":{"testSummary":{"label":"%s"}},"testSummary":{"overallStatus":"%s","totalRunDurationMillis":"152"}}\n' "$1" "$2"
}
incompatible() {
  configured "$1"
  printf '{"id":{"targetCompleted":{"label":"%s"}},"aborted":{"reason":"SKIPPED","description":"Target %s build was skipped."}}\n' "$1" "$1"
}
plain='<testsuites><testsuite><testcase name="A" status="run" result="completed"/></testsuite></testsuites>'
# As GoogleTest writes it. Cases that a filter leaves out are suppressed, and have not skipped.
skipping() {
  printf '<testsuites><testsuite><testcase name="N" status="notrun" result="suppressed"/><testcase name="A" status="run" result="skipped"><skipped message="some/some_test.cc:12&#x0A;%s"><![CDATA[some/some_test.cc:12\n%s]]></skipped></testcase></testsuite></testsuites>' "$1" "$1"
}
printing() { printf '<testsuites><testsuite><testcase name="A"/><system-out>log: <![CDATA[first\n%b\n]]></system-out></testsuite></testsuites>' "$1"; }

# Runs the commands after `source .ci/common.sh`, then `finish`.
counts() { # counts EXIT_CODE LAST_LINE COMMANDS
  local code=0
  output="$(bash -c "set -euo pipefail; source .ci/common.sh; $3; finish" 2>&1)" || code=$?
  [[ "$code" == "$1" ]] || fail "exit code $code, expected $1"
  [[ "${output##*$'\n'}" == "$2" ]] || fail "last line, expected: $2"
}
says() { [[ "$output" == *"$1"* ]] || fail "expected a part: $1"; }
run_script() { # run_script EXIT_CODE LAST_LINE SCRIPT WORDS...
  local code=0 expected="$1" last="$2"
  shift 2
  output="$("$@" 2>&1)" || code=$?
  [[ "$code" == "$expected" ]] || fail "exit code $code of $*, expected $expected"
  [[ "${output##*$'\n'}" == "$last" ]] || fail "last line of $*, expected: $last"
}

# Targets: passed, failed, never built, not for this configuration.
new_machine
{
  ran //a:passes PASSED "$plain"
  ran //a:fails FAILED "$plain"
  configured //a:is_not_built
  incompatible //a:gpu
} >events
echo 3 >code
counts 1 "1 passed, 2 failed, 1 skipped" 'run_tests all //...'
says //a:gpu
[[ "${output#*=== what failed}" == *"//a:fails"*"//a:is_not_built"* ]] || fail "what failed is not named at the end"

# A target that another configuration runs has not been skipped.
new_machine
{
  ran //a:passes PASSED "$plain"
  incompatible //a:gpu
} >events
ran //a:gpu PASSED "$plain" >emulated
counts 0 "2 passed, 0 failed, 0 skipped" 'run_tests all //...; cp emulated events; run_tests emulated //a:gpu'

# Cases that skip inside targets that pass: for a known reason, for an unknown one, without one.
new_machine
{
  ran //a:mpi PASSED "$(skipping 'no mpirun of mpich on PATH (Debian: packages openmpi-bin and mpich)')"
  ran //a:script PASSED "$(printing 'SKIPPED: mpirun.sh: there is no mpirun here')"
  ran //a:python PASSED "$(printing 'SKIPPED: there is no Chromium\nOK (skipped=1)')"
  ran //a:one_rank PASSED "$(skipping 'one rank cannot differ')"
} >events
counts 0 "4 passed, 0 failed, 3 skipped" 'run_tests all //...'
says "nothing to test"
ran //a:lazy PASSED "$(skipping 'flaky on Mondays')" >events
counts 1 "1 passed, 1 failed, 0 skipped" 'run_tests all //...'
says "flaky on Mondays FAILED: neither known_skips nor inapplicable_skips of .ci/common.sh has this reason, of //a:lazy"
ran //a:python PASSED "$(printing 'OK (skipped=2)')" >events
counts 1 "1 passed, 1 failed, 0 skipped" 'run_tests all //...'

# Bazel itself fails; its events cannot be read.
new_machine
echo 1 >code
counts 1 "0 passed, 1 failed, 0 skipped" 'run_tests all //...'
echo 'no JSON' >events
counts 1 "0 passed, 1 failed, 0 skipped" 'run_tests all //...'

# Steps.
new_machine
counts 0 "0 passed, 0 failed, 1 skipped" 'skip CUDA "no CUDA toolkit"'
counts 1 "0 passed, 1 failed, 0 skipped" 'skip everything "it is late"'
says "known_skips"

# The workflow has a job for each step of .ci/nightly but three, for which its system lacks something.
steps="$(sed -n '/^all_steps=(/,/)$/p' .ci/nightly | sed 's/^all_steps=(//; s/)$//' | xargs -n 1 | grep -vx -e cuda -e cuda_wheel -e modules -e torchrun)"
jobs="$(sed -n 's/^          - \([a-z0-9_]*\)$/\1/p' "$workflow")"
[[ -n "$steps" && "$steps" == "$jobs" ]] || fail "nightly jobs of ci.yml: ${jobs//$'\n'/ }, expected: ${steps//$'\n'/ }"

# A job that runs nothing fails.
new_machine
ZEROTH_MUST_RUN=1 counts 1 "0 passed, 1 failed, 1 skipped" 'skip CUDA "no CUDA toolkit"'
says "nothing has run"
ZEROTH_MUST_RUN=1 counts 0 "0 passed, 0 failed, 1 skipped" 'check something true; skip CUDA "no CUDA toolkit"'

# What lacks something exits with 3.
counts 0 "0 passed, 0 failed, 1 skipped" 'check_or_skip cluster "no cluster of Slurm here" bash -c "exit 3"'
counts 1 "0 passed, 1 failed, 0 skipped" 'check_or_skip cluster "no cluster of Slurm here" false'
ZEROTH_MUST_RUN=1 counts 0 "0 passed, 0 failed, 0 skipped" 'check_or_skip cluster "no cluster of Slurm here" true'

# A query or a list of files that fails, or finds nothing, fails.
for broken in 'fake bazelw "exit 7"' ': >labels'; do
  new_machine
  eval "$broken"
  counts 1 "0 passed, 1 failed, 0 skipped" 'run_numerical_tests portable'
  run_script 1 "0 passed, 1 failed, 0 skipped" .ci/nightly fuzz
done
for broken in 'fake bin/git "echo fatal: detected dubious ownership in repository >&2; exit 128"' 'fake bin/git "exit 0"'; do
  new_machine
  counts 0 "0 passed, 0 failed, 0 skipped" 'check_length; check_format'
  run_script 0 "0 passed, 0 failed, 0 skipped" .ci/nightly lint
  eval "$broken"
  counts 1 "0 passed, 2 failed, 0 skipped" 'check_length; check_format'
  run_script 1 "0 passed, 1 failed, 0 skipped" .ci/nightly lint
done

# Subjects of commits.
for subject in 'data: read the files beside tokenizer.json' 'kernels, nn: rename a flag' ''; do
  new_machine
  fake bin/git "case \"\$1\" in log) echo '$subject' ;; esac"
  counts 0 "0 passed, 0 failed, 0 skipped" check_subjects
done
for subject in 'Data: read files' 'A tokenizer is read' "data: $(printf 'x%.0s' {1..67})" 'data : read files'; do
  new_machine
  fake bin/git "case \"\$1\" in log) echo '$subject' ;; esac"
  counts 1 "0 passed, 1 failed, 0 skipped" check_subjects
  says "expected area: imperative"
done
fake bin/git 'exit 1'
counts 0 "0 passed, 0 failed, 1 skipped" check_subjects

# A whole run: without a toolkit, a base and Bazel's modules. A base that git does not know fails.
new_machine
ran //a:passes PASSED "$plain" >events
lacking=3
runs=3
if ! grep -qw avx512f /proc/cpuinfo; then
  lacking=4
  runs=2
fi
run_script 0 "$runs passed, 0 failed, $lacking skipped" .ci/run
ZEROTH_BASE=main run_script 0 "$runs passed, 0 failed, $((lacking - 1)) skipped" .ci/run
# shellcheck disable=SC2016
fake bin/git 'case "$1" in ls-files) echo some.cc ;; merge-base) echo 1234 ;; esac'
ZEROTH_BASE=main run_script 0 "$runs passed, 0 failed, $((lacking - 1)) skipped" .ci/run
# shellcheck disable=SC2016
fake bin/git 'case "$1" in ls-files) echo some.cc ;; merge-base) exit 128 ;; diff) [[ "$*" != *"no base"* ]] ;; esac'
ZEROTH_BASE=main run_script 1 "$runs passed, 1 failed, $((lacking - 1)) skipped" .ci/run

# The same with a toolkit. Queries that find nothing fail: two sets of numerical tests, what to build, two sets of tests.
new_machine
ran //a:passes PASSED "$plain" >events
mkdir -p "$work/toolkit/bin"
fake "$work/toolkit/bin/nvcc" 'exit 0'
CUDA_HOME="$work/toolkit" run_script 0 "$((runs + 2)) passed, 0 failed, $((lacking - 1)) skipped" .ci/run
: >labels
CUDA_HOME="$work/toolkit" run_script 1 "1 passed, $((runs + 2)) failed, $((lacking - 1)) skipped" .ci/run
