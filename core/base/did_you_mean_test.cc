// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/did_you_mean.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

constexpr NamedElsewhere kElsewhere[] = {{"full_shard (ZeRO-3)", "zero3 zero_3 fsdp"}};

std::string Hint(const std::string& unknown) {
  const std::vector<std::string> ours = {"full_shard", "hybrid_shard", "no_shard"};
  return DidYouMean(unknown, kElsewhere, ours);
}

TEST(DidYouMeanTest, NamesOfOthersComeFirstHoweverTheyAreWritten) {
  for (const char* name : {"zero3", "ZeRO-3", "FSDP", "zero.3"}) {
    EXPECT_EQ(Hint(name), "; did you mean full_shard (ZeRO-3)?") << name;
  }
}

TEST(DidYouMeanTest, OtherwiseTheNearestSpellings) {
  EXPECT_EQ(Hint("fullshard"), "; did you mean full_shard?");
  EXPECT_EQ(Hint("FULL_SHARD"), "; did you mean full_shard?");
  EXPECT_EQ(Hint("hybrd_shrad"), "; did you mean hybrid_shard?");
  const std::vector<std::string> options = {"beta1", "beta2", "steps"};
  EXPECT_EQ(DidYouMean("beta3", {}, options, "--"), "; did you mean --beta1 or --beta2?");
}

// Another number means another thing of the same kind, not a typing error.
TEST(DidYouMeanTest, NamesInOtherNumbersComeBeforeSpellings) {
  const std::vector<std::string> models = {"gpt2_124m", "llama32_1b", "llama3_8b",
                                           "llama_1b",  "llama_tiny", "mistral_7b"};
  for (const char* name : {"llama7b", "llama_7b", "Llama-7B"}) {
    EXPECT_EQ(DidYouMean(name, {}, models), "; did you mean llama_1b or llama3_8b or llama32_1b?")
        << name;
  }
  EXPECT_EQ(DidYouMean("mistral7b", {}, models), "; did you mean mistral_7b?");
  EXPECT_EQ(DidYouMean("llama_tniy", {}, models), "; did you mean llama_tiny?");
  EXPECT_EQ(DidYouMean("7", {}, models), "");
  const std::vector<std::string> machines = {"A100-40", "A100-80", "H100"};
  EXPECT_EQ(DidYouMean("H100-80", {}, machines), "; did you mean H100?");
  EXPECT_EQ(DidYouMean("a100", {}, machines), "; did you mean A100-40 or A100-80?");
}

TEST(DidYouMeanTest, FarNamesGetNoHint) {
  EXPECT_EQ(Hint("quagga"), "");
  EXPECT_EQ(Hint(""), "");
  EXPECT_EQ(DidYouMean("cpu", {}, {}), "");
}

TEST(InsteadOfTest, TheNamesThatThereAreAreListed) {
  const std::vector<std::string> ours = {"cpu", "cuda"};
  EXPECT_EQ(InsteadOf("cpi", {}, ours), "; did you mean cpu? This program has: cpu, cuda");
  EXPECT_EQ(InsteadOf("tpu_v5", {}, ours), "; this program has: cpu, cuda");
  EXPECT_EQ(InsteadOf("cpu", {}, {}), "; this program has: none; its deps lack them");
}

}  // namespace
}  // namespace zeroth
