// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/generate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/philox.h"
#include "zeroth/nn/ops/embedding.h"
#include "zeroth/nn/testing/capped_by_transform.h"
#include "zeroth/nn/testing/gradient_check.h"

namespace zeroth {
namespace {

// A family's tiny model with random values, norms and biases included.
class TinyModel {
 public:
  explicit TinyModel(const std::string& name, int64_t positions = 0,
                     const ModelRegistry::Factory& build = ModelRegistry::Create) {
    nlohmann::json config =
        ReadJsonFile(absl::StrCat("tests/testdata/", name, "/config.json")).value();
    const char* const key =
        config.contains("n_positions") ? "n_positions" : "max_position_embeddings";
    if (positions > 0) config[key] = positions;
    Own(build(config, {}).value());
  }
  explicit TinyModel(std::unique_ptr<LanguageModel> model) { Own(std::move(model)); }

  LanguageModel& model() { return *model_; }

  absl::StatusOr<Tensor> Logits(absl::Span<const int32_t> tokens, int64_t from,
                                KeyValueCache* cache, int64_t batch = 1) {
    const Shape shape{batch, static_cast<int64_t>(tokens.size()) / batch};
    const absl::StatusOr<Tensor> input =
        Tensor::FromHost<int32_t>(*bench_.device, shape, tokens, MemoryCategory::kActivations);
    if (!input.ok()) return input.status();
    return model_->Logits(*bench_.context, *input, from, cache);
  }
  std::vector<float> LogitsOf(absl::Span<const int32_t> tokens, int64_t from = 0,
                              KeyValueCache* cache = nullptr) {
    const absl::StatusOr<Tensor> logits = Logits(tokens, from, cache);
    EXPECT_TRUE(logits.ok()) << logits.status();
    return logits.ok() ? logits->ToHost<float>().value() : std::vector<float>();
  }
  // Continues the prompt by this model, and appends the number of tokens that each call of Logits
  // computes to `computed`.
  absl::StatusOr<std::vector<int32_t>> Continue(const std::vector<int32_t>& prompt,
                                                const GenerateOptions& options,
                                                std::vector<size_t>* computed = nullptr) {
    return Generate(model(), prompt, options,
                    [&](absl::Span<const int32_t> tokens, int64_t from, KeyValueCache* cache) {
                      if (computed != nullptr) computed->push_back(tokens.size());
                      return Logits(tokens, from, cache);
                    });
  }
  // The transform of the model as a teacher.
  const LogitTransform* HeadTransform() {
    const Tensor token =
        Tensor::FromHost<int32_t>(*bench_.device, Shape({1, 1}), {1}, MemoryCategory::kActivations)
            .value();
    const LogitTransform* transform = nullptr;
    const auto keep = [&](const HeadInputs& head) {
      transform = head.transform;
      return absl::OkStatus();
    };
    EXPECT_TRUE(model_->WithHeadInputs(*bench_.context, token, keep).ok());
    return transform;
  }
  std::vector<int32_t> RandomTokens(size_t count) const {
    const CounterRng rng(3, "tokens");
    std::vector<int32_t> tokens(count);
    for (size_t i = 0; i < count; ++i) {
      tokens[i] = static_cast<int32_t>(rng.Bits64(i) % static_cast<uint64_t>(model_->vocab_size()));
    }
    return tokens;
  }

 private:
  void Own(std::unique_ptr<LanguageModel> model) {
    model_ = std::move(model);
    for (Parameter* parameter : model_->Parameters()) {
      const bool is_vector = parameter->shape().rank() == 1;
      bench_.Own(*parameter, is_vector ? 1.0f : 0.3f);
    }
  }

  testing::Bench bench_;
  std::unique_ptr<LanguageModel> model_;
};

class GenerateTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GenerateTest, WithACacheLogitsAreThoseOfTheWholeSequence) {
  TinyModel tiny(GetParam());
  ASSERT_TRUE(tiny.model().SupportsCache());
  // The lengths exceed windows and the original context, except for models whose RoPE frequencies
  // depend on the length.
  const int64_t valid = tiny.model().CacheValidUpTo();
  const std::vector<int32_t> tokens = tiny.RandomTokens(valid > 0 ? valid : 30);
  const std::vector<float> whole = tiny.LogitsOf(tokens);
  double largest = 0;
  for (const float x : whole) largest = std::max<double>(largest, std::abs(x));
  for (const std::vector<size_t>& lengths : {std::vector<size_t>{7, 1, 1, 5, 1, tokens.size() - 15},
                                             std::vector<size_t>(tokens.size(), 1)}) {
    KeyValueCache cache(30);
    std::vector<float> pieces;
    for (const size_t length : lengths) {
      const auto piece =
          absl::MakeConstSpan(tokens).subspan(static_cast<size_t>(cache.size()), length);
      const std::vector<float> logits = tiny.LogitsOf(piece, 0, &cache);
      pieces.insert(pieces.end(), logits.begin(), logits.end());
    }
    ASSERT_EQ(pieces.size(), whole.size());
    double worst = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      worst = std::max<double>(worst, std::abs(pieces[i] - whole[i]));
    }
    // Matmuls of one row and of thirty sum in different orders, which also depend on the processor.
    // A key that is missing or at another position changes logits by more than a hundredth.
    EXPECT_LT(worst, 3e-5 * largest) << "of logits up to " << largest;
  }
}

// The likeliest token again and again, also beyond the model's positions, where the context is cut.
TEST_P(GenerateTest, ContinuesAsWithoutACache) {
  TinyModel tiny(GetParam(), /*positions=*/14);
  std::vector<int32_t> ids = tiny.RandomTokens(5);
  GenerateOptions options;
  options.max_tokens = 20;
  options.sampling.temperature = 0;
  std::vector<int32_t> told;
  int64_t computed = 0;
  const auto generated = Generate(
      tiny.model(), ids, options,
      [&](absl::Span<const int32_t> tokens, int64_t from, KeyValueCache* cache) {
        computed += static_cast<int64_t>(tokens.size());
        return tiny.Logits(tokens, from, cache);
      },
      [&](int32_t token) {
        told.push_back(token);
        return absl::OkStatus();
      });
  ASSERT_TRUE(generated.ok()) << generated.status();
  EXPECT_EQ(told, *generated);
  // The prompt, 9 more tokens until the positions are full, then 14 for each of the last 10.
  EXPECT_EQ(computed, 5 + 9 + 10 * 14);
  std::vector<int32_t> expected;
  for (int64_t i = 0; i < options.max_tokens; ++i) {
    const size_t length = std::min<size_t>(ids.size(), 14);
    const std::vector<float> logits =
        tiny.LogitsOf(absl::MakeConstSpan(ids).last(length), static_cast<int64_t>(length) - 1);
    ids.push_back(
        static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    expected.push_back(ids.back());
  }
  EXPECT_EQ(*generated, expected);
  // It ends at a stop token, which is not reported.
  const auto stop = std::find(expected.begin(), expected.end(), expected[7]);
  options.stop_tokens = {-1, *stop};
  const auto stopped = tiny.Continue(tiny.RandomTokens(5), options);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(*stopped, std::vector<int32_t>(expected.begin(), stop));
}

// Longer sequences than the original context are rotated by other frequencies, so the cached keys
// are computed again.
TEST(GenerateLongropeTest, TheCacheIsFilledAgainBeyondTheOriginalContext) {
  TinyModel tiny("phi3_tiny");
  ASSERT_EQ(tiny.model().CacheValidUpTo(), 16);
  std::vector<int32_t> ids = tiny.RandomTokens(14);
  GenerateOptions options;
  options.max_tokens = 6;
  options.sampling.temperature = 0;
  std::vector<size_t> computed;
  const auto generated = tiny.Continue(ids, options, &computed);
  ASSERT_TRUE(generated.ok()) << generated.status();
  // The prompt, two more tokens, all 17, and one each.
  EXPECT_EQ(std::accumulate(computed.begin(), computed.end(), int64_t{0}), 14 + 2 + 17 + 2);
  std::vector<int32_t> expected;
  while (static_cast<int64_t>(expected.size()) < options.max_tokens) {
    const std::vector<float> logits = tiny.LogitsOf(ids, static_cast<int64_t>(ids.size()) - 1);
    ids.push_back(
        static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    expected.push_back(ids.back());
  }
  EXPECT_EQ(*generated, expected);
  KeyValueCache cache(30);
  ASSERT_TRUE(tiny.Logits(tiny.RandomTokens(16), 0, &cache).ok());
  const absl::Status stale = tiny.Logits(tiny.RandomTokens(1), 0, &cache).status();
  EXPECT_EQ(stale.code(), absl::StatusCode::kFailedPrecondition) << stale;
}

// The largest integer asks for tokens until one ends the text.
TEST_P(GenerateTest, AnyNumberOfTokensMayBeAskedFor) {
  TinyModel tiny(GetParam());
  GenerateOptions options;
  options.max_tokens = std::numeric_limits<int64_t>::max();
  for (int32_t id = 0; id < tiny.model().vocab_size(); ++id) options.stop_tokens.push_back(id);
  const auto generated = tiny.Continue(tiny.RandomTokens(5), options);
  ASSERT_TRUE(generated.ok()) << generated.status();
  EXPECT_TRUE(generated->empty());
}

INSTANTIATE_TEST_SUITE_P(Families, GenerateTest,
                         ::testing::Values("gemma2_tiny", "gemma3_tiny", "gpt2_tiny", "llama_tiny",
                                           "llama31_tiny", "mistral_tiny", "mixtral_tiny",
                                           "dots1_tiny", "gpt_oss_tiny", "qwen2_moe_tiny",
                                           "olmo2_tiny", "phi3_tiny", "qwen2_tiny", "qwen3_5_tiny",
                                           "qwen3_moe_tiny", "qwen3_tiny"),
                         [](const auto& model) { return std::string(model.param); });

// Prompts of odd lengths, also shorter than the convolution, whose state then begins with zeros.
TEST(GenerateLinearAttentionTest, ContinuesPromptsOfAnyLength) {
  TinyModel tiny("qwen3_5_tiny");
  for (const size_t length : {1, 2, 3, 5, 17}) {
    std::vector<int32_t> ids = tiny.RandomTokens(length);
    GenerateOptions options;
    options.max_tokens = 12;
    options.sampling.temperature = 0;
    std::vector<size_t> computed;
    const auto generated = tiny.Continue(ids, options, &computed);
    ASSERT_TRUE(generated.ok()) << generated.status();
    EXPECT_EQ(std::accumulate(computed.begin(), computed.end(), int64_t{0}),
              static_cast<int64_t>(length) + options.max_tokens - 1);
    for (const int32_t token : *generated) {
      const std::vector<float> logits = tiny.LogitsOf(ids, static_cast<int64_t>(ids.size()) - 1);
      EXPECT_EQ(token, std::max_element(logits.begin(), logits.end()) - logits.begin()) << length;
      ids.push_back(token);
    }
  }
}

// Logits checks `from` after all layers have computed their next states.
TEST(GenerateLinearAttentionTest, AnErrorLeavesTheStatesAsTheyWere) {
  TinyModel tiny("qwen3_5_tiny");
  const std::vector<int32_t> tokens = tiny.RandomTokens(6);
  KeyValueCache cache(6);
  KeyValueCache undisturbed(6);
  const auto first = absl::MakeConstSpan(tokens).first(5);
  EXPECT_EQ(tiny.LogitsOf(first, 0, &cache), tiny.LogitsOf(first, 0, &undisturbed));
  EXPECT_TRUE(absl::IsInvalidArgument(tiny.Logits({1}, /*from=*/2, &cache).status()));
  EXPECT_EQ(cache.size(), 5);
  const auto last = absl::MakeConstSpan(tokens).last(1);
  EXPECT_EQ(tiny.LogitsOf(last, 0, &cache), tiny.LogitsOf(last, 0, &undisturbed));
}

// Without a layer that has keys and values, the model itself refuses what the cache has no room
// for.
TEST(GenerateLinearAttentionTest, TheCacheHoldsOneSequenceOfItsCapacity) {
  const auto all_linear = [](nlohmann::json config, const ModelOptions& options) {
    for (auto& type : config["layer_types"]) type = "linear_attention";
    return ModelRegistry::Create(config, options);
  };
  TinyModel tiny("qwen3_5_tiny", /*positions=*/0, all_linear);
  KeyValueCache cache(3);
  const absl::Status batch = tiny.Logits({1, 2}, 0, &cache, /*batch=*/2).status();
  EXPECT_TRUE(absl::IsInvalidArgument(batch)) << batch;
  EXPECT_EQ(tiny.LogitsOf({1, 2}, 0, &cache), tiny.LogitsOf({1, 2}));
  const absl::Status full = tiny.Logits({1, 2}, 0, &cache).status();
  EXPECT_TRUE(absl::IsInvalidArgument(full)) << full;
  EXPECT_NE(full.message().find("at most 1 tokens: the cache has 2 of 3"), std::string::npos)
      << full;
  EXPECT_TRUE(tiny.Logits({1}, 0, &cache).ok());
}

// A custom model: the next token depends on the last one alone.
class Bigram : public LanguageModel {
 public:
  Bigram() : LanguageModel("") {
    weight_ = AddParameter("weight", Shape({11, 7}), Initializer::Zeros());
  }
  int64_t vocab_size() const override { return 11; }
  int64_t max_seq_len() const override { return 8; }
  nlohmann::json HfConfig() const override { return {}; }

 protected:
  absl::StatusOr<Value> Hidden(Context& context, const Tensor& tokens) override {
    return EmbeddingOp(context, tokens, *weight_, nullptr);
  }
  Parameter& head() override { return *weight_; }
  int64_t MatmulWeights() const override { return 11 * 7; }
  int64_t AttentionWidth() const override { return 0; }

 private:
  Parameter* weight_;
};

TEST(GenerateWithoutCacheTest, EachTokenComputesTheWholeContext) {
  TinyModel tiny(std::make_unique<Bigram>());
  KeyValueCache unused(30);
  EXPECT_TRUE(absl::IsUnimplemented(tiny.Logits({1}, 0, &unused).status()));
  GenerateOptions options;
  options.max_tokens = 5;
  std::vector<size_t> computed;
  const auto generated = tiny.Continue(tiny.RandomTokens(5), options, &computed);
  ASSERT_TRUE(generated.ok()) << generated.status();
  EXPECT_EQ(computed, (std::vector<size_t>{5, 6, 7, 8, 8}));
}

TEST(TransformedLogitsTest, HaveTheBitsOfTheSameCap) {
  TinyModel capped("gemma2_tiny");
  TinyModel transformed("gemma2_tiny", /*positions=*/0, testing::CapByTransform);
  const std::vector<int32_t> tokens = capped.RandomTokens(9);
  EXPECT_EQ(transformed.LogitsOf(tokens), capped.LogitsOf(tokens));
  EXPECT_NE(transformed.HeadTransform(), nullptr);
}

TEST(GenerateErrorsTest, SaysWhatIsWrong) {
  TinyModel tiny("llama_tiny");
  const auto error = [&](const std::vector<int32_t>& prompt, const GenerateOptions& options) {
    const auto generated = tiny.Continue(prompt, options);
    EXPECT_TRUE(absl::IsInvalidArgument(generated.status())) << generated.status();
    return std::string(generated.status().message());
  };
  EXPECT_NE(error({}, {}).find("no token"), std::string::npos);
  EXPECT_NE(error({1, 257}, {}).find("token 257, but the model's vocabulary ends at 256"),
            std::string::npos);
  GenerateOptions options;
  options.sampling.temperature = -1;
  EXPECT_NE(error({1}, options).find("temperature is -1"), std::string::npos);
  options.sampling = {.temperature = 1, .top_k = -2};
  EXPECT_NE(error({1}, options).find("top_k is -2"), std::string::npos);
  options.sampling = {.temperature = 1, .top_p = 0};
  EXPECT_NE(error({1}, options).find("top_p is 0"), std::string::npos);
  // A cache holds one sequence, and no more than it has room for.
  KeyValueCache cache(3);
  EXPECT_TRUE(tiny.Logits({1, 2}, 0, &cache).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(tiny.Logits({1, 2}, 0, &cache).status()));
  EXPECT_EQ(cache.size(), 2);
  EXPECT_TRUE(tiny.Logits({1}, 0, &cache).ok());
}

TEST(PickTokenTest, TemperatureZeroTakesTheLikeliest) {
  EXPECT_EQ(PickToken({0.1f, 3.0f, -2.0f}, {.temperature = 0.0}, 0.99), 1);
}

// How often each of `logits` is drawn.
std::vector<double> Frequencies(const std::vector<float>& logits, const SamplingOptions& options) {
  std::vector<double> counts(logits.size());
  const CounterRng rng(1, "draws");
  constexpr int kDraws = 40000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    counts[static_cast<size_t>(PickToken(logits, options, rng.Uniform(i)))] += 1.0 / kDraws;
  }
  return counts;
}

void ExpectNear(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 0.01) << i;
    EXPECT_EQ(found[i] == 0, expected[i] == 0) << i;
  }
}

TEST(PickTokenTest, DrawsFollowTheSoftmax) {
  // 1 : 2 : 5.
  const std::vector<float> logits = {0.0f, std::log(2.0f), std::log(5.0f)};
  ExpectNear(Frequencies(logits, {.temperature = 1}), {1 / 8.0, 2 / 8.0, 5 / 8.0});
  ExpectNear(Frequencies(logits, {.temperature = 0.5}), {1 / 30.0, 4 / 30.0, 25 / 30.0});
  EXPECT_EQ(PickToken(logits, {.temperature = 1}, 0.0), 0);
  EXPECT_EQ(PickToken(logits, {.temperature = 1}, 0.999999), 2);
}

TEST(PickTokenTest, TopKAndTopPLeaveTheLikeliest) {
  // 1 : 4 : 2 : 3, out of order.
  const std::vector<float> logits = {0.0f, std::log(4.0f), std::log(2.0f), std::log(3.0f)};
  ExpectNear(Frequencies(logits, {.temperature = 1, .top_k = 2}), {0, 4 / 7.0, 0, 3 / 7.0});
  ExpectNear(Frequencies(logits, {.temperature = 1, .top_k = 9}), {0.1, 0.4, 0.2, 0.3});
  ExpectNear(Frequencies(logits, {.temperature = 1, .top_p = 0.35}), {0, 1, 0, 0});
  ExpectNear(Frequencies(logits, {.temperature = 1, .top_p = 0.65}), {0, 4 / 7.0, 0, 3 / 7.0});
  ExpectNear(Frequencies(logits, {.temperature = 1, .top_p = 0.75}),
             {0, 4 / 9.0, 2 / 9.0, 3 / 9.0});
  // Among the three likeliest, 4 : 2 : 3, the first two have 7 / 9.
  ExpectNear(Frequencies(logits, {.temperature = 1, .top_k = 3, .top_p = 0.75}),
             {0, 4 / 7.0, 0, 3 / 7.0});
}

}  // namespace
}  // namespace zeroth
