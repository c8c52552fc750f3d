// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests what changes the losses of a reference, and what does not.

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/options/options.h"
#include "zeroth/train/model_source.h"
#include "zeroth/train/reference_losses.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

class ReferenceRecipeTest : public ::testing::Test {
 protected:
  ReferenceRecipeTest() {
    fs::create_directories(dir_.path() + "/model");
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy_file(fs::path("tests/testdata/llama_tiny") / name,
                    fs::path(dir_.path()) / "model" / name);
    }
    options_.reference = dir_.path() + "/model";
    TrainOptions model;
    model.init_from = options_.reference;
    model.tokenizer = "byte";
    source_ = ModelSource::Open(model);
    EXPECT_TRUE(source_.ok()) << source_.status();
  }

  std::string Recipe(const std::string& attention = "", const std::string& hardware = "") const {
    if (!source_.ok()) return "";
    const absl::StatusOr<std::string> recipe =
        ReferenceRecipe(options_, *source_, attention, hardware);
    EXPECT_TRUE(recipe.ok()) << recipe.status();
    return recipe.value_or("");
  }

  const TemporaryDirectory dir_;
  TrainOptions options_;
  absl::StatusOr<ModelSource> source_ = absl::UnknownError("");
};

// As in an image of a container, where all files have one time.
TEST_F(ReferenceRecipeTest, OtherWeightsAreFoundWithoutTheirTime) {
  const std::string path = options_.reference + "/model.safetensors";
  const std::string before = Recipe();
  EXPECT_EQ(Recipe(), before);
  const fs::file_time_type time = fs::last_write_time(path);
  const std::string content = *ReadFile(path);
  for (const size_t at : {content.size() / 2, content.size() - 1}) {
    std::string other = content;
    other[at] = static_cast<char>(other[at] ^ 1);
    ASSERT_EQ(WriteFileDurably(path, other), absl::OkStatus());
    fs::last_write_time(path, time);
    EXPECT_NE(Recipe(), before) << at;
  }
  ASSERT_EQ(WriteFileDurably(path, content), absl::OkStatus());
  fs::last_write_time(path, time);
  EXPECT_EQ(Recipe(), before);
  fs::last_write_time(path, time + std::chrono::seconds(1));
  EXPECT_NE(Recipe(), before);
}

TEST_F(ReferenceRecipeTest, LargeFilesAreSampled) {
  const std::string path = options_.reference + "/more.safetensors";
  constexpr size_t kSize = size_t{32} << 20;
  ASSERT_EQ(WriteFileDurably(path, std::string(kSize, 'a')), absl::OkStatus());
  const fs::file_time_type time = fs::last_write_time(path);
  const auto recipe_of = [&](size_t begin, size_t count) {
    const auto fill = [&](char with) {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(begin));
      file << std::string(count, with);
      file.close();
      EXPECT_TRUE(file.good());
      fs::last_write_time(path, time);
    };
    fill('b');
    const std::string recipe = Recipe();
    fill('a');
    return recipe;
  };
  const std::string before = Recipe();
  EXPECT_EQ(recipe_of(0, 0), before);
  EXPECT_NE(recipe_of(0, 1), before);
  EXPECT_NE(recipe_of(kSize - 1, 1), before);
  // A tensor of this size cannot change unseen, wherever it lies.
  for (const size_t begin : {size_t{12'345'678}, kSize / 2, kSize - (size_t{1} << 20)}) {
    EXPECT_NE(recipe_of(begin, size_t{1} << 17), before) << begin;
  }
}

TEST_F(ReferenceRecipeTest, OptionsCountOnlyIfTheyChangeTheForwardPass) {
  const std::string before = Recipe();
  EXPECT_NE(Recipe("cuDNN 9.1"), before);
  EXPECT_NE(Recipe("", "NVIDIA H200"), before);
  EXPECT_NE(Recipe("", "NVIDIA H200"), Recipe("", "NVIDIA H100"));
  const auto with = [&](auto change) {
    const TrainOptions unchanged = options_;
    change(options_);
    const std::string recipe = Recipe();
    options_ = unchanged;
    return recipe;
  };
  const auto order = [](TrainOptions& o) {
    o.reduction = o.reduction == Reduction::kTree ? Reduction::kNccl : Reduction::kTree;
  };
  EXPECT_EQ(with(order), before);
  const auto tensor_ranks = [](TrainOptions& o) { o.tensor_parallel = 2; };
  EXPECT_NE(with([&](TrainOptions& o) {
              tensor_ranks(o);
              order(o);
            }),
            with(tensor_ranks));
  EXPECT_EQ(with([](TrainOptions& o) { o.lr = 0.5; }), before);
  EXPECT_EQ(with([](TrainOptions& o) { o.steps = 7; }), before);
  EXPECT_NE(with([](TrainOptions& o) { o.batch_size = 3; }), before);
  EXPECT_NE(with([](TrainOptions& o) { o.param_dtype = DType::kBFloat16; }), before);
}

}  // namespace
}  // namespace zeroth
