// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/option_docs.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

#include "zeroth/train/option_registry.h"

namespace zeroth {
namespace {

constexpr size_t kColumns = 100;

// Lines of at most kColumns, each behind `indent`.
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

// Calls `group` before the first option of each.
template <typename Group, typename Each>
void ForEachOption(Group group, Each each) {
  std::string last;
  for (const Option& option : AllOptions()) {
    if (option.group != last) group(option.group);
    last = option.group;
    each(option, OptionText(option, TrainOptions()), Expected(option));
  }
}

}  // namespace

std::string HelpText() {
  std::string text =
      "Trains a GPT-2 or Llama model on text, sharded over ranks.\n\n"
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

This page is made from `train/options.inc`, which has each option in one place:
`./bazelw run //train -- --help=markdown > docs/flags.md` writes it again.

A flag is written `--name=VALUE` or `--name VALUE`; `--name` and `--noname` do for one that is true or false.
`--config=FILE` reads flags from a file first:

```toml
# run.toml: names of flags, without sections; text stands in quotes
data = "books/*.txt"
model = "gpt2_124m"
steps = 2000
lr = 3e-4
```

`./bazelw run //train -- --config=run.toml --lr=1e-4` overrides one line of it. Every run writes `OUT/config.toml`, which
has all options as they were resolved: ranks, threads, batches. `--config=OUT/config.toml --out=other` makes the same run
again, bit for bit. What is wrong in a file is said with its line.

Where "results" says yes, another value may give losses or weights other bits; a resumed run says which of these differ
([checkpoints.md](checkpoints.md#what-is-compared)).
)";
  ForEachOption(
      [&](absl::string_view group) {
        absl::StrAppend(&text, "\n## ", group,
                        "\n\n| flag | default | allowed | results | |\n|---|---|---|---|---|\n");
      },
      [&](const Option& option, absl::string_view value, absl::string_view expected) {
        absl::StrAppend(&text, "| `--", option.name, "` | ",
                        value.empty() ? "" : absl::StrCat("`", value, "`"), " | ", expected, " | ",
                        option.decides_results ? "yes" : "", " | ", option.help, " |\n");
      });
  return text;
}

}  // namespace zeroth
