// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/lora_linear.h"

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/kernels/basic/basic.h"
#include "zeroth/nn/testing/gradient_check.h"

namespace zeroth {
namespace {

using testing::Bench;
using testing::CheckGradients;

using Doubles = std::vector<double>;

Doubles Values(const Tensor& tensor) {
  const absl::StatusOr<std::vector<float>> values = tensor.ToHost<float>();
  EXPECT_TRUE(values.ok()) << values.status();
  return Doubles(values->begin(), values->end());
}

// Of a tensor of any element type.
Doubles Values(const Bench& bench, const Tensor& tensor) {
  const absl::StatusOr<Tensor> fp32 = CastTo(*bench.context, tensor, DType::kFloat32);
  EXPECT_TRUE(fp32.ok()) << fp32.status();
  return fp32.ok() ? Values(*fp32) : Doubles();
}

// [rows, inner] times [inner, cols].
Doubles Multiply(const Doubles& a, const Doubles& b, int64_t rows, int64_t inner, int64_t cols) {
  Doubles c(static_cast<size_t>(rows * cols));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < inner; ++k) {
        sum += a[static_cast<size_t>(i * inner + k)] * b[static_cast<size_t>(k * cols + j)];
      }
      c[static_cast<size_t>(i * cols + j)] = sum;
    }
  }
  return c;
}

Doubles Transposed(const Doubles& a, int64_t rows, int64_t cols) {
  Doubles t(a.size());
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) {
      t[static_cast<size_t>(j * rows + i)] = a[static_cast<size_t>(i * cols + j)];
    }
  }
  return t;
}

double Gelu(double x) {
  const double root = std::sqrt(2 / 3.14159265358979323846);
  return 0.5 * x * (1 + std::tanh(root * (x + 0.044715 * x * x * x)));
}

constexpr double kAlpha = 6;

struct Sizes {
  int64_t rows;
  int64_t in;
  std::vector<int64_t> outs;
  int64_t rank;
};

struct Case {
  WeightLayout layout;
  Sizes sizes;
};

LinearOptions LinearOptionsFor(const Case& test_case, bool bias) {
  LinearOptions options;
  options.in = test_case.sizes.in;
  options.bias = bias;
  options.layout = test_case.layout;
  for (size_t i = 0; i < test_case.sizes.outs.size(); ++i) {
    const std::string name = test_case.sizes.outs.size() == 1 ? "" : std::string(1, "qkv"[i]);
    options.projections.push_back({name, test_case.sizes.outs[i]});
  }
  return options;
}

LoraOptions LoraOptionsFor(const Case& test_case, std::vector<std::string> targets = {},
                           double alpha = kAlpha) {
  LoraOptions lora;
  lora.rank = test_case.sizes.rank;
  lora.alpha = alpha;
  lora.targets = std::move(targets);
  return lora;
}

std::vector<Parameter*> OwnAll(Bench& bench, const Module& module, float scale = 1.0f) {
  std::vector<Parameter*> parameters = module.Parameters();
  for (Parameter* parameter : parameters) bench.Own(*parameter, scale);
  return parameters;
}

constexpr StepDraws kDraws = {.seed = 3, .step = 2, .first_sample = 4};

// PEFT's dropout of an adapter's input, with the draws that DropsElement defines.
Doubles Dropped(const Case& test_case, const LoraAdapter& adapter, Doubles x, double rate) {
  const DropoutDraws draws{.key = MakeDropoutKey(kDraws.seed, kDraws.step),
                           .stream = HashName(adapter.layer() + ".lora_A")};
  const uint32_t threshold = DropoutThreshold(static_cast<float>(rate));
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t element = kDraws.first_sample * test_case.sizes.in + static_cast<int64_t>(i);
    x[i] = DropsElement(draws, element, threshold) ? 0 : x[i] / (1 - rate);
  }
  return x;
}

// The definition, projection by projection, in double precision: x W + b + scale (dropout(x) A) B.
Doubles Reference(const Case& test_case, const LoraLinear& layer, const Doubles& x, double scale,
                  double dropout = 0) {
  const Sizes& sizes = test_case.sizes;
  int64_t width = 0;
  for (const int64_t out : sizes.outs) width += out;
  Doubles y(static_cast<size_t>(sizes.rows * width));
  int64_t column = 0;
  for (size_t p = 0; p < sizes.outs.size(); ++p) {
    const int64_t out = sizes.outs[p];
    const bool in_out = test_case.layout == WeightLayout::kInOut;
    const LinearPart& part = layer.parts()[p];
    const LoraAdapter& adapter = layer.adapters()[p];
    Doubles w = Values(part.weight->data());
    Doubles a = Values(adapter.a->data());
    Doubles b = Values(adapter.b->data());
    if (!in_out) {
      w = Transposed(w, out, sizes.in);
      a = Transposed(a, sizes.rank, sizes.in);
      b = Transposed(b, out, sizes.rank);
    }
    const Doubles base = Multiply(x, w, sizes.rows, sizes.in, out);
    const Doubles kept = dropout == 0 ? x : Dropped(test_case, adapter, x, dropout);
    const Doubles inner = Multiply(kept, a, sizes.rows, sizes.in, sizes.rank);
    const Doubles low = Multiply(inner, b, sizes.rows, sizes.rank, out);
    const Doubles bias =
        part.bias != nullptr ? Values(part.bias->data()) : Doubles(static_cast<size_t>(out), 0.0);
    for (int64_t i = 0; i < sizes.rows; ++i) {
      for (int64_t j = 0; j < out; ++j) {
        const auto at = static_cast<size_t>(i * out + j);
        y[static_cast<size_t>(i * width + column + j)] =
            base[at] + bias[static_cast<size_t>(j)] + scale * low[at];
      }
    }
    column += out;
  }
  return y;
}

class LoraLinearTest : public ::testing::TestWithParam<Case> {};

TEST_P(LoraLinearTest, IsTheDefinition) {
  const Case& test_case = GetParam();
  const bool one = test_case.sizes.outs.size() == 1;
  for (const Activation activation : {Activation::kNone, Activation::kGelu}) {
    for (const bool recording : {false, true}) {
      Bench bench;
      bench.tape.set_recording(recording);
      LoraLinear layer("layer", LinearOptionsFor(test_case, /*bias=*/one),
                       LoraOptionsFor(test_case));
      OwnAll(bench, layer);
      const Shape shape({test_case.sizes.rows, test_case.sizes.in});
      const Value x = bench.context->MakeValue(bench.Upload(shape, bench.Draw(shape.numel())));
      const absl::StatusOr<Value> y = layer.Forward(*bench.context, x, activation);
      ASSERT_TRUE(y.ok()) << y.status();
      const Doubles expected = Reference(test_case, layer, Values(x.data),
                                         kAlpha / static_cast<double>(test_case.sizes.rank));
      const Doubles actual = Values(y->data);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) {
        const double value = activation == Activation::kGelu ? Gelu(expected[i]) : expected[i];
        EXPECT_NEAR(actual[i], value, 2e-5 * (1 + std::abs(value))) << i;
      }
    }
  }
}

// PEFT's use_rslora and lora_dropout.
TEST_P(LoraLinearTest, RankStabilizedWithDropoutIsTheDefinition) {
  const Case& test_case = GetParam();
  LoraOptions lora = LoraOptionsFor(test_case);
  lora.rslora = true;
  lora.dropout = 0.375;
  Bench bench;
  bench.context->set_draws(kDraws);
  LoraLinear layer("layer", LinearOptionsFor(test_case, /*bias=*/false), lora);
  OwnAll(bench, layer);
  const Shape shape({test_case.sizes.rows, test_case.sizes.in});
  const Value x = bench.context->MakeValue(bench.Upload(shape, bench.Draw(shape.numel())));
  const absl::StatusOr<Value> y = layer.Forward(*bench.context, x);
  ASSERT_TRUE(y.ok()) << y.status();
  const double rank = static_cast<double>(test_case.sizes.rank);
  const double scale = kAlpha / std::sqrt(rank);
  const Doubles expected = Reference(test_case, layer, Values(x.data), scale, lora.dropout);
  const Doubles actual = Values(y->data);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 2e-5 * (1 + std::abs(expected[i]))) << i;
  }
  // Without draws a forward that is trained is refused, and an evaluation drops nothing.
  bench.context->set_draws(std::nullopt);
  EXPECT_EQ(layer.Forward(*bench.context, x).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const NoGradient off(bench.tape);
  const absl::StatusOr<Value> evaluated = layer.Forward(*bench.context, x);
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  const Doubles whole = Reference(test_case, layer, Values(x.data), scale);
  const Doubles found = Values(evaluated->data);
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], whole[i], 2e-5 * (1 + std::abs(whole[i]))) << i;
  }
}

TEST_P(LoraLinearTest, GradientsOfAdaptersAndInputAndOfNothingFrozen) {
  const Case& test_case = GetParam();
  if (test_case.sizes.rows == 0) return;  // nothing to differentiate by
  const bool one = test_case.sizes.outs.size() == 1;
  for (const Activation activation : {Activation::kNone, Activation::kGelu}) {
    Bench bench;
    bench.context->set_draws(kDraws);
    // Small values: a difference sees the curvature of a GELU of large ones.
    LoraOptions lora = LoraOptionsFor(test_case, {}, /*alpha=*/0.5);
    if (activation == Activation::kNone) lora.dropout = 0.25;
    LoraLinear layer("layer", LinearOptionsFor(test_case, /*bias=*/one), lora);
    ASSERT_TRUE(FreezeAllButAdapters(layer, lora).ok());
    const std::vector<Parameter*> parameters = OwnAll(bench, layer, 0.3f);
    CheckGradients(bench, {Shape({test_case.sizes.rows, test_case.sizes.in})}, parameters,
                   [&](Context& context, const std::vector<Value>& in) {
                     return layer.Forward(context, in[0], activation);
                   });
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const WeightLayout layout : {WeightLayout::kInOut, WeightLayout::kOutIn}) {
    for (const Sizes& sizes : {Sizes{5, 7, {3}, 2}, Sizes{1, 1, {1}, 1}, Sizes{3, 6, {5, 4, 9}, 3},
                               Sizes{2, 4, {6}, 11}, Sizes{0, 3, {2}, 2}}) {
      cases.push_back({layout, sizes});
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Shapes, LoraLinearTest, ::testing::ValuesIn(Cases()));

TEST(LoraLinearTest, StartsAsTheLayerWithoutAdapters) {
  const Case test_case = {WeightLayout::kOutIn, {2, 5, {4}, 3}};
  LoraLinear layer("h.0.fc", LinearOptionsFor(test_case, /*bias=*/true), LoraOptionsFor(test_case));
  const std::vector<LoraAdapter> adapters = LoraAdapters(layer);
  ASSERT_EQ(adapters.size(), 1u);
  EXPECT_EQ(adapters[0].weight->name(), "h.0.fc.weight");
  EXPECT_EQ(adapters[0].a->name(), "h.0.fc.lora_A");
  EXPECT_EQ(adapters[0].b->name(), "h.0.fc.lora_B");
  EXPECT_EQ(adapters[0].a->shape(), Shape({3, 5}));
  EXPECT_EQ(adapters[0].b->shape(), Shape({4, 3}));
  std::vector<float> a(15), b(12, 1.0f);
  adapters[0].a->initializer().Fill(1, "a", 0, absl::MakeSpan(a));
  adapters[0].b->initializer().Fill(1, "b", 0, absl::MakeSpan(b));
  EXPECT_NE(a, std::vector<float>(15, 0.0f));
  EXPECT_EQ(b, std::vector<float>(12, 0.0f));
}

// Magnitudes in fp32 change no bit of a 16-bit layer at first, and their steps are not lost. The
// norm of the first output, 1.00366, lies just below the middle of two neighbours in bf16.
TEST(LoraLinearTest, DoraStartsAsTheLayerWithoutAdapters) {
  for (const WeightLayout layout : {WeightLayout::kOutIn, WeightLayout::kInOut}) {
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
      const Case test_case = {layout, {7, 24, {400}, 3}};
      const LinearOptions options = LinearOptionsFor(test_case, /*bias=*/false);
      LoraOptions lora = LoraOptionsFor(test_case);
      lora.dora = true;
      Bench bench;
      LoraLinear layer("layer", options, lora);
      Linear plain("layer", options);
      const LoraAdapter& adapter = layer.adapters()[0];
      std::vector<float> weight = bench.Draw(24 * 400, 0.2f);
      for (size_t i = 0; i < 24; ++i) {
        const float value = i == 0 ? 1.0f : (i == 1 ? 0.08564f : 0.0f);
        weight[layout == WeightLayout::kOutIn ? i : i * 400] = value;
      }
      adapter.weight->set_data(bench.Upload(adapter.weight->shape(), weight, dtype));
      plain.Parameters()[0]->set_data(adapter.weight->data());
      bench.Own(*adapter.a, 1.0f, dtype);
      bench.Own(*adapter.b, 0.0f, dtype);
      std::vector<float> magnitudes(400);
      const auto read = [&](int64_t begin, absl::Span<float> values) {
        const Doubles stored = Values(bench, adapter.weight->data());
        for (size_t i = 0; i < values.size(); ++i) {
          values[i] = static_cast<float>(stored[static_cast<size_t>(begin) + i]);
        }
        return absl::OkStatus();
      };
      ASSERT_TRUE(InitialMagnitudes(adapter, 0, absl::MakeSpan(magnitudes), read).ok());
      EXPECT_TRUE(adapter.magnitude->keeps_fp32());
      adapter.magnitude->set_data(bench.Upload(Shape({400}), magnitudes, DType::kFloat32));
      const Value x =
          bench.context->MakeValue(bench.Upload(Shape({7, 24}), bench.Draw(7 * 24), dtype));
      const absl::StatusOr<Value> adapted = layer.Forward(*bench.context, x);
      ASSERT_TRUE(adapted.ok()) << adapted.status();
      const absl::StatusOr<Value> expected = plain.Forward(*bench.context, x);
      ASSERT_TRUE(expected.ok()) << expected.status();
      EXPECT_EQ(Values(bench, adapted->data), Values(bench, expected->data)) << DTypeName(dtype);
      // The smallest factor that moves each 16-bit number.
      magnitudes[0] *= 1 + (dtype == DType::kBFloat16 ? 0x1p-8f : 0x1p-11f) * (1 + 0x1p-6f);
      magnitudes[1] = NAN;
      adapter.magnitude->set_data(bench.Upload(Shape({400}), magnitudes, DType::kFloat32));
      const absl::StatusOr<Value> moved = layer.Forward(*bench.context, x);
      ASSERT_TRUE(moved.ok()) << moved.status();
      EXPECT_NE(Values(bench, moved->data)[0], Values(bench, expected->data)[0]);
      EXPECT_TRUE(std::isnan(Values(bench, moved->data)[1]));
    }
  }
}

// The sum of x dy over n, x = `weight` and n = |weight|, over more rows than one block has.
TEST(LoraLinearTest, DoraSumsProductsThatFp16DoesNotHold) {
  const auto gradient = [](int64_t rows, float weight, float dy) {
    const Case test_case = {WeightLayout::kOutIn, {rows, 1, {1}, 1}};
    LoraOptions lora = LoraOptionsFor(test_case);
    lora.dora = true;
    Bench bench;
    LoraLinear layer("layer", LinearOptionsFor(test_case, /*bias=*/false), lora);
    EXPECT_TRUE(FreezeAllButAdapters(layer, lora).ok());
    for (Parameter* parameter : layer.Parameters()) bench.Own(*parameter, 0.0f, DType::kFloat16);
    const LoraAdapter& adapter = layer.adapters()[0];
    adapter.weight->set_data(bench.Upload(Shape({1, 1}), {weight}, DType::kFloat16));
    adapter.magnitude->set_data(bench.Upload(Shape({1}), {weight}, DType::kFloat32));
    const std::vector<float> ones(static_cast<size_t>(rows), 1.0f);
    const Shape shape({rows, 1});
    const Value x = bench.context->MakeValue(bench.Upload(shape, ones, DType::kFloat16));
    const absl::StatusOr<Value> y = layer.Forward(*bench.context, x);
    EXPECT_TRUE(y.ok()) << y.status();
    if (!y.ok()) return -1.0;
    const std::vector<float> dys(static_cast<size_t>(rows), dy);
    y->node->grad = bench.Upload(shape, dys, DType::kFloat16);
    EXPECT_TRUE(bench.tape.Backward().ok());
    return Values(bench, adapter.magnitude->grad())[0];
  };
  EXPECT_EQ(gradient(1, 200, 400), 400);
  EXPECT_EQ(gradient(2048, 0x1p-13f, 0x1p-13f), 0.25);
}

TEST(LoraLinearTest, OnlyTargetsAreAdapted) {
  const Case test_case = {WeightLayout::kOutIn, {2, 5, {4, 2, 3}, 2}};
  const LinearOptions options = LinearOptionsFor(test_case, /*bias=*/false);
  const std::unique_ptr<Linear> layer =
      BuildLinear("h.0.attn", options, LoraOptionsFor(test_case, {"q", "attn.v"}));
  const std::vector<LoraAdapter> adapters = LoraAdapters(*layer);
  ASSERT_EQ(adapters.size(), 2u);
  EXPECT_EQ(adapters[0].a->name(), "h.0.attn.q.lora_A");
  EXPECT_EQ(adapters[1].b->name(), "h.0.attn.v.lora_B");
  // The columns of v come after those of k, which has no adapter.
  Bench bench;
  const std::vector<Parameter*> parameters = OwnAll(bench, *layer);
  ASSERT_TRUE(FreezeAllButAdapters(*layer, LoraOptionsFor(test_case)).ok());
  CheckGradients(bench, {Shape({2, 5})}, parameters,
                 [&](Context& context, const std::vector<Value>& in) {
                   return layer->Forward(context, in[0]);
                 });
  // A name's middle or a part of a word is not a target.
  for (const char* target : {"attn", "ttn.q", ".q", ""}) {
    const std::unique_ptr<Linear> plain =
        BuildLinear("h.0.attn", options, LoraOptionsFor(test_case, {target}));
    EXPECT_TRUE(LoraAdapters(*plain).empty()) << target;
  }
}

TEST(LoraLinearTest, ATargetThatNobodyIsCalledIsNamedWithThoseThereAre) {
  const Case test_case = {WeightLayout::kInOut, {2, 5, {4, 2, 3}, 2}};
  const LoraOptions lora = LoraOptionsFor(test_case, {"q", "w_proj"});
  const std::unique_ptr<Linear> layer =
      BuildLinear("attn", LinearOptionsFor(test_case, /*bias=*/false), lora);
  const absl::Status status = FreezeAllButAdapters(*layer, lora);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("'w_proj'"), std::string::npos) << status;
  EXPECT_NE(status.ToString().find("k, q, v"), std::string::npos) << status;
}

// A model that passes no options on would train nothing.
TEST(LoraLinearTest, AModelWithoutAdaptersIsRefused) {
  const Case test_case = {WeightLayout::kOutIn, {2, 5, {4, 2, 3}, 2}};
  const Linear layer("attn", LinearOptionsFor(test_case, /*bias=*/false));
  const absl::Status status = FreezeAllButAdapters(layer, LoraOptionsFor(test_case, {"q"}));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.ToString().find("no layer of this model has adapters"), std::string::npos)
      << status;
  EXPECT_TRUE(layer.Parameters()[0]->requires_grad());
}

TEST(LoraLinearTest, ModulesToSaveAreTrainedInFull) {
  const Case test_case = {WeightLayout::kInOut, {2, 5, {4, 2, 3}, 2}};
  LoraOptions lora = LoraOptionsFor(test_case, {"q"});
  lora.modules_to_save = {"v", "n.k"};
  const std::unique_ptr<Linear> layer =
      BuildLinear("attn", LinearOptionsFor(test_case, /*bias=*/true), lora);
  ASSERT_TRUE(FreezeAllButAdapters(*layer, lora).ok());
  std::vector<std::string> saved;
  for (const Parameter* parameter : SavedParameters(*layer)) saved.push_back(parameter->name());
  EXPECT_EQ(saved, (std::vector<std::string>{"attn.k.weight", "attn.k.bias", "attn.v.weight",
                                             "attn.v.bias"}));
  Bench bench;
  const std::vector<Parameter*> parameters = OwnAll(bench, *layer);
  CheckGradients(bench, {Shape({2, 5})}, parameters,
                 [&](Context& context, const std::vector<Value>& in) {
                   return layer->Forward(context, in[0]);
                 });
  lora.modules_to_save = {"v", "lm_head"};
  EXPECT_NE(FreezeAllButAdapters(*layer, lora).ToString().find("'lm_head'; the model has k, q, v"),
            std::string::npos);
  lora.modules_to_save = {"q"};
  EXPECT_NE(FreezeAllButAdapters(*layer, lora).ToString().find("'attn.q' has an adapter"),
            std::string::npos);
}

// A container that has parameters itself, like attention with sinks.
class ContainerWithAParameter : public Module {
 public:
  ContainerWithAParameter(std::string name, std::unique_ptr<Linear> layer)
      : Module(std::move(name)) {
    AddParameter("sinks", Shape({2}), Initializer::Zeros());
    AddChild(std::move(layer));
  }
};

// PEFT would train all of it.
TEST(LoraLinearTest, AModuleThatContainsLayersIsNoModuleToSave) {
  const Case test_case = {WeightLayout::kInOut, {2, 5, {4, 2, 3}, 2}};
  LoraOptions lora = LoraOptionsFor(test_case, {"q"});
  const ContainerWithAParameter attention(
      "h.0.attn", BuildLinear("h.0.attn", LinearOptionsFor(test_case, /*bias=*/true), lora));
  lora.modules_to_save = {"attn"};
  const absl::Status status = FreezeAllButAdapters(attention, lora);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.ToString().find("no module to save is called 'attn'; the model has k, q, v."),
            std::string::npos)
      << status;
  lora.modules_to_save = {"attn.k"};
  EXPECT_TRUE(FreezeAllButAdapters(attention, lora).ok());
}

TEST(LoraLinearTest, OptionsOutOfRange) {
  LoraOptions negative;
  negative.rank = -1;
  EXPECT_EQ(ValidateLoraOptions(negative).code(), absl::StatusCode::kInvalidArgument);
  LoraOptions endless;
  endless.rank = 2;
  endless.alpha = INFINITY;
  EXPECT_EQ(ValidateLoraOptions(endless).code(), absl::StatusCode::kInvalidArgument);
  for (const double dropout : {-0.1, 1.0, 1 - 1e-12, double{NAN}}) {
    LoraOptions dropped;
    dropped.dropout = dropout;
    EXPECT_EQ(ValidateLoraOptions(dropped).code(), absl::StatusCode::kInvalidArgument) << dropout;
  }
  EXPECT_TRUE(ValidateLoraOptions(LoraOptions()).ok());
}

}  // namespace
}  // namespace zeroth
