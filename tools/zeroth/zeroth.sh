#!/bin/sh
# Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
#
# zeroth COMMAND ARGUMENTS...: runs the program COMMAND of ../lib/zeroth, as git runs git-COMMAND.
set -eu

here="$(dirname -- "$(readlink -f -- "$0")")"
programs="${ZEROTH_PROGRAMS:-$here/../lib/zeroth}"
# The programs for GPUs of the wheel zeroth_cuda13, if it is installed beside the wheel zeroth.
cuda="$here/../../zeroth_cuda13"
commands='train generate convert plan evaluate tokenize inspect report follow'

usage() {
  cat <<'END'
usage: zeroth COMMAND [FLAGS]

  train       train or fine-tune a model, sharded over ranks
  generate    continue a text with a model, or chat with it
  convert     convert between checkpoints, Hugging Face directories and GGUF files
  plan        plan memory, time and traffic of a run
  evaluate    measure a model's loss on held-out data
  tokenize    write text as a file of tokens
  inspect     show what is in a checkpoint, in safetensors or in GGUF files
  report      make a page about runs (needs Python 3.11)
  follow      send a run's metrics to W&B, MLflow or Prometheus (needs Python 3.11)

  help COMMAND               the flags of a command
  completion bash|zsh|fish   completion for a shell, as in: eval "$(zeroth completion bash)"
  --version                  version, commit, compiler, libraries and instruction sets
END
}

die() {
  printf 'zeroth: %s\n' "$1" >&2
  exit 2
}

expect_command() { # expect_command WORD
  for command in $commands; do
    [ "$1" != "$command" ] || return 0
  done
  die "there is no command '$1'; expected one of: $commands"
}

# Arrow's libraries are compiled for SSE4.2, so on an older processor programs would end by SIGILL.
check_processor() {
  set -- "$programs"/libarrow.so.*
  [ -e "$1" ] && [ -r /proc/cpuinfo ] || return 0
  while IFS= read -r line; do
    case "$line" in flags*:*) break ;; esac
  done </proc/cpuinfo
  case "$line" in flags*:*) ;; *) return 0 ;; esac
  missing=''
  for flag in pni ssse3 sse4_1 sse4_2 popcnt; do
    case " ${line#*:} " in *" $flag "*) ;; *) missing="$missing $flag" ;; esac
  done
  [ -z "$missing" ] || die "this processor lacks instructions that Apache Arrow's libraries need; expected these flags \
in /proc/cpuinfo:$missing. Use a processor with SSE4.2 (x86-64-v2), or build from source without Arrow."
}

start() { # start COMMAND ARGUMENTS...
  program="$programs/$1"
  # The Debian package has no _version.py, and nothing of a wheel beside it.
  if [ -z "${ZEROTH_PROGRAMS-}" ] && [ -e "$here/../_version.py" ] && [ -x "$cuda/$1" ]; then
    [ "$(cat "$cuda/_version.py")" = "$(cat "$here/../_version.py")" ] || die "the wheels zeroth and zeroth_cuda13 in \
$(readlink -f "$here/../..") have different versions, and the second runs with the libraries of the first. Install both of \
one release, or remove the second: pip uninstall zeroth_cuda13"
    program="$cuda/$1"
  fi
  [ -x "$program" ] || die "$program is missing. The container image leaves out report and follow, which need Python; \
run them from the wheel or the Debian package"
  check_processor
  shift
  exec "$program" "$@"
}

# Prints the flags of a command, one a line: its name, a tab, and its words if it takes only these, as the program's
# --help lists them.
flags_of() {
  # shellcheck disable=SC2016  # A program of sed.
  { "$programs/$1" --help || true; } 2>/dev/null | sed -n '
    s/^  *\[\{0,1\}--\(\[no\]\)\{0,1\}\([a-z][a-z0-9_]*\).*/&\
\2/
    t found
    b
    :found
    h
    s/.*\n//
    x
    s/\n.*//
    /  ([a-z0-9_]*\(, [a-z0-9_]*\)* or [a-z0-9_]*)$/!{
      s/.*//
      b join
    }
    s/.*  (\(.*\))$/\1/
    s/, \| or / /g
    :join
    x
    G
    s/\n/	/
    p' | sort -u
}

complete_bash() {
  echo '_zeroth() {'
  # shellcheck disable=SC2016  # Text for another shell.
  printf '%s\n' '  local word="${COMP_WORDS[COMP_CWORD]}" flag="" words=""' \
    '  # Bash splits words at "=".' \
    '  if [[ "$word" == "=" ]]; then' \
    '    flag="${COMP_WORDS[COMP_CWORD-1]}" word=""' \
    '  elif ((COMP_CWORD > 1)) && [[ "${COMP_WORDS[COMP_CWORD-1]}" == "=" ]]; then' \
    '    flag="${COMP_WORDS[COMP_CWORD-2]}"' \
    '  fi'
  # shellcheck disable=SC2016
  printf '  if ((COMP_CWORD == 1)); then\n    mapfile -t COMPREPLY < <(compgen -W "%s help completion --version --help" -- "$word")\n    return\n  fi\n' "$commands"
  # shellcheck disable=SC2016
  printf '  case "${COMP_WORDS[1]}$flag" in\n    help) words="%s" ;;\n    completion) words="bash zsh fish" ;;\n' "$commands"
  for command in $commands; do
    flags_of "$command" | {
      flags=''
      while IFS="$(printf '\t')" read -r name words; do
        flags="$flags--$name= "
        [ -z "$words" ] || printf '    %s--%s) words="%s" ;;\n' "$command" "$name" "$words"
      done
      printf '    %s) words="%s" ;;\n' "$command" "$flags"
    }
  done
  # shellcheck disable=SC2016
  printf '%s\n' '  esac' '  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")' \
    '  [[ "${COMPREPLY[*]}" != *= ]] || compopt -o nospace 2>/dev/null' '}' 'complete -o default -F _zeroth zeroth'
}

complete_zsh() {
  # shellcheck disable=SC2016  # Text for another shell.
  printf '%s\n' '#compdef zeroth' '_zeroth() {' \
    '  if ((CURRENT == 2)); then'
  printf '    compadd -- %s help completion --version --help\n    return\n  fi\n' "$commands"
  # shellcheck disable=SC2016
  printf '  case "$words[2]" in\n    help) compadd -- %s ;;\n    completion) compadd -- bash zsh fish ;;\n' "$commands"
  for command in $commands; do
    printf '    %s) _arguments -S' "$command"
    flags_of "$command" | while IFS="$(printf '\t')" read -r name words; do
      printf " \\\\\n      '--%s=-:%s:%s'" "$name" "$name" "$([ -z "$words" ] && echo _files || echo "($words)")"
    done
    printf " \\\\\n      '*:file:_files' ;;\n"
  done
  # shellcheck disable=SC2016
  printf '%s\n' '  esac' '}' 'if [[ "$funcstack[1]" == _zeroth ]]; then _zeroth "$@"; else compdef _zeroth zeroth; fi'
}

complete_fish() {
  printf "complete -c zeroth -n __fish_use_subcommand -f -a '%s help completion'\n" "$commands"
  printf "complete -c zeroth -n __fish_use_subcommand -l version\n"
  printf "complete -c zeroth -n '__fish_seen_subcommand_from help' -f -a '%s'\n" "$commands"
  printf "complete -c zeroth -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n"
  for command in $commands; do
    flags_of "$command" | while IFS="$(printf '\t')" read -r name words; do
      printf "complete -c zeroth -n '__fish_seen_subcommand_from %s' -l %s -r" "$command" "$name"
      [ -z "$words" ] && echo || printf " -f -a '%s'\n" "$words"
    done
  done
}

case "${1-}" in
  '' | --help | -h) usage ;;
  help)
    [ $# -gt 1 ] || { usage && exit; }
    expect_command "$2"
    start "$2" --help
    ;;
  --version) start train --version ;;
  completion)
    case "${2-}" in
      bash | zsh | fish) "complete_$2" ;;
      *) die "completion is for bash, zsh or fish, as in: zeroth completion bash" ;;
    esac
    ;;
  *)
    expect_command "$1"
    start "$@"
    ;;
esac
