// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The models of tests/testdata on real ranks, for tests that train them in ways that the reference
// runs do not.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/api/trainer.h"
#include "zeroth/core/comm/communicator.h"
#include "zeroth/data/loader.h"
#include "zeroth/nn/activation_checkpointing.h"
#include "zeroth/nn/language_model.h"

namespace zeroth::testing {

// Values of parameters by name.
using NamedValues = std::map<std::string, std::vector<float>>;

// The strategy and the number of ranks.
struct TinyRanks {
  std::string strategy = "no_shard";
  int world_size = 1;
  int shard_size = 0;

  std::string ToString() const;
};

// Every strategy at 1, 2 and 3 ranks, those of one world size side by side.
std::vector<TinyRanks> AllTinyRanks();

struct TinySetup {
  std::string model = "gpt2_tiny";  // a folder of tests/testdata
  TinyRanks ranks;
  ModelOptions model_options;
  TrainerOptions trainer;  // its sharding is set from `ranks`
};

// One rank's trainer, with the reference's initial weights. lora_B is initialized like lora_A and
// not to zero, and magnitudes are 1, so that all adapters have gradients from the first step on.
struct TinyRank {
  Trainer& trainer;
  DataLoader loader;  // of 2 sequences of 32 tokens per data-parallel rank

  absl::StatusOr<StepResult> Step(int64_t step, double lr) const;
};
absl::Status RunTiny(const TinySetup& setup, const std::function<absl::Status(TinyRank&)>& body);

// How a test of an objective divides its steps.
struct Layout {
  std::string strategy = "no_shard";
  int world_size = 1;
  int shard_size = 0;
  int64_t deterministic_batch = 0;  // of micro-batches of one row
  TensorParallelOptions tensor{};
  ActivationCheckpointing recompute = ActivationCheckpointing::kNone;
  int64_t micro_batches = 1;  // without a deterministic batch
  bool sync_every_micro_batch = true;
  bool offload = false;

  TrainerOptions Options() const;
  // Returns a rank's share of steps of so many rows, in their order.
  LoaderOptions Loader(const Communicator& world, int64_t rows, int64_t row_length) const;
  // Returns the micro-batches of a rank's step.
  int64_t MicroBatches(int64_t rows) const {
    const int64_t of_ranks = world_size / tensor.size;
    return deterministic_batch > 0 ? rows / of_ranks : micro_batches;
  }
};

// Expects train(layout), a StatusOr, to have the same bits under every strategy and with tensor
// ranks, for steps of `rows` rows: same(record, expected). check(expected) looks at the record of
// one rank.
template <typename Train, typename Check, typename Same>
void ExpectBitsOfOneRank(int64_t rows, const Train& train, const Check& check, const Same& same) {
  Layout alone;
  alone.deterministic_batch = rows;
  alone.tensor.deterministic = 2;
  const auto expected = train(alone);
  ASSERT_TRUE(expected.ok()) << expected.status();
  check(*expected);
  for (Layout layout :
       {Layout{"full_shard", 2}, Layout{"full_shard", 4}, Layout{"no_shard", 4},
        Layout{"shard_optimizer", 2}, Layout{"shard_grad_op", 4}, Layout{"hybrid_shard", 4, 2}}) {
    layout.deterministic_batch = rows;
    layout.tensor = alone.tensor;
    for (const bool more : {false, true}) {
      if (more) {
        layout.recompute = ActivationCheckpointing::kBlock;
        layout.tensor.size = layout.world_size == 4 ? 2 : 1;
      }
      SCOPED_TRACE(::testing::Message() << layout.strategy << " over " << layout.world_size
                                        << ", tensor " << layout.tensor.size);
      const auto record = train(layout);
      ASSERT_TRUE(record.ok()) << record.status();
      EXPECT_TRUE(same(*record, *expected));
    }
  }
}

// The weights of the file.
absl::StatusOr<NamedValues> TinyWeights(const std::string& model);

// Reads an adapter that PEFT wrote, under PEFT's names.
absl::StatusOr<NamedValues> PeftFile(const std::string& path);

// Returns those of `values` that belong to the adapter, under the names and in the layout of PEFT.
NamedValues AsPeft(const LanguageModel& model, const NamedValues& values);

// Expects the same names, and values whose differences are at most `tolerance` of the expected
// values, in the Euclidean norm of each tensor.
void ExpectClose(const NamedValues& values, const NamedValues& expected, double tolerance);

// Assembles the pieces of several ranks. Thread-safe.
class Collector {
 public:
  // From element `begin` of the undivided parameter on.
  void Put(const Parameter& parameter, int64_t begin, absl::Span<const float> piece);
  // This rank's weights.
  absl::Status PutWeights(const Sharding& sharding);
  // This rank's reduced gradients, for parameters that have one.
  absl::Status PutGradients(const Sharding& sharding);
  const NamedValues& values() const { return values_; }

 private:
  std::mutex mutex_;
  NamedValues values_;
};

}  // namespace zeroth::testing
