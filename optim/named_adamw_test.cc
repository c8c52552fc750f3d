// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/optim/named_adamw.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace zeroth {
namespace {

class NamedAdamWTest : public ::testing::Test {
 protected:
  void SetUp() override {
    device_ = *DeviceRegistry::Create("cpu", DeviceOptions());
    kernels_ = *KernelRegistry::Create(*device_, device_->compute_stream());
    options_.beta2 = 0.999;
  }
  Tensor Buffer(const std::vector<float>& values) {
    return *Tensor::FromHost<float>(*device_, Shape({static_cast<int64_t>(values.size())}),
                                    absl::MakeConstSpan(values), MemoryCategory::kWorkspace);
  }
  std::unique_ptr<NamedAdamW> Make() {
    return *NamedAdamW::Create(*device_, *kernels_, {{"a", 4}, {"b", 2}}, options_);
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Kernels> kernels_;
  AdamWOptions options_;
};

const std::vector<std::vector<float>> kGradients = {
    {.1f, .2f, -.3f, 0}, {.05f, -.2f, .3f, 0}, {.1f, .2f, .3f, 1e-8f}};

TEST_F(NamedAdamWTest, UpdatesInPlaceToKnownValues) {
  const std::unique_ptr<NamedAdamW> adamw = Make();
  EXPECT_EQ(adamw->MemoryBytes(), 2 * 4 * 6);
  const Tensor param = Buffer({1, 2, 3, 4});
  for (const std::vector<float>& gradient : kGradients) {
    ASSERT_TRUE(adamw->StepOnParams({{"a", param}}, {{"a", Buffer(gradient)}}, 0.1).ok());
  }
  const std::vector<double> expected = {0.683707178, 1.81421924, 2.96347499, 3.8578066};
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(param.data<float>()[i], expected[i], 1e-6);
}

TEST_F(NamedAdamWTest, AStepOnBareGradientsGivesTheUpdateThatWouldBeMade) {
  options_.weight_decay = 0;
  const std::unique_ptr<NamedAdamW> bare = Make();
  const std::unique_ptr<NamedAdamW> in_place = Make();
  for (const std::vector<float>& gradient : kGradients) {
    const Tensor param = Buffer({0, 0, 0, 0});
    const absl::StatusOr<NamedAdamW::Buffers> update = bare->Step({{"a", Buffer(gradient)}}, 0.1);
    ASSERT_TRUE(update.ok()) << update.status();
    ASSERT_EQ(update->size(), 1u);
    ASSERT_TRUE(in_place->StepOnParams({{"a", param}}, {{"a", Buffer(gradient)}}, 0.1).ok());
    EXPECT_EQ(*update->at("a").ToHost<float>(), *param.ToHost<float>());
  }
}

TEST_F(NamedAdamWTest, PlainMemoryAndFlatShardsGetTheSameBits) {
  const std::unique_ptr<NamedAdamW> on_tensors = Make();
  const std::unique_ptr<NamedAdamW> on_spans = Make();
  const std::unique_ptr<NamedAdamW> flat = Make();
  const Tensor a = Buffer({1, 2, 3, 4});
  const Tensor b = Buffer({5, 6});
  std::vector<float> a_values = {1, 2, 3, 4}, b_values = {5, 6}, all = {1, 2, 3, 4, 5, 6};
  for (const std::vector<float>& gradient : kGradients) {
    const std::vector<float> of_b = {gradient[1], gradient[2]};
    std::vector<float> of_all = gradient;
    of_all.insert(of_all.end(), of_b.begin(), of_b.end());
    ASSERT_TRUE(on_tensors
                    ->StepOnParams({{"a", a}, {"b", b}},
                                   {{"a", Buffer(gradient)}, {"b", Buffer(of_b)}}, 0.1)
                    .ok());
    const NamedAdamW::Spans params = {{"a", absl::MakeSpan(a_values)},
                                      {"b", absl::MakeSpan(b_values)}};
    const NamedAdamW::ConstSpans gradients = {{"a", gradient}, {"b", of_b}};
    ASSERT_TRUE(on_spans->StepOnParams(params, gradients, 0.1).ok());
    ASSERT_TRUE(flat->UpdateShards(absl::MakeSpan(all), of_all, 0.1).ok());
  }
  EXPECT_EQ(*a.ToHost<float>(), a_values);
  EXPECT_EQ(*b.ToHost<float>(), b_values);
  EXPECT_EQ(std::vector<float>(all.begin(), all.begin() + 4), a_values);
  EXPECT_EQ(std::vector<float>(all.begin() + 4, all.end()), b_values);
}

TEST_F(NamedAdamWTest, PlainGradientsGiveUpdatesAndChangeNothingElse) {
  const std::unique_ptr<NamedAdamW> on_tensors = Make();
  const std::unique_ptr<NamedAdamW> on_spans = Make();
  for (const std::vector<float>& gradient : kGradients) {
    const auto expected = on_tensors->Step({{"a", Buffer(gradient)}}, 0.1);
    const std::vector<float> before = gradient;
    const auto update = on_spans->Step(NamedAdamW::ConstSpans{{"a", gradient}}, 0.1);
    ASSERT_TRUE(expected.ok() && update.ok()) << update.status();
    EXPECT_EQ(update->at("a"), *expected->at("a").ToHost<float>());
    EXPECT_EQ(gradient, before);
  }
}

// The bits of every state, from moments of the size that MemoryBytes says.
TEST_F(NamedAdamWTest, KeepsMomentsInTheGivenMemory) {
  constexpr int64_t kLength = 300;
  std::vector<float> first;
  for (const auto& [dtype, bytes] :
       {std::pair(DType::kFloat32, 8 * kLength), std::pair(DType::kBFloat16, 4 * kLength),
        std::pair(DType::kUInt8, 2 * kLength + 2 * 3 * 4)}) {
    options_.state_dtype = dtype;
    const std::unique_ptr<NamedAdamW> adamw =
        *NamedAdamW::Create(*device_, *kernels_, {{"a", kLength}}, options_);
    EXPECT_EQ(adamw->MemoryBytes(), bytes);
    std::vector<float> values(kLength, 1.0f);
    for (int step = 0; step < 5; ++step) {
      std::vector<float> gradients(kLength);
      for (size_t i = 0; i < gradients.size(); ++i) {
        gradients[i] = std::sin(static_cast<float>(i) * 0.7f + static_cast<float>(step));
      }
      ASSERT_TRUE(adamw->UpdateShards(absl::MakeSpan(values), gradients, 1e-2).ok());
    }
    if (dtype == DType::kFloat32) {
      first = values;
      continue;
    }
    EXPECT_NE(values, first);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], first[i], 0.01) << i;
  }
}

// A parameter of more than min_8bit_numel elements, and its first shard, of fewer.
TEST_F(NamedAdamWTest, ShardsHaveTheMomentsOfTheWhole) {
  constexpr size_t kLength = 600;
  constexpr size_t kShard = 256;
  options_.state_dtype = DType::kUInt8;
  options_.min_8bit_numel = 500;
  const std::unique_ptr<NamedAdamW> whole =
      *NamedAdamW::Create(*device_, *kernels_, {{"a", kLength}}, options_);
  const std::unique_ptr<NamedAdamW> shard =
      *NamedAdamW::Create(*device_, *kernels_, {{"a", kShard}}, options_);
  EXPECT_EQ(shard->MemoryBytes(), 2 * 256 + 2 * 2 * 4);
  std::vector<float> values(kLength, 1.0f);
  std::vector<float> of_shard(kShard, 1.0f);
  std::vector<float> gradients(kLength);
  for (int step = 0; step < 5; ++step) {
    for (size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] = std::sin(static_cast<float>(i) * 0.7f + static_cast<float>(step));
    }
    const absl::Span<const float> all = gradients;
    ASSERT_TRUE(whole->UpdateShards(absl::MakeSpan(values), all, 1e-2).ok());
    ASSERT_TRUE(shard->UpdateShards(absl::MakeSpan(of_shard), all.first(kShard), 1e-2).ok());
  }
  values.resize(kShard);
  EXPECT_EQ(of_shard, values);
}

TEST_F(NamedAdamWTest, WrongBuffersAreNamedWithBothLengths) {
  const std::unique_ptr<NamedAdamW> adamw = Make();
  const auto expect = [](const absl::Status& status, const std::vector<std::string>& parts) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    for (const std::string& part : parts)
      EXPECT_NE(status.ToString().find(part), std::string::npos) << status;
  };
  expect(adamw->Step({{"c", Buffer({1})}}, 0.1).status(), {"'c'", "length 1", "a, b"});
  expect(adamw->Step({{"a", Buffer({1, 2, 3})}}, 0.1).status(), {"'a'", "length 3", "length 4"});
  expect(adamw->StepOnParams({{"b", Buffer({1})}}, {}, 0.1), {"'b'", "length 1", "length 2"});
  expect(adamw->StepOnParams({}, {{"b", Buffer({1, 2})}}, 0.1), {"'b'", "has no parameter"});
  const std::vector<float> three = {1, 2, 3};
  std::vector<float> params = {1, 2, 3, 4};
  expect(adamw->Step(NamedAdamW::ConstSpans{{"c", three}}, 0.1).status(), {"'c'", "length 3"});
  expect(adamw->Step(NamedAdamW::ConstSpans{{"a", three}}, 0.1).status(),
         {"'a'", "length 3", "length 4"});
  expect(adamw->StepOnParams(NamedAdamW::Spans{{"b", absl::MakeSpan(params)}},
                             NamedAdamW::ConstSpans{}, 0.1),
         {"'b'", "length 4", "length 2"});
  expect(adamw->StepOnParams(NamedAdamW::Spans{{"a", absl::MakeSpan(params)}},
                             NamedAdamW::ConstSpans{{"a", three}}, 0.1),
         {"gradient 'a'", "length 3", "length 4"});
  expect(adamw->UpdateShards(absl::MakeSpan(params), three, 0.1),
         {"length 4", "length 3", "expected length 6", "2 buffers"});
  EXPECT_EQ(params, (std::vector<float>{1, 2, 3, 4})) << "a refused step changes nothing";
  expect(NamedAdamW::Create(*device_, *kernels_, {{"a", -1}}, options_).status(), {"'a'", "-1"});
}

}  // namespace
}  // namespace zeroth
