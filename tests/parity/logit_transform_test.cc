// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Caps Gemma 2's logits by a LogitTransform. Compares with the reference run in float64, and bit
// for bit between deterministic tensor ranks.

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/dtype.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/testing/capped_by_transform.h"
#include "zeroth/tests/parity/comparison.h"
#include "zeroth/tests/parity/reference_run.h"

namespace zeroth {
namespace {

constexpr char kModel[] = "gemma2_tiny";
constexpr char kModelType[] = "gemma2_by_transform";

const ModelRegistration registration(kModelType, testing::CapByTransform);

// The strategies of SetupsFor whose groups fit into the data-parallel ranks.
std::vector<RunSetup> Setups(int world_size, int tensor_size) {
  std::vector<RunSetup> setups = SetupsFor(kModel, world_size / tensor_size);
  for (RunSetup& setup : setups) {
    setup.model_type = kModelType;
    setup.world_size = world_size;
    setup.tensor.size = tensor_size;
  }
  return setups;
}

using LogitTransformTest = OnTestDevice;

TEST_F(LogitTransformTest, MeetsTheReference) {
  std::vector<RunSetup> setups = {Setups(1, 1).front(), Setups(2, 1).back(), Setups(4, 2).back()};
  setups.push_back(setups.back());
  setups.back().tensor.sequence = true;
  for (const RunSetup& setup : setups) ExpectMeetsReference(setup);
}

TEST_F(LogitTransformTest, DeterministicPiecesGiveTheSameBits) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    RunSetup one = Setups(2, 1).front();
    one.precision.param_dtype = dtype;
    one.steps = 6;
    one.tensor.deterministic = 4;
    one.bits_of_any_team = true;
    RunSetup two = one;
    two.world_size = 4;
    two.tensor.size = 2;
    two.strategy = "full_shard";
    SCOPED_TRACE(two.ToString());
    ExpectSameBits(Record(one), Record(two));
  }
}

}  // namespace
}  // namespace zeroth
