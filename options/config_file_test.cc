// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/options/option_registry.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Path() { return absl::StrCat(::testing::TempDir(), "/run.toml"); }

absl::Status Read(const std::string& text, TrainOptions& options) {
  EXPECT_EQ(WriteFileDurably(Path(), text), absl::OkStatus());
  return ReadConfig(Path(), options);
}

std::string Error(const std::string& text) {
  TrainOptions options;
  return std::string(Read(text, options).message());
}

void ExpectSame(const TrainOptions& one, const TrainOptions& other) {
  for (const Option& option : AllOptions()) {
    EXPECT_EQ(OptionText(option, one), OptionText(option, other)) << option.name;
  }
}

// Any value of the type.
template <typename T>
T Draw(std::mt19937_64& random) {
  if constexpr (std::is_same_v<T, std::string>) {
    static const char* const kTexts[] = {"",
                                         " ",
                                         "a b",
                                         "'",
                                         "\"",
                                         "\\n",
                                         "\n",
                                         "\r\n\t",
                                         "\x01\x1f\x7f",
                                         "#",
                                         "[x]",
                                         "=",
                                         "\"\"\"",
                                         "päth/Ж/🙂",
                                         "true",
                                         "7",
                                         "\b\f",
                                         "C:\\new",
                                         "auto",
                                         "all",
                                         "none",
                                         "90s",
                                         "2GiB"};
    return kTexts[random() % std::size(kTexts)];
  } else if constexpr (std::is_same_v<T, double>) {
    // Numbers of all magnitudes, with all digits.
    const double magnitude = std::ldexp(static_cast<double>(random() >> 11), -53);
    return std::ldexp(magnitude, static_cast<int>(random() % 2000) - 1000);
  } else {
    return static_cast<T>(random() >> random() % 64);
  }
}

TEST(ConfigFileTest, EveryOptionReadsBackAsItWasWritten) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    TrainOptions written;
    for (const Option& option : AllOptions()) {
      std::visit(
          [&](auto field) {
            if constexpr (std::is_same_v<decltype(field), EnumField>) {
              field.set(written,
                        option.allowed.words[random() % option.allowed.words.size()].second);
            } else {
              auto& value = written.*field;
              const auto before = value;
              value = Draw<std::decay_t<decltype(value)>>(random);
              if (!CheckOption(option, written).ok()) value = before;
            }
          },
          option.field);
    }
    TrainOptions read;
    const std::string text = ConfigText(written);
    ASSERT_EQ(Read(text, read), absl::OkStatus()) << text;
    ExpectSame(read, written);
  }
}

TEST(ConfigFileTest, TheEndsOfNumbersReadBack) {
  TrainOptions written;
  written.seed = std::numeric_limits<uint64_t>::max();
  written.steps = std::numeric_limits<int64_t>::max();
  written.world_size = std::numeric_limits<int>::max();
  written.lr = std::numeric_limits<double>::max();
  written.eps = std::numeric_limits<double>::denorm_min();
  written.lora_alpha = -std::numeric_limits<double>::max();
  TrainOptions read;
  ASSERT_EQ(Read(ConfigText(written), read), absl::OkStatus());
  ExpectSame(read, written);
}

// In a config file and in messages, a number has the fewest digits that read back as the same one.
TEST(ConfigFileTest, NumbersHaveNoMoreDigitsThanTheyNeed) {
  const Option& lr = *FindOption("lr");
  for (const char* text : {"0.003", "3e-05", "0.1", "1e-08", "0.30000000000000004",
                           "5.000000000000001e-05", "0.3333333333333333"}) {
    TrainOptions options;
    ASSERT_EQ(SetOption(lr, text, options), absl::OkStatus()) << text;
    EXPECT_EQ(OptionText(lr, options), text);
    EXPECT_THAT(ConfigText(options), HasSubstr(absl::StrCat("\nlr = ", text, "\n")));
  }
}

TEST(ConfigFileTest, WhatIsNotThereStaysAsItIs) {
  TrainOptions options;
  options.steps = 3;
  options.out = "here";
  ASSERT_EQ(Read("# nothing\nlr = 1\nprompt = 'x'\nshuffle = false\n", options), absl::OkStatus());
  EXPECT_EQ(options.steps, 3);
  EXPECT_EQ(options.out, "here");
  EXPECT_EQ(options.lr, 1);
  EXPECT_EQ(options.prompt, "x");
  EXPECT_FALSE(options.shuffle);
}

TEST(ConfigFileTest, GroupsAreSaid) {
  const std::string text = ConfigText(TrainOptions());
  for (const Option& option : AllOptions()) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("\n\n# ", option.group, "\n")));
  }
}

TEST(ConfigFileTest, WhatIsWrongIsNamedWithItsLine) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {"lr = 1\nstps = 5\n", ":2: there is no option stps; did you mean --steps?"},
      {"max_steps = 5\n", ":1: there is no option max_steps; did you mean --steps?"},
      {"limit_all_gathers = 5\n", "did you mean --gather_buffers"},
      {"config = \"x\"\n", ":1: there is no option config"},
      {"\n[training]\nsteps = 5\n",
       ":2: there is no option training; keys are names of flags, without sections"},
      {"steps = \"5\"\n", ":1: steps is of type string, expected a whole number of at least 0"},
      {"steps = 5.0\n", ":1: steps is of type floating-point, expected a whole number"},
      {"steps = true\n", ":1: steps is of type boolean, expected a whole number"},
      {"steps = [5]\n", ":1: steps is of type array, expected a whole number"},
      {"steps.x = 5\n", ":1: steps is of type table, expected a whole number"},
      {"shuffle = 1\n", ":1: shuffle is of type integer, expected true or false"},
      {"lr = \"1\"\n", ":1: lr is of type string, expected a finite number of at least 0, or -1"},
      {"lr = nan\n", ":1: lr = nan: expected a finite number of at least 0, or -1"},
      {"prompt = 5\n", ":1: prompt is of type integer, expected text in quotes"},
      {"param_dtype = 16\n",
       ":1: param_dtype is of type integer, expected fp32, bf16 or fp16, in quotes"},
      {"reshard_after_forward = true\n",
       "reshard_after_forward is of type boolean, expected true, "
       "false, or the ranks of the group to reshard to, in quotes"},
      {"batch_size = 0\n", ":1: batch_size = 0: expected a whole number of at least 1"},
      {"world_size = 4294967297\n", ":1: world_size = 4294967297: expected at least 1 rank"},
      {"seed = -1\n", ":1: seed = -1: expected a whole number of at least 0"},
      {"fp8 = \"int8\"\n", ":1: fp8 = int8: expected none or tensorwise"},
      {"optimizer_state_dtype = \"int8\"\n", "int8 is called float8_block now"},
      {"lr = 1\n\nlr = 2\n", ":3:6: "},
      {"data = books\n", "data = \"books\": text is quoted, and each key"},
      {"steps = 1\nsteps = 2\n", "'steps'; expected TOML such as steps = 500 or data"},
      {"steps\n", ":1:6: "},
      {"steps = \n", ":1:9: "},
      {"data = \"\xff\"\n", ":1:8: "},
      {"data = README.md\n", ":1:8: "},
  };
  for (const auto& [text, message] : kCases) {
    const std::string error = Error(text);
    EXPECT_THAT(error, StartsWith(absl::StrCat(Path(), ":"))) << text;
    EXPECT_THAT(error, HasSubstr(message)) << text;
  }
  const std::string many(500'000, 'a');
  for (const std::string& text : {many + " = 1\n", "prompt = \"" + many + "\n",
                                  "mode = \"" + many + "\"\n", "steps = " + many + "\n"}) {
    EXPECT_LT(Error(text).size(), 1000u) << text.substr(0, 20);
  }
}

TEST(ConfigFileTest, AllThatIsWrongIsSaidInTheOrderOfItsLines) {
  const std::string error = Error("steps = 0.5\nlr = 1\nbeta1 = 2\naaa = 1\n");
  EXPECT_EQ(error, absl::StrCat(Path(), ":1: steps is of type floating-point, expected a whole ",
                                "number of at least 0\n  ", Path(), ":3: beta1 = 2: expected a ",
                                "finite number of at least 0 and below 1\n  ", Path(),
                                ":4: there is no option aaa"));
}

TEST(ConfigFileTest, AFileThatIsNotThereIsAnError) {
  TrainOptions options;
  EXPECT_FALSE(ReadConfig("/nowhere/run.toml", options).ok());
}

}  // namespace
}  // namespace zeroth
