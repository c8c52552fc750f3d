// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/flags.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/command_line.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/built_with.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/train/gpu_libraries.h"

// From version_stamp.cc: the commit at which the program was last linked, with "-modified" if files
// differed from it, or "unknown" outside a Git repository.
extern const char zeroth_commit[];

namespace zeroth {
namespace {

using Words = std::vector<std::string>;

constexpr size_t kMostBytes = size_t{1} << 20;  // of a flag file
constexpr size_t kMostWords = 10000;            // a flag file that names itself would never end

// Flags that are not options of a run.
constexpr const char* kOthers[] = {"config", "flagfile", "undefok", "help", "version"};

// The parsed command line, in its order.
struct Given {
  std::vector<std::pair<std::string, std::string>> options;  // names and values
  std::map<std::string, std::string> others;  // of kOthers, and a program's additional flags
};

// Null unless `name` is one of a program's additional flags.
const ProgramFlag* FindProgramFlag(const std::vector<ProgramFlag>& program_flags,
                                   absl::string_view name) {
  const auto found = std::find_if(program_flags.begin(), program_flags.end(),
                                  [&](const ProgramFlag& each) { return each.name == name; });
  return found == program_flags.end() ? nullptr : &*found;
}

bool IsSwitch(absl::string_view name, const std::vector<ProgramFlag>& program_flags) {
  if (const ProgramFlag* const found = FindProgramFlag(program_flags, name)) {
    return found->value != nullptr;
  }
  const Option* const option = FindOption(name);
  return option != nullptr ? std::holds_alternative<bool TrainOptions::*>(option->field)
                           : name == "help" || name == "version";
}

bool Exists(absl::string_view name, const std::vector<ProgramFlag>& program_flags) {
  return FindProgramFlag(program_flags, name) != nullptr || FindOption(name) != nullptr ||
         std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers);
}

// Returns what to write after --NAME= if the value is missing.
std::string ValueHint(absl::string_view name) {
  if (name == "resume") return "auto, or the path of a checkpoint";
  const Option* const option = FindOption(name);
  const std::string expected = option != nullptr ? Expected(*option) : "";
  return expected.empty() ? "VALUE" : absl::StrCat("VALUE, where VALUE is ", expected);
}

absl::Status InsertFlagFile(const std::string& path, size_t at, Words& words) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMostBytes);
  ZEROTH_RETURN_IF_ERROR_WITH(text.status(), "--flagfile");
  Words lines;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    const absl::string_view word = absl::StripAsciiWhitespace(line);
    if (!word.empty() && word[0] != '#') lines.emplace_back(word);
  }
  if (words.size() + lines.size() > kMostWords) {
    return InvalidArgument("--flagfile=", path, ": more than ", kMostWords,
                           " words; does the file name itself?");
  }
  words.insert(words.begin() + static_cast<std::ptrdiff_t>(at), lines.begin(), lines.end());
  return absl::OkStatus();
}

absl::StatusOr<Given> ReadWords(Words words, const std::vector<ProgramFlag>& program_flags) {
  Given given;
  Words wrong, unknown;
  const auto refuse_argument = [&](absl::string_view word) {
    wrong.push_back(
        absl::StrCat("unexpected argument '", word, "': flags start with --, as in --data=FILE"));
  };
  for (size_t i = 0; i < words.size(); ++i) {
    absl::string_view word = words[i];
    const bool is_last = i + 1 == words.size();
    if (word == "--") {
      if (!is_last) refuse_argument(words[i + 1]);
      break;
    }
    // One dash is accepted for two.
    if (word == "-" || !absl::ConsumePrefix(&word, "-")) {
      refuse_argument(word);
      continue;
    }
    absl::ConsumePrefix(&word, "-");
    const size_t equals = word.find('=');
    const bool has_value = equals != absl::string_view::npos;
    std::string name(word.substr(0, equals));
    std::string value(has_value ? word.substr(equals + 1) : "true");
    if (!Exists(name, program_flags) && !has_value && absl::StartsWith(name, "no") &&
        IsSwitch(name.substr(2), program_flags)) {
      name.erase(0, 2);
      value = "false";
    }
    if (!Exists(name, program_flags)) {
      unknown.push_back(name);
      continue;
    }
    if (!has_value && !IsSwitch(name, program_flags)) {
      if (is_last || absl::StartsWith(words[i + 1], "--")) {
        wrong.push_back(
            absl::StrCat("--", name, " has no value",
                         is_last ? "" : absl::StrCat(" (the flag ", words[i + 1], " follows it)"),
                         "; write --", name, "=", ValueHint(name)));
        continue;
      }
      value = words[++i];
    }
    if (name == "flagfile") {
      ZEROTH_RETURN_IF_ERROR(InsertFlagFile(value, i + 1, words));
    } else if (FindOption(name) != nullptr) {
      given.options.emplace_back(name, value);
    } else {
      given.others[name] = value;
    }
  }
  const std::set<std::string> may_lack = absl::StrSplit(given.others["undefok"], ',');
  for (const std::string& name : unknown) {
    if (may_lack.count(name) > 0) continue;
    wrong.push_back(absl::StrCat("there is no flag --", name, DidYouMean(name)));
  }
  ZEROTH_RETURN_IF_ERROR(RefusedFlags(wrong));
  return given;
}

constexpr size_t kColumns = 100;

// Wraps `text` into lines of at most kColumns columns, each after `indent`.
std::string Wrapped(absl::string_view text, absl::string_view indent) {
  std::string lines;
  size_t column = kColumns;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column + 1 + word.size() > kColumns) {
      absl::StrAppend(&lines, lines.empty() ? "" : "\n", indent, word);
      column = indent.size() + word.size();
    } else {
      absl::StrAppend(&lines, " ", word);
      column += 1 + word.size();
    }
  }
  return absl::StrCat(lines, "\n");
}

// Calls `each` for every option, and `group` before the first option of each group.
template <typename Group, typename Each>
void ForEachOption(Group group, Each each) {
  std::string last;
  for (const Option& option : AllOptions()) {
    if (option.group != last) group(option.group);
    last = option.group;
    each(option, OptionText(option, TrainOptions()), Expected(option));
  }
}

[[noreturn]] void PrintAndExit(const std::string& text) {
  std::exit(std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? 0 : 1);
}

}  // namespace

std::string HelpText() {
  std::string text =
      "Trains a decoder, such as GPT-2 or Llama, on text, sharded over ranks.\n\n"
      "  ./bazelw run //train -- --data=README.md\n\n"
      "Relative paths are taken from the directory that the command was given in.\n"
      "--config=FILE takes options from a TOML file, as each run writes one to OUT/config.toml;\n"
      "flags override it. --version prints the version.\n";
  ForEachOption([&](absl::string_view group) { absl::StrAppend(&text, "\n", group, "\n"); },
                [&](const Option& option, absl::string_view value, absl::string_view expected) {
                  absl::StrAppend(&text, "  --", option.name, "=", value,
                                  expected.empty() ? "" : absl::StrCat("  (", expected, ")"), "\n",
                                  Wrapped(option.help, "      "));
                });
  return text;
}

std::string FlagsMarkdown() {
  std::string text = R"(# Flags of the trainer

This page is generated from `options/options.inc`, which has each option in one place:
`./bazelw run //train -- --help=markdown > docs/flags.md` writes the page.

A flag is written `--name=VALUE` or `--name VALUE`. An option that is true or false may be written `--name` or `--noname`.
`--config=FILE` reads flags from a file first:

```toml
# run.toml: names of flags, without sections; text stands in quotes
data = "books/*.txt"
model = "gpt2_124m"
steps = 2000
lr = 3e-4
```

`./bazelw run //train -- --config=run.toml --lr=1e-4` overrides one line of the file. Every run writes `OUT/config.toml`
with all options, with the numbers of ranks and threads and the batch sizes that the run used.
`--config=OUT/config.toml --out=other` repeats the run bit for bit. An error in a file is reported with its line.

Where "results" says yes, another value may change bits of losses or weights. A resumed run says which of these options
differ from those of the checkpoint ([checkpoints.md](checkpoints.md#what-is-compared)).
)";
  ForEachOption(
      [&](absl::string_view group) {
        absl::StrAppend(&text, "\n## ", group,
                        "\n\n| flag | default | allowed | results | |\n|---|---|---|---|---|\n");
      },
      [&](const Option& option, absl::string_view value, absl::string_view expected) {
        const auto cell = [](absl::string_view words) {
          return absl::StrReplaceAll(words, {{"|", "\\|"}});
        };
        absl::StrAppend(&text, "| `--", option.name, "` | ",
                        value.empty() ? "" : absl::StrCat("`", value, "`"), " | ", cell(expected),
                        " | ", option.decides_results ? "yes" : "", " | ", cell(option.help),
                        " |\n");
      });
  return text;
}

absl::StatusOr<TrainOptions> ReadCommandLine(int argc, char** argv, const std::string& help,
                                             const std::vector<ProgramFlag>& program_flags) {
  ZEROTH_ASSIGN_OR_RETURN(Given given, ReadWords(Words(argv + 1, argv + argc), program_flags));
  if (given.others.count("help") > 0) {
    PrintAndExit(given.others["help"] == "markdown" ? FlagsMarkdown() : help);
  }
  if (given.others.count("version") > 0) {
    PrintAndExit(absl::StrCat("Zeroth ", kVersion, ", commit ", zeroth_commit, "\n", BuiltWith(),
                              GpuLibraries()));
  }
  TrainOptions options;
  if (!given.others["config"].empty()) {
    const absl::Status read = ReadConfig(given.others["config"], options);
    // Errors inside the file begin with its name and line.
    if (!read.ok()) return absl::IsInvalidArgument(read) ? read : Annotate(read, "--config");
  }
  Words wrong;
  for (const ProgramFlag& flag : program_flags) {
    const auto found = given.others.find(flag.name);
    if (found == given.others.end()) continue;
    if (flag.text != nullptr) {
      *flag.text = found->second;
    } else if (!absl::SimpleAtob(found->second, flag.value)) {
      wrong.push_back(
          absl::StrCat("--", flag.name, "=", found->second, ": expected true or false"));
    }
  }
  // For other flags the last value counts, so that a script's "$@" overrides the script's flags.
  // For data this would silently leave files out, unless the value is empty.
  for (const char* const data : {"data", "eval_data"}) {
    const auto names_files = [&](const auto& each) {
      return each.first == data && !each.second.empty();
    };
    if (absl::c_count_if(given.options, names_files) < 2) continue;
    wrong.push_back(absl::StrCat("--", data, " is given more than once; write all in one, as --",
                                 data, "=a.txt,b.txt"));
  }
  // In each pair, one flag determines the other. One on the command line overrides both in a file.
  for (const auto& [one, other] :
       {std::pair("steps", "epochs"), {"warmup_steps", "warmup_ratio"}}) {
    const auto gives = [&](const char* name) {
      return absl::c_any_of(given.options, [&](const auto& each) { return each.first == name; });
    };
    if (gives(one) && gives(other)) {
      wrong.push_back(absl::StrCat("--", one, " and --", other,
                                   ": the one follows from the other; leave one of them out"));
    }
    for (const auto& [kept, reset] : {std::pair(one, other), {other, one}}) {
      if (!gives(kept)) continue;
      const Option& option = *FindOption(reset);
      ZEROTH_RETURN_IF_ERROR(SetOption(option, OptionText(option, TrainOptions()), options));
    }
  }
  for (const auto& [name, text] : given.options) {
    const absl::Status status = SetOption(*FindOption(name), text, options);
    if (!status.ok()) wrong.push_back(absl::StrCat("--", name, "=", text, ": ", status.message()));
    options.batch_size_is_given |= name == "batch_size";
  }
  ZEROTH_RETURN_IF_ERROR(RefusedFlags(wrong));
  return options;
}

absl::StatusOr<TrainOptions> ParseCommandLine(int argc, char** argv) {
  return ReadCommandLine(argc, argv, HelpText(), {});
}

}  // namespace zeroth
