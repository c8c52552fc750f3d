// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Shared by the parity tests: the runs, each made once, and comparisons of two runs.

#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/tests/parity/reference_run.h"

namespace zeroth {

// The kind of device that a test target runs on: its ZEROTH_TEST_DEVICE, or "cpu".
std::string TestDevice();
// Skips tests, with the reason, if the machine has no such device.
class OnTestDevice : public ::testing::Test {
 protected:
  void SetUp() override;
};
// Ranks that share that device: 1, 2, 4 and, on the CPU, 8; in emulation 2.
std::vector<int> WorldSizes();
// Whether runs are shortened, because the device is emulated: losses and first gradients still test
// a run, but its final weights are not the reference's.
bool RunsAreShort();

// The families besides GPT-2 and Llama, as folders of tests/testdata.
std::vector<const char*> Families();

// Every strategy, shard_optimizer and shard_grad_op also in groups of 2, hybrid_shard in groups of
// 1, 2 and 4 and, in two groups, with optimizer state over all ranks, on the test's device. If runs
// are short: no_shard, full_shard and the last.
std::vector<RunSetup> SetupsFor(const std::string& model, int world_size,
                                const MixedPrecision& precision = {});
// The record of a run; every run is made once and used by several tests. A failed run fails the
// test and gives an empty record.
TrainingRecord Record(const RunSetup& setup);

// Tolerances for float32 compared with float64, over 20 steps of these models, given by the makers
// of the references.
inline constexpr double kFirstLossTolerance = 2e-6;
inline constexpr double kLossTolerance = 2e-5;
inline constexpr double kGradientTolerance = 1e-5;
inline constexpr double kWeightTolerance = 1e-4;
// The makers give none for norms after the first step. Elements that rounding decides
// (LoadSensitive) may then be off by a whole step of AdamW, which is the learning rate, 1e-3, and
// norms inherit that.
inline constexpr double kLaterNormTolerance = 1e-3;
inline constexpr double kMostMoved = 5e-3;

// |value - reference| / |reference|.
double Relative(double value, double reference);
// The same parameters, each within `tolerance` of the reference in 2-norm, without the elements
// `left_out`.
void ExpectClose(const NamedValues& values, const NamedValues& reference, double tolerance,
                 const char* what, const NamedIndices& left_out = {});
// ExpectClose of final weights, without those that rounding decides (LoadSensitive), none of which
// may be off by more than five steps of AdamW; a tenth of their error is added to `tolerance`.
void ExpectFinalWeightsClose(const std::string& model, const NamedValues& values,
                             const NamedValues& reference, double tolerance = kWeightTolerance);
// Runs the setup. Its losses, the first gradients and the final weights are those of its model's
// float64 reference.
void ExpectMeetsReference(const RunSetup& setup);
// Losses, norms, gradients and weights, to the last bit.
void ExpectSameBits(const TrainingRecord& a, const TrainingRecord& b);

}  // namespace zeroth
