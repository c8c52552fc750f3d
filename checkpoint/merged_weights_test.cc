// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/checkpoint/tensor_file_writer.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Named {
  std::string name;
  Shape shape;
};

// Element i of each tensor is its number times 10 plus i.
std::shared_ptr<const WeightsSource> Write(const std::string& path,
                                           const std::vector<Named>& tensors) {
  std::vector<TensorDeclaration> declarations;
  for (const Named& tensor : tensors) {
    declarations.push_back({tensor.name, DType::kFloat32, tensor.shape});
  }
  auto writer = SafetensorsWriter::Create(path, declarations);
  EXPECT_TRUE(writer.ok()) << writer.status();
  float base = 0;
  for (const Named& tensor : tensors) {
    base += 10;
    std::vector<float> values(static_cast<size_t>(tensor.shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = base + static_cast<float>(i);
    EXPECT_TRUE((*writer)->Write(tensor.name, 0, values).ok());
  }
  EXPECT_TRUE((*writer)->Finish().ok());
  return *SafetensorsFile::Open(path);
}

TEST(MergedWeightsTest, AddsTheAdaptersInBothLayoutsAndAnyRange) {
  const TemporaryDirectory dir;
  const auto base = Write(dir.File("base"), {{"other", Shape({2})}, {"w.weight", Shape({3, 5})}});
  for (const bool transposed : {false, true}) {
    const Shape left_shape = transposed ? Shape({2, 3}) : Shape({3, 2});
    const Shape right_shape = transposed ? Shape({5, 2}) : Shape({2, 5});
    const auto adapter =
        Write(dir.File(absl::StrCat(transposed)), {{"left", left_shape}, {"right", right_shape}});
    const auto merged = MergedWeights::Create(
        base, adapter, {{"w.weight", "left", "right", transposed}}, /*scale=*/0.5);
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_THAT((*merged)->names(), ElementsAre("other", "w.weight"));
    EXPECT_THAT(*(*merged)->ReadAll("other", Shape({2})), ElementsAre(10, 11));
    std::vector<float> expected;
    for (int row = 0; row < 3; ++row) {
      for (int column = 0; column < 5; ++column) {
        double sum = 0;
        for (int r = 0; r < 2; ++r) {
          const int left = transposed ? r * 3 + row : row * 2 + r;
          const int right = transposed ? column * 2 + r : r * 5 + column;
          sum += (10.0 + left) * (20.0 + right);
        }
        expected.push_back(static_cast<float>(20.0 + row * 5 + column + 0.5 * sum));
      }
    }
    EXPECT_EQ(*(*merged)->ReadAll("w.weight", Shape({3, 5})), expected);
    for (size_t begin = 0; begin < expected.size(); ++begin) {
      for (size_t end = begin; end <= expected.size(); ++end) {
        std::vector<float> part(end - begin);
        ASSERT_TRUE(
            (*merged)
                ->ReadElements("w.weight", static_cast<int64_t>(begin), absl::MakeSpan(part))
                .ok());
        EXPECT_EQ(part, std::vector<float>(expected.begin() + static_cast<int64_t>(begin),
                                           expected.begin() + static_cast<int64_t>(end)));
      }
    }
  }
}

// A magnitude is the norm of a row or column of W + B A, whose rows are (30 + 20 * 10, 31 + 20 *
// 11) and (32 + 21 * 10, 33 + 21 * 11).
TEST(MergedWeightsTest, MagnitudesAreTheNormsOfRowsOrColumns) {
  const TemporaryDirectory dir;
  const auto model =
      Write(dir.File("m"),
            {{"a", Shape({1, 2})}, {"b", Shape({2, 1})}, {"w", Shape({2, 2})}, {"m", Shape({2})}});
  const double rows[2][2] = {{230, 251}, {242, 264}};
  for (const bool of_columns : {false, true}) {
    SCOPED_TRACE(of_columns);
    LoraDelta delta{"w", "b", "a", false};
    delta.magnitude = "m";
    delta.outputs_are_columns = of_columns;
    const auto merged = MergedWeights::Create(model, model, {delta}, 1);
    ASSERT_TRUE(merged.ok()) << merged.status();
    EXPECT_THAT((*merged)->names(), ElementsAre("w"));
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t output = of_columns ? i % 2 : i / 2;
      const double norm = of_columns ? std::hypot(rows[0][output], rows[1][output])
                                     : std::hypot(rows[output][0], rows[output][1]);
      const double expected = rows[i / 2][i % 2] * (40.0 + static_cast<double>(output)) / norm;
      float value = 0;
      ASSERT_TRUE((*merged)->ReadElements("w", i, absl::MakeSpan(&value, 1)).ok());
      EXPECT_FLOAT_EQ(value, static_cast<float>(expected)) << i;
    }
    delta.magnitude = "a";  // [1, 2]
    EXPECT_THAT(std::string(MergedWeights::Create(model, model, {delta}, 1).status().message()),
                HasSubstr("made for another model?"));
  }
}

TEST(MergedWeightsTest, LoraMatricesInTheModelItselfAreNotWeights) {
  const TemporaryDirectory dir;
  const auto model =
      Write(dir.File("m"), {{"a", Shape({1, 2})}, {"b", Shape({2, 1})}, {"w", Shape({2, 2})}});
  const auto merged = MergedWeights::Create(model, model, {{"w", "b", "a", false}}, 1);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT((*merged)->names(), ElementsAre("w"));
  EXPECT_EQ((*merged)->Find("a"), nullptr);
  std::vector<float> values(2);
  EXPECT_EQ((*merged)->ReadElements("a", 0, absl::MakeSpan(values)).code(),
            absl::StatusCode::kNotFound);
}

TEST(MergedWeightsTest, ShapesThatDoNotGoTogetherAreNamed) {
  const TemporaryDirectory dir;
  const auto model =
      Write(dir.File("m"), {{"a", Shape({1, 3})}, {"b", Shape({2, 1})}, {"w", Shape({2, 2})}});
  const auto merged = MergedWeights::Create(model, model, {{"w", "b", "a", false}}, 1);
  EXPECT_EQ(merged.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(merged.status().message()), HasSubstr("made for another model?"));
  EXPECT_EQ(MergedWeights::Create(model, model, {{"v", "b", "a", false}}, 1).status().code(),
            absl::StatusCode::kNotFound);
}

constexpr char kConfig[] =
    R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none", "target_modules": ["q"]})";

TEST(PeftDirectoryTest, ReadsLayersFromTheTensors) {
  const TemporaryDirectory dir;
  dir.Write("d/adapter_config.json", kConfig);
  Write(dir.File("d/adapter_model.safetensors"), {{PeftNameOfA("m.layers.1.q"), Shape({2, 5})},
                                                  {PeftNameOfB("m.layers.1.q"), Shape({3, 2})}});
  EXPECT_TRUE(IsPeftDirectory(dir.File("d")));
  const auto adapter = PeftDirectory::Open(dir.File("d"));
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ(adapter->adapter().rank, 2);
  EXPECT_EQ(adapter->adapter().alpha, 4);
  EXPECT_THAT(adapter->adapter().layers, ElementsAre("m.layers.1.q"));
  EXPECT_THAT(PeftTargets(adapter->adapter()), ElementsAre("q"));
}

TEST(PeftDirectoryTest, ModulesThatAreSavedReplaceThoseOfTheBase) {
  const TemporaryDirectory dir;
  const auto base = Write(dir.File("base"), {{"lm_head.weight", Shape({2, 2})},
                                             {"m.input_norm.weight", Shape({2})},
                                             {"other", Shape({2})}});
  dir.Write("d/adapter_config.json",
            R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "modules_to_save":
               ["lm_head", "norm"]})");
  const Named norm = {PeftNameOfSaved("m.input_norm.weight"), Shape({2})};
  const auto head = [](const Shape& shape) {
    return Named{PeftNameOfSaved("lm_head.weight"), shape};
  };
  Write(dir.File("d/adapter_model.safetensors"), {{PeftNameOfA("q"), Shape({2, 5})},
                                                  {PeftNameOfB("q"), Shape({3, 2})},
                                                  norm,
                                                  head(Shape({2, 2}))});
  const auto adapter = PeftDirectory::Open(dir.File("d"));
  ASSERT_TRUE(adapter.ok()) << adapter.status();
  EXPECT_EQ(norm.name, "base_model.model.m.input_norm.weight");
  EXPECT_THAT(adapter->adapter().saved, ElementsAre("lm_head.weight", "m.input_norm.weight"));
  EXPECT_THAT(adapter->adapter().layers, ElementsAre("q"));
  std::map<std::string, std::string, std::less<>> replaced;
  for (const std::string& name : adapter->adapter().saved) replaced[name] = PeftNameOfSaved(name);
  const auto merged = MergedWeights::Create(base, adapter->weights(), {}, 1, replaced);
  ASSERT_TRUE(merged.ok()) << merged.status();
  EXPECT_THAT(*(*merged)->ReadAll("lm_head.weight", Shape({2, 2})), ElementsAre(40, 41, 42, 43));
  EXPECT_THAT(*(*merged)->ReadAll("m.input_norm.weight", Shape({2})), ElementsAre(30, 31));
  EXPECT_THAT(*(*merged)->ReadAll("other", Shape({2})), ElementsAre(30, 31));
  const auto larger = Write(dir.File("larger"), {head(Shape({3, 2}))});
  const auto unfit = MergedWeights::Create(base, larger, {}, 1,
                                           {{"lm_head.weight", PeftNameOfSaved("lm_head.weight")}});
  EXPECT_EQ(unfit.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unfit.status().message()), HasSubstr("made for another model?"));
}

TEST(PeftDirectoryTest, UnsupportedAdaptersAreRefused) {
  const TemporaryDirectory dir;
  const auto message = [&](const std::string& config, const std::vector<Named>& tensors) {
    dir.Write("d/adapter_config.json", config);
    Write(dir.File("d/adapter_model.safetensors"), tensors);
    return std::string(PeftDirectory::Open(dir.File("d")).status().message());
  };
  const Named a = {PeftNameOfA("x"), Shape({2, 5})};
  const Named b = {PeftNameOfB("x"), Shape({3, 2})};
  EXPECT_EQ(message(kConfig, {a, b}), "");
  EXPECT_THAT(message(kConfig, {a}), HasSubstr("x.lora_B"));
  EXPECT_THAT(message(kConfig, {a, {b.name, Shape({3, 4})}}), HasSubstr("expected [out, 2]"));
  EXPECT_THAT(message(kConfig, {a, b, {"lm_head.weight", Shape({1})}}),
              HasSubstr("is not a matrix of a linear layer's adapter"));
  for (const char* key :
       {R"("bias": "all")", R"("rank_pattern": {"x": 3})", R"("modules_to_save": "lm_head")",
        R"("init_lora_weights": "pissa_niter_4")", R"("layer_replication": [[0, 2]])",
        R"("alora_invocation_tokens": [1, 2])"}) {
    const std::string config =
        absl::StrCat(R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, )", key, "}");
    EXPECT_THAT(message(config, {a, b}), HasSubstr("which Zeroth does not know")) << key;
  }
  EXPECT_THAT(
      message(R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "use_dora": true})", {a, b}),
      HasSubstr("no tensor \"base_model.model.x.lora_magnitude_vector\""));
  EXPECT_THAT(message(R"({"peft_type": "IA3"})", {a, b}), HasSubstr("peft_type"));
  EXPECT_THAT(message(R"({"peft_type": "LORA", "lora_alpha": 4})", {a, b}), HasSubstr("\"r\""));
}

}  // namespace
}  // namespace zeroth
