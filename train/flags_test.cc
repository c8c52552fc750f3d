// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/flags.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/options/option_registry.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Words = std::vector<std::string>;

absl::StatusOr<TrainOptions> Parse(Words words) {
  words.insert(words.begin(), "train");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  return ParseCommandLine(static_cast<int>(arguments.size()), arguments.data());
}

std::string Error(const Words& words) { return std::string(Parse(words).status().message()); }

std::string Write(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  EXPECT_EQ(WriteFileDurably(path, text), absl::OkStatus());
  return path;
}

TEST(FlagsTest, EveryWayToWriteAFlag) {
  const auto options =
      Parse({"--data", "a", "-steps=3", "--lr", "-0", "--noshuffle", "--fp32_norms",
             "--prefetch=no", "--eval_data", "", "--steps=4", "--"});
  ASSERT_EQ(options.status(), absl::OkStatus());
  EXPECT_EQ(options->data, "a");
  EXPECT_EQ(options->steps, 4) << "the last one counts";
  EXPECT_EQ(options->lr, 0);
  EXPECT_FALSE(options->shuffle);
  EXPECT_TRUE(options->fp32_norms);
  EXPECT_FALSE(options->prefetch);
  EXPECT_EQ(options->eval_data, "");
}

// Every option is a flag, with the option's default.
TEST(FlagsTest, EveryOptionIsAFlag) {
  for (const Option& option : AllOptions()) {
    if (option.name == std::string("data")) continue;  // has no default
    const std::string text = OptionText(option, TrainOptions());
    const auto options = Parse({absl::StrCat("--", option.name, "=", text), "--data=a"});
    ASSERT_EQ(options.status(), absl::OkStatus()) << option.name;
    TrainOptions expected;
    expected.data = "a";
    EXPECT_EQ(OptionText(option, *options), OptionText(option, expected)) << option.name;
  }
}

TEST(FlagsTest, OtherWordsThanFlagsAreRefused) {
  EXPECT_EQ(Error({"--data=a", "--resume", "--out=a"}),
            "--resume has no value (the flag --out=a follows it); write --resume=auto, or the path "
            "of a checkpoint; --help lists all flags");
  EXPECT_THAT(Error({"--out"}), HasSubstr("--out has no value; write --out=VALUE;"));
  EXPECT_THAT(Error({"--grad_sync"}),
              HasSubstr("write --grad_sync=VALUE, where VALUE is every or last;"));
  EXPECT_THAT(Error({"stray", "--data=a"}), HasSubstr("unexpected argument 'stray': flags start"));
  EXPECT_THAT(Error({"--data=a", "--", "--x"}), HasSubstr("unexpected argument '--x'"));
  EXPECT_THAT(Error({"--data=a", "--nosteps"}), HasSubstr("there is no flag --nosteps"));
  EXPECT_THAT(Error({"--data=a", "--limit_all_gathers=2"}),
              HasSubstr("there is no flag --limit_all_gathers; did you mean --gather_buffers"));
  const std::string all = Error({"--max_steps=4", "--stps", "4"});
  EXPECT_THAT(all, HasSubstr("no flag --max_steps; did you mean --steps?"));
  EXPECT_THAT(all, HasSubstr("no flag --stps; did you mean --steps?"));
  EXPECT_EQ(Parse({"--data=a", "--undefok=x,y", "--x"}).status(), absl::OkStatus());
  EXPECT_THAT(Error({"--data=a", "--undefok=x", "--xx"}), HasSubstr("there is no flag --xx"));
}

TEST(FlagsTest, DataThatIsGivenTwiceIsNotDropped) {
  EXPECT_THAT(Error({"--data=a", "--data=b"}), HasSubstr("--data is given more than once"));
  EXPECT_THAT(Error({"--data=a", "--eval_data=b", "--eval_data=c"}),
              HasSubstr("--eval_data is given more than once"));
  EXPECT_EQ(Parse({"--data=a", "--eval_data=b", "--eval_data="})->eval_data, "");
  EXPECT_EQ(Parse({"--data=a", "--steps=3", "--steps=4"})->steps, 4);
}

TEST(FlagsTest, ValuesThatDoNotFitAreSaidTogether) {
  const std::string error =
      Error({"--data=a", "--steps=many", "--lr=1e999", "--grad_accum=0", "--shuffle=maybe",
             "--seed=-1", "--world_size=99999999999", "--fp8=int8", "--steps=3.5"});
  for (const char* part :
       {"--steps=many: expected a whole number of at least 0", "--lr=1e999: expected a finite",
        "--grad_accum=0: expected a whole number of at least 1",
        "--shuffle=maybe: expected true or false",
        "--seed=-1: expected a whole number of at least 0",
        "--world_size=99999999999: expected at least 1 rank",
        "--fp8=int8: expected none or tensorwise", "--steps=3.5: expected a whole"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
}

TEST(FlagsTest, FlagsOverrideTheFile) {
  const std::string config = Write("run.toml", "data = \"b\"\nsteps = 7\nlr = 0.25\n");
  const auto options = Parse({"--steps=9", absl::StrCat("--config=", config)});
  ASSERT_EQ(options.status(), absl::OkStatus());
  EXPECT_EQ(options->data, "b");
  EXPECT_EQ(options->steps, 9);
  EXPECT_EQ(options->lr, 0.25);
  EXPECT_EQ(Error({"--config=/nowhere.toml"}),
            "--config: cannot open /nowhere.toml: No such file or directory");
  EXPECT_EQ(Error({"--flagfile=/nowhere"}),
            "--flagfile: cannot open /nowhere: No such file or directory");
  EXPECT_THAT(Error({absl::StrCat("--config=", Write("bad.toml", "stps = 7\n"))}),
              HasSubstr("bad.toml:1: there is no option stps; did you mean --steps?"));
}

TEST(FlagsTest, AFlagReplacesWhatTheFileSaysInAnotherWay) {
  const std::string steps = Write("steps.toml", "data = \"b\"\nsteps = 7\nwarmup_ratio = 0.1\n");
  const auto in_epochs =
      Parse({"--epochs=2", "--warmup_steps=3", absl::StrCat("--config=", steps)});
  ASSERT_EQ(in_epochs.status(), absl::OkStatus());
  EXPECT_EQ(in_epochs->steps, TrainOptions().steps);
  EXPECT_EQ(in_epochs->epochs, 2);
  EXPECT_EQ(in_epochs->warmup_ratio, 0);
  EXPECT_EQ(in_epochs->warmup_steps, 3);
  const std::string epochs = Write("epochs.toml", "data = \"b\"\nepochs = 2\n");
  const auto evaluates = Parse({"--steps=0", absl::StrCat("--config=", epochs)});
  ASSERT_EQ(evaluates.status(), absl::OkStatus());
  EXPECT_EQ(evaluates->epochs, 0);
  EXPECT_EQ(evaluates->steps, 0);
  EXPECT_THAT(Error({"--data=a", "--steps=500", "--epochs=3"}),
              HasSubstr("--steps and --epochs: the one follows from the other"));
}

TEST(FlagsTest, ABatchSizeThatIsTheDefaultIsGivenAllTheSame) {
  EXPECT_FALSE(Parse({"--data=a"})->batch_size_is_given);
  EXPECT_TRUE(Parse({"--data=a", "--batch_size=8"})->batch_size_is_given);
}

TEST(FlagsTest, WordsMayStandInAFile) {
  const std::string more = Write("more", "# few\n\n  --steps=7\n--out=x\n");
  const auto options = Parse({"--data=a", absl::StrCat("--flagfile=", more), "--out=y"});
  ASSERT_EQ(options.status(), absl::OkStatus());
  EXPECT_EQ(options->steps, 7);
  EXPECT_EQ(options->out, "y");
  const std::string itself = absl::StrCat(::testing::TempDir(), "/itself");
  Write("itself", absl::StrCat("--steps=1\n--flagfile=", itself));
  EXPECT_THAT(Error({absl::StrCat("--flagfile=", itself)}),
              HasSubstr("does the file name itself?"));
}

TEST(FlagsTest, HelpAndVersionArePrinted) {
  EXPECT_EXIT(Parse({"--help"}).IgnoreError(), ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(Parse({"--version"}).IgnoreError(), ::testing::ExitedWithCode(0), "");
}

// Every option is in both texts, with its group and a description.
TEST(FlagsTest, EveryOptionIsExplained) {
  const std::string help = HelpText();
  const std::string markdown = FlagsMarkdown();
  for (const Option& option : AllOptions()) {
    EXPECT_GT(std::string(option.help).size(), 10u) << option.name;
    EXPECT_THAT(help, HasSubstr(absl::StrCat("\n  --", option.name, "=")));
    EXPECT_THAT(help, HasSubstr(absl::StrCat("\n", option.group, "\n")));
    EXPECT_THAT(markdown, HasSubstr(absl::StrCat("\n| `--", option.name, "` | ")));
    EXPECT_THAT(markdown, HasSubstr(option.help));
    EXPECT_THAT(std::string(option.help), Not(HasSubstr("|"))) << "would end a cell of the table";
  }
  for (const auto line : absl::StrSplit(help, '\n')) EXPECT_LE(line.size(), 120u) << line;
}

}  // namespace
}  // namespace zeroth
