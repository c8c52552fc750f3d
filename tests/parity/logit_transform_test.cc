// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Caps Gemma 2's logits by a LogitTransform. Compares with the reference run in float64, and bit
// for bit between deterministic tensor ranks.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/api/trainer.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/local/local.h"
#include "zeroth/core/device/device.h"
#include "zeroth/nn/language_model.h"
#include "zeroth/nn/testing/capped_by_transform.h"
#include "zeroth/tests/parity/comparison.h"
#include "zeroth/tests/parity/reference_run.h"

namespace zeroth {
namespace {

constexpr char kModel[] = "gemma2_tiny";
constexpr char kModelType[] = "gemma2_by_transform";

const ModelRegistration registration(kModelType, testing::CapByTransform);

// Also caps logits by LogitCap, which cannot be combined.
class CappedTwice : public testing::CappedByTransform {
 public:
  using CappedByTransform::CappedByTransform;

 protected:
  float LogitCap() const override { return 30; }
};

absl::StatusOr<std::unique_ptr<LanguageModel>> CapTwice(const nlohmann::json& config,
                                                        const ModelOptions& options) {
  nlohmann::json uncapped = config;
  uncapped["model_type"] = "gemma2";
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model,
                          ModelRegistry::Create(uncapped, options));
  return std::make_unique<CappedTwice>(std::move(model), /*cap=*/30.0f, config);
}

constexpr char kCappedTwice[] = "gemma2_capped_twice";
const ModelRegistration capped_twice(kCappedTwice, CapTwice);

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

// Before training, not in its first forward.
TEST_F(LogitTransformTest, AModelWithACapAsWellIsNotBuilt) {
  nlohmann::json config =
      nlohmann::json::parse(ReadTestFile("tests/testdata/gemma2_tiny/config.json"));
  config["model_type"] = kCappedTwice;
  constexpr char kExpected[] =
      "logits: the model has LogitCap() = 30 and a logit_transform(), expected one of them; apply "
      "the cap in the transform, and return 0 from LogitCap()";
  EXPECT_EQ(ModelRegistry::Create(config).status(),
            absl::UnimplementedError(absl::StrCat("model_type '", kCappedTwice, "': ", kExpected)));
  // A model of one's own, which is not registered.
  EXPECT_EQ(RunLocalRanks(1,
                          [&](Communicator& world) -> absl::Status {
                            ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<Device> device,
                                                    DeviceRegistry::Create("cpu", DeviceOptions()));
                            device->BindThread();
                            ZEROTH_ASSIGN_OR_RETURN(auto model, CapTwice(config, ModelOptions()));
                            return Trainer::Create(world, *device, std::move(model), {}).status();
                          }),
            absl::UnimplementedError(absl::StrCat("rank 0 failed: ", kExpected)));
}

}  // namespace
}  // namespace zeroth
