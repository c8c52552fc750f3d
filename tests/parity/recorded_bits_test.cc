// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Compares training runs with recorded hashes of their losses, norms, gradients and weights. The
// other suites compare runs of one build with each other; this one finds a change of the code that
// changes a result. It runs on the portable instructions, which every processor has. A change that
// is meant to change results replaces lines of the file.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/nn/activation_checkpointing.h"
#include "zeroth/strategies/shard_layout.h"
#include "zeroth/tests/parity/comparison.h"
#include "zeroth/tests/parity/reference_run.h"

namespace zeroth {
namespace {

constexpr char kRecorded[] = "tests/parity/recorded_bits.txt";

RunSetup FullShard(const char* model = "gpt2_tiny") {
  RunSetup setup;
  setup.model = model;
  setup.strategy = "full_shard";
  setup.world_size = 2;
  setup.steps = 4;
  return setup;
}

RunSetup Bf16(DType reduce_dtype = DType::kBFloat16) {
  RunSetup setup = FullShard("llama_tiny");
  setup.precision.param_dtype = DType::kBFloat16;
  setup.precision.reduce_dtype = reduce_dtype;
  return setup;
}

std::vector<RunSetup> Setups() {
  std::vector<RunSetup> setups;
  for (RunSetup& setup : SetupsFor("gpt2_tiny", 4)) {
    setup.steps = 4;
    setups.push_back(setup);
  }
  for (const int ranks : {1, 3, 8}) {
    setups.push_back(FullShard());
    setups.back().world_size = ranks;
    setups.back().rows_per_rank = 2;
  }
  // Change no bit of the run before them.
  setups.push_back(FullShard());
  setups.push_back(FullShard());
  setups.back().prefetch = false;
  setups.push_back(FullShard());
  setups.back().reshard_after_forward = false;
  setups.push_back(FullShard());
  setups.back().min_shard_numel = 100;
  setups.push_back(FullShard());
  setups.back().layout = LayoutKind::kRows;
  setups.push_back(FullShard());
  setups.back().offload.parameters = true;
  setups.back().offload.gradients = true;
  setups.back().offload.optimizer = true;
  setups.push_back(FullShard());
  setups.back().activation_checkpointing = ActivationCheckpointing::kBlock;

  setups.push_back(FullShard("llama_tiny"));
  for (const char* family : Families()) setups.push_back(FullShard(family));

  setups.push_back(Bf16());
  setups.push_back(Bf16(DType::kFloat32));
  setups.push_back(Bf16());
  setups.back().precision.keep_low_precision_grads = false;
  setups.push_back(Bf16());
  setups.back().fp32_norms = true;
  setups.push_back(Bf16());
  setups.back().precision.master_dtype = DType::kBFloat16;
  setups.push_back(FullShard("llama_tiny"));
  setups.back().precision.param_dtype = DType::kFloat16;
  setups.back().precision.reduce_dtype = DType::kFloat16;
  setups.back().loss_scale = 1024;
  for (const DType moments : {DType::kBFloat16, DType::kUInt8}) {
    setups.push_back(FullShard());
    setups.back().state_dtype = moments;
  }
  for (const char* model : {"gpt2_tiny", "llama_tiny"}) {
    setups.push_back(FullShard(model));
    setups.back().optimizer = "muon";
    setups.push_back(FullShard(model));
    setups.back().world_size = 4;
    setups.back().tensor.size = 2;
    setups.push_back(setups.back());
    setups.back().tensor.sequence = true;
    setups.push_back(FullShard(model));
    setups.back().tensor.deterministic = 4;
  }
  for (const bool every : {false, true}) {
    setups.push_back(FullShard());
    setups.back().micro_batches = 2;
    setups.back().sync_every_micro_batch = every;
  }
  setups.push_back(FullShard());
  setups.back().deterministic_batch = 8;
  return setups;
}

// XXH3 of every number of the record, in an order that does not depend on the layout.
std::string HashOf(const TrainingRecord& record) {
  ChecksumStream checksum;
  const auto add = [&](const auto& values) {
    checksum.Add(absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(values.data()),
                                     values.size() * sizeof(values[0])));
  };
  add(record.losses);
  add(record.grad_norms);
  for (const NamedValues* tensors : {&record.first_gradients, &record.final_weights}) {
    for (const auto& [name, values] : *tensors) {
      add(name);
      add(values);
    }
  }
  return ChecksumText(checksum.Value());
}

TEST(RecordedBitsTest, NightlyRunsHaveTheBitsOfTheFile) {
  std::vector<std::string> actual;
  for (const RunSetup& setup : Setups()) {
    actual.push_back(absl::StrCat(HashOf(Record(setup)), " ", setup.ToString()));
  }
  const std::vector<std::string> expected =
      absl::StrSplit(ReadTestFile(kRecorded), '\n', absl::SkipEmpty());
  EXPECT_EQ(actual, expected) << "the file would be\n" << absl::StrJoin(actual, "\n");
}

}  // namespace
}  // namespace zeroth
