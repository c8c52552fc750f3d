// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/moe.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/nn/testing/gradient_check.h"

namespace zeroth {
namespace {

using testing::Bench;

constexpr int64_t kTokens = 9;

MoeOptions OptionsWith(LoraOptions lora, bool biases = false) {
  MoeOptions options;
  options.dim = 12;
  options.hidden = 10;
  options.experts = 5;
  options.top_k = 2;
  options.weights.normalize = true;
  options.router = "gate";
  options.experts_name = "experts";
  options.gate = "w1";
  options.up = "w3";
  options.out = "w2";
  options.linear_biases = biases;
  options.lora = std::move(lora);
  return options;
}

LoraOptions Rank3() {
  LoraOptions lora;
  lora.rank = 3;
  return lora;
}

TEST(MoeMlpTest, ExpertsHaveAdaptersOfTheirOwn) {
  const MoeMlp layer("mlp", OptionsWith(Rank3()));
  const std::vector<LoraAdapter> adapters = LoraAdapters(layer);
  ASSERT_EQ(adapters.size(), 15u);
  EXPECT_EQ(adapters[2].layer(), "mlp.experts.0.w2");
  EXPECT_EQ(adapters[2].a->global_shape(), Shape({3, 10}));
  EXPECT_EQ(adapters[2].b->global_shape(), Shape({12, 3}));
  EXPECT_EQ(adapters[2].share, 0.4);
  LoraOptions one = Rank3();
  one.targets = {"w3"};
  EXPECT_EQ(LoraAdapters(MoeMlp("mlp", OptionsWith(one))).size(), 5u);
  LoraOptions none = Rank3();
  none.experts = false;
  EXPECT_TRUE(LoraAdapters(MoeMlp("mlp", OptionsWith(none))).empty());
}

// The reference of a preference objective is the model without its adapters.
TEST(MoeMlpTest, AdaptersThatAreOffChangeNoBit) {
  for (const bool biases : {false, true}) {
    SCOPED_TRACE(biases);
    Bench bench;
    MoeMlp adapted("mlp", OptionsWith(Rank3(), biases));
    MoeMlp plain("mlp", OptionsWith({}, biases));
    for (Parameter* parameter : adapted.Parameters()) bench.Own(*parameter, 0.5f);
    const std::vector<Parameter*> all = adapted.Parameters();
    for (Parameter* parameter : plain.Parameters()) {
      bench.Own(*parameter);
      for (const Parameter* other : all) {
        if (other->name() != parameter->name()) continue;
        const std::vector<float> values = *other->data().ToHost<float>();
        std::copy(values.begin(), values.end(), parameter->data().data<float>());
      }
    }
    Context& context = *bench.context;
    const Shape shape({1, kTokens, 12});
    const Value x = context.MakeValue(bench.Upload(shape, bench.Draw(shape.numel())));
    const auto values = [&](MoeMlp& layer) {
      return *layer.Forward(context, x)->data.ToHost<float>();
    };
    const std::vector<float> expected = values(plain);
    EXPECT_NE(values(adapted), expected);
    const auto without_adapters = context.DisableAdapters();
    EXPECT_EQ(values(adapted), expected);
  }
}

}  // namespace
}  // namespace zeroth
