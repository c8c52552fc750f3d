// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A model that some ranks write and more or fewer ranks read has the same bits in every shard, and
// in later results.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/tests/structure/small_gpt2.h"
#include "zeroth/train/export.h"

namespace zeroth::testing {
namespace {

struct Model {
  std::map<std::string, std::vector<float>> weights;  // full
  std::vector<float> logits;                          // of a fixed sequence
};

absl::StatusOr<std::vector<float>> LogitsOf(Trainer& trainer) {
  ZEROTH_ASSIGN_OR_RETURN(const Tensor logits,
                          trainer.Logits({3, 1, 4, 1, 5, 9, 2, 6}, /*from=*/0));
  ZEROTH_ASSIGN_OR_RETURN(std::vector<float> values, logits.ToHost<float>());
  ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
  return values;
}

// Trains two steps and writes the result; only rank 0 gets a path that exists.
Model TrainAndExport(int world_size, const std::string& directory) {
  std::mutex mutex;
  Model model;
  const absl::Status status = RunSmallGpt2(
      world_size, OptionsOf("full_shard"),
      [&](Trainer& trainer, Device&, int rank) -> absl::Status {
        for (int step = 0; step < 2; ++step) {
          ZEROTH_RETURN_IF_ERROR(trainer.Step(MicroBatches(rank, step, 1), 1e-2).status());
        }
        Model mine;
        ZEROTH_ASSIGN_OR_RETURN(mine.logits, LogitsOf(trainer));
        ZEROTH_RETURN_IF_ERROR(trainer.sharding().VisitFull(
            [&](const Parameter& parameter, int64_t, absl::Span<const float> values) {
              mine.weights[parameter.name()].assign(values.begin(), values.end());
              return absl::OkStatus();
            }));
        ZEROTH_RETURN_IF_ERROR(
            ExportModel(trainer, rank == 0 ? directory : "/nobody/but/rank/0/writes", {}));
        const std::lock_guard<std::mutex> lock(mutex);
        if (rank == 0) model = std::move(mine);
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  return model;
}

absl::Status LoadAndCompare(Trainer& trainer, const HfDirectory& directory, const Model& expected) {
  Sharding& sharding = trainer.sharding();
  ZEROTH_RETURN_IF_ERROR(
      sharding.Load([&](const Parameter& parameter, int64_t begin, absl::Span<float> out) {
        return directory.weights().ReadElements(parameter.name(), begin, out);
      }));
  ZEROTH_RETURN_IF_ERROR(sharding.VisitShards(
      [&](const Parameter& parameter, int64_t begin, absl::Span<const float> values) {
        const std::vector<float>& whole = expected.weights.at(parameter.name());
        const auto piece =
            absl::MakeConstSpan(whole).subspan(static_cast<size_t>(begin), values.size());
        EXPECT_EQ(values, piece) << parameter.name() << " from " << begin;
        return absl::OkStatus();
      }));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> logits, LogitsOf(trainer));
  EXPECT_EQ(logits, expected.logits);
  return absl::OkStatus();
}

TEST(RoundTripTest, AnyNumberOfRanksReadsWhatAnotherHasWritten) {
  for (const auto& [from, to] : {std::pair(2, 4), std::pair(4, 2), std::pair(3, 2)}) {
    SCOPED_TRACE(absl::StrCat("from ", from, " to ", to, " ranks"));
    const TemporaryDirectory scratch;
    const Model model = TrainAndExport(from, scratch.File("model"));
    ASSERT_EQ(model.weights.size(),
              static_cast<size_t>(kRootParameters + kBlockParameters * kBlocks));
    const absl::StatusOr<HfDirectory> directory = HfDirectory::Open(scratch.File("model"));
    ASSERT_TRUE(directory.ok()) << directory.status();
    for (const char* strategy : {"full_shard", "shard_grad_op", "hybrid_shard"}) {
      const int shard_size = std::string(strategy) == "hybrid_shard" ? 2 : 0;
      const absl::Status status =
          RunSmallGpt2(to, OptionsOf(strategy, shard_size), [&](Trainer& trainer, Device&, int) {
            return LoadAndCompare(trainer, *directory, model);
          });
      EXPECT_TRUE(status.ok()) << strategy << ": " << status;
    }
  }
}

}  // namespace
}  // namespace zeroth::testing
