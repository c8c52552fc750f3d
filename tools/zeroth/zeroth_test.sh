#!/usr/bin/env bash
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# zeroth_test ZEROTH NAME=PROGRAM...: runs the programs as commands, and completes in the shells that are here.
set -euo pipefail
zeroth="$PWD/$1"
shift
ZEROTH_PROGRAMS="$(mktemp -d "${TEST_TMPDIR:-/tmp}/programs.XXXXXX")"
export ZEROTH_PROGRAMS
for program in "$@"; do
  ln -s "$PWD/${program#*=}" "$ZEROTH_PROGRAMS/${program%%=*}"
done
mkdir "$ZEROTH_PROGRAMS/bin"
ln -s "$zeroth" "$ZEROTH_PROGRAMS/bin/zeroth"
export PATH="$ZEROTH_PROGRAMS/bin:$PATH"
cd "$ZEROTH_PROGRAMS"

fail() {
  printf 'FAILED: %s\n' "$@" >&2
  exit 1
}

expect() { # expect WHAT WANTED GOT
  [[ "$3" == "$2" ]] || fail "$1: expected '$2', got '$3'"
}

all="$(zeroth --help)"
for program in "$@"; do
  name="${program%%=*}"
  [[ "$all" == *$'\n'"  $name "* ]] || fail "zeroth --help does not name $name"
  expect "zeroth help $name" "$("./$name" --help || true)" "$(zeroth help "$name" || true)"
done
[[ "$(zeroth --version)" == "Zeroth "*"commit "* ]] || fail "zeroth --version prints $(zeroth --version)"
# Arguments and the exit code are the program's.
if said="$(zeroth generate --model='a b' 2>&1)"; then fail "a model that is not there was read"; fi
[[ "$said" == *"a b"* ]] || fail "zeroth generate says: $said"
for wrong in trian 'help trian' '../train' 'completion csh'; do
  code=0
  # shellcheck disable=SC2086  # Two words.
  said="$(zeroth $wrong 2>&1)" || code=$?
  [[ "$code" == 2 && "$said" == "zeroth: "* ]] || fail "zeroth $wrong exits with $code and says: $said"
done
# One word that has two commands, or a pattern of one.
for wrong in 'train generate' 'trai?' ' train' 'completion bash'; do
  code=0
  said="$(zeroth "$wrong" 2>&1)" || code=$?
  [[ "$code" == 2 && "$said" == "zeroth: there is no command '$wrong'; expected one of: train "* ]] ||
    fail "zeroth '$wrong' exits with $code and says: $said"
done

code=0
said="$(zeroth plan 2>&1)" || code=$?
[[ "$code" == 2 && "$said" == "zeroth: "*"/plan is missing. "* ]] || fail "without plan, zeroth exits with $code and says: $said"

# Beside the wheel for GPUs, the programs of that wheel are started, if both wheels are of one version.
mkdir -p site/zeroth/bin site/zeroth/lib site/zeroth_cuda13
cp "$zeroth" site/zeroth/bin/zeroth
ln -s "$ZEROTH_PROGRAMS" site/zeroth/lib/zeroth
# shellcheck disable=SC2016  # Text of a script.
printf '#!/bin/sh\necho "for GPUs:" "$@"\n' >site/zeroth_cuda13/train
chmod +x site/zeroth_cuda13/train
echo '0.1.0' | tee site/zeroth/_version.py >site/zeroth_cuda13/_version.py
installed() { env -u ZEROTH_PROGRAMS site/zeroth/bin/zeroth "$@"; }
expect "train of the wheel for GPUs" "for GPUs: --steps=1 a b" "$(installed train --steps=1 'a b')"
expect "generate, which that wheel lacks" "$(./generate --help || true)" "$(installed help generate || true)"
expect "programs that are named" "$(./train --version)" "$(site/zeroth/bin/zeroth --version)"
echo '0.2.0' >site/zeroth_cuda13/_version.py
code=0
said="$(installed train 2>&1)" || code=$?
[[ "$code" == 2 && "$said" == "zeroth: the wheels zeroth and zeroth_cuda13 in $PWD/site have different versions"* ]] ||
  fail "beside another version, zeroth exits with $code and says: $said"
# The Debian package lies in /usr, where the folder of that name in / belongs to something else.
rm site/zeroth/_version.py
expect "train of the Debian package" "$(./train --version)" "$(installed --version)"

# Another processor: Core 2 of 2006 lacks SSE4 and popcnt; this Nehalem, of 2008, lacks nothing.
nehalem='fpu sse sse2 ht syscall nx lm pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm'
sed "s|/proc/cpuinfo|$PWD/cpuinfo|" "$zeroth" >bin/older
chmod +x bin/older
start_on() { # start_on FLAGS
  printf 'processor\t: 0\nflags\t\t: %s\nbugs\t\t: none\n' "$1" >cpuinfo
  bin/older --version 2>&1
}
expect "an old processor without Arrow" "$(zeroth --version)" "$(start_on 'fpu sse sse2')"
touch libarrow.so.1
expect "a processor that is new enough" "$(zeroth --version)" "$(start_on "$nehalem")"
code=0
said="$(start_on "${nehalem/sse4_1 sse4_2 popcnt /}")" || code=$?
[[ "$code" == 2 && "$said" == "zeroth: this processor lacks "*"$PWD/cpuinfo: sse4_1 sse4_2 popcnt. "* ]] ||
  fail "on an old processor zeroth exits with $code and says: $said"
echo 'Features : fp asimd' >cpuinfo
expect "a processor of another architecture" "$(zeroth --version)" "$(bin/older --version)"
rm libarrow.so.1 bin/older

# Bash, as readline calls it.
# shellcheck disable=SC2016
bash_words() { bash -c 'eval "$(zeroth completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _zeroth
                        echo "${COMPREPLY[*]}"' bash "$@"; }
expect "bash: a command" "train" "$(bash_words zeroth tra)"
expect "bash: a flag" "--strategy=" "$(bash_words zeroth train --strateg)"
expect "bash: a value" "last" "$(bash_words zeroth train --grad_sync = la)"
expect "bash: all values" "assistant all" "$(bash_words zeroth train --loss_on =)"
expect "bash: a flag of Abseil's" "--max_tokens=" "$(bash_words zeroth generate --max_t)"

if command -v fish >/dev/null; then
  fish_words() { fish -c "zeroth completion fish | source; complete -C 'zeroth $1'" | cut -f 1 | xargs; }
  expect "fish: a command" "train" "$(fish_words tra)"
  expect "fish: a flag" "--strategy" "$(fish_words 'train --strateg')"
  expect "fish: a value" "--grad_sync=last" "$(fish_words 'train --grad_sync=la')"
else
  echo "SKIPPED: there is no fish"
fi

if command -v zsh >/dev/null; then
  # A line typed into a terminal of zsh, completed, and then printed behind GOT.
  cat >complete.zsh <<'ZSH'
zmodload zsh/zpty
zpty shell "TERM=dumb zsh -fi"
zpty -w shell 'stty cols 500; PS1=; autoload -U compinit; compinit -u -D; eval "$(zeroth completion zsh)"; bindkey -e; echo READ""Y'
zpty -r -m shell text '*READY*'
zpty -w -n shell "$1"$'\t'$'\C-aecho GO""T=\C-eEND\n'
zpty -r -m shell text '*GOT=*END*'
print -r -- "$text"
ZSH
  zsh_line() { zsh -f complete.zsh "$1" | tr -d '\r' | grep -a -o 'GOT=.*END' | tail -n 1; }
  expect "zsh: a command" "GOT=zeroth trainEND" "$(zsh_line 'zeroth tra')"
  expect "zsh: a flag" "GOT=zeroth train --strategyEND" "$(zsh_line 'zeroth train --strateg')"
  expect "zsh: a value" "GOT=zeroth train --grad_sync=lastEND" "$(zsh_line 'zeroth train --grad_sync=la')"
else
  echo "SKIPPED: there is no zsh"
fi
