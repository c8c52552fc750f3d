// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Tests the plans that cuDNN itself makes for our graphs, without a GPU: devices are described to
// it, and the driver can only load kernels. The attention suite tests the results of its kernels on
// machines with a GPU.

#include "zeroth/kernels/attention/cudnn.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/kernels/attention/attention_choice.h"
#include "zeroth/kernels/attention/cudnn_limits.h"

namespace zeroth::cuda {
namespace {

// Returns the description that cuDNN wants of a device: of an A100, an H200 or a B200.
std::string Description(int capability) {
  const bool ampere = capability < 90;
  return absl::StrCat(
      R"({"deviceName": "described", "cudaDeviceId": 0, "pciDeviceId": 0, "deviceVer": )",
      capability * 10, R"(, "driverVer": 13000, "multiProcessorCount": )",
      ampere             ? 108
      : capability < 100 ? 132
                         : 148,
      R"(, "totalGlobalMem": )", ampere ? "85899345920" : "150000000000", R"(, "l2CacheSize": )",
      ampere ? 41943040 : 62914560,
      R"(, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": )",
      ampere ? 166912 : 232448,
      R"(, "reservedSharedMemoryPerBlock": 1024, "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
          "warpSize": 32, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
          "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
          "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "supportCoopLaunch": 1,
          "isTccDriver": 0})");
}

class CudnnTest : public testing::TestWithParam<int> {
 protected:
  static void SetUpTestSuite() {
    // cuDNN looks for a driver by this name, and uses the one that is loaded already.
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
    const std::string stand_in =
        absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"),
                     "/kernels/cuda/testing/libcuda.so.1");
    ASSERT_NE(dlopen(stand_in.c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  }

  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Cudnn>> cudnn =
        Cudnn::CreateForDescription(Description(GetParam()), GetParam());
    if (absl::IsUnimplemented(cudnn.status())) GTEST_SKIP() << cudnn.status();
    ASSERT_TRUE(cudnn.ok()) << cudnn.status();
    cudnn_ = *std::move(cudnn);
  }

  // Returns cuDNN's answer for one pass.
  absl::Status Plan(const AttentionShape& shape, DType dtype, AttentionPass pass) {
    return cudnn_->MakePlan({shape, dtype, pass}).status();
  }

  std::unique_ptr<Cudnn> cudnn_;
};

TEST_P(CudnnTest, HasEnginesForTheModelsOfTheBenchmarks) {
  EXPECT_TRUE(absl::StartsWith(cudnn_->version(), "9.")) << cudnn_->version();
  for (const AttentionShape& shape :
       {AttentionShape{64, 1024, 12, 12, 64}, AttentionShape{16, 1024, 25, 25, 64},
        AttentionShape{16, 2048, 32, 4, 64}, AttentionShape{8, 4096, 16, 4, 128}}) {
    for (const AttentionPass pass : {AttentionPass::kForward, AttentionPass::kBackward}) {
      const auto plan = cudnn_->MakePlan({shape, DType::kBFloat16, pass});
      ASSERT_TRUE(plan.ok()) << plan.status();
      if (pass != AttentionPass::kBackward) {
        EXPECT_LE((*plan)->workspace_bytes(), size_t{1} << 20);
      }
    }
  }
}

// Any number of tokens and groups, wherever our layouts put them.
TEST_P(CudnnTest, HasEnginesForRandomShapes) {
  std::minstd_rand random(static_cast<unsigned>(GetParam()));
  const auto pick = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
  for (int round = 0; round < 6; ++round) {
    AttentionShape shape;
    shape.batch = pick(9);
    shape.seq = 1 + pick(700);
    shape.kv_heads = pick(5);
    shape.heads = shape.kv_heads * pick(4);
    shape.head_dim = 8 * pick(16);
    const DType dtype = round % 2 == 0 ? DType::kBFloat16 : DType::kFloat16;
    SCOPED_TRACE(absl::StrCat("batch ", shape.batch, ", seq ", shape.seq, ", heads ", shape.heads,
                              " / ", shape.kv_heads, ", head_dim ", shape.head_dim));
    EXPECT_EQ(Plan(shape, dtype, AttentionPass::kForward), absl::OkStatus());
    EXPECT_EQ(Plan(shape, dtype, AttentionPass::kBackward), absl::OkStatus());
  }
}

TEST_P(CudnnTest, SaysWhatItDoesNotCompute) {
  const absl::Status fp32 = Plan({1, 16, 2, 2, 64}, DType::kFloat32, AttentionPass::kForward);
  EXPECT_TRUE(absl::IsUnimplemented(fp32)) << fp32;
  // One token attends to itself alone; cuDNN has no backward for it.
  const absl::Status token = Plan({4, 1, 2, 2, 64}, DType::kBFloat16, AttentionPass::kBackward);
  EXPECT_TRUE(absl::IsUnimplemented(token)) << token;
  EXPECT_TRUE(absl::StartsWith(token.message(), "cuDNN: attention: ")) << token;
  const absl::Status odd = Plan({1, 16, 2, 2, 60}, DType::kBFloat16, AttentionPass::kForward);
  EXPECT_TRUE(absl::IsUnimplemented(odd)) << odd;
}

TEST_P(CudnnTest, PlansOfADescriptionAreNotRun) {
  const auto plan =
      cudnn_->MakePlan({{1, 16, 2, 2, 64}, DType::kBFloat16, AttentionPass::kForward});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(absl::IsFailedPrecondition((*plan)->Enqueue({}, nullptr)));
}

// The planner (kernels/planned) counts on this.
TEST_P(CudnnTest, BackwardTakesTheWorkspaceThatPlansHave) {
  for (const AttentionShape& shape :
       {AttentionShape{1, 8192, 4, 1, 128}, AttentionShape{1, 8192, 4, 4, 128},
        AttentionShape{2, 2048, 32, 4, 64}, AttentionShape{3, 1000, 12, 12, 64},
        AttentionShape{1, 1531, 9, 3, 80}, AttentionShape{5, 500, 6, 2, 96}}) {
    for (const bool deterministic : {true, false}) {
      if (!deterministic && GetParam() < 90) continue;  // cudnn_limits.h says what differs
      CudnnAttentionKey key = {shape, DType::kBFloat16, AttentionPass::kBackward};
      key.deterministic = deterministic;
      const auto plan = cudnn_->MakePlan(key);
      ASSERT_TRUE(plan.ok()) << plan.status();
      const CudnnBackward engine = CudnnBackwardOf(GetParam() < 100, deterministic);
      const auto expected =
          static_cast<double>(shape.batch * CudnnBackwardWorkspace(shape, engine));
      EXPECT_NEAR(static_cast<double>((*plan)->workspace_bytes()), expected, 1e-3 * expected + 1024)
          << "batch " << shape.batch << ", seq " << shape.seq << ", head_dim " << shape.head_dim;
    }
  }
}

// The workspace that bounds the parts is cuDNN's own number.
TEST_P(CudnnTest, BackwardStaysWithinTheWorkspace) {
  AttentionChoice choice({.attention = AttentionBackend::kCudnn},
                         [this] { return std::move(cudnn_); });
  for (const AttentionShape& shape :
       {AttentionShape{64, 1024, 12, 12, 64}, AttentionShape{16, 2048, 32, 4, 64},
        AttentionShape{13, 1531, 9, 3, 80}, AttentionShape{2, 8192, 32, 8, 128}}) {
    const CudnnAttentionKey key = {shape, DType::kBFloat16, AttentionPass::kBackward};
    const auto workspace = choice.CudnnWorkspace(key, {});
    ASSERT_TRUE(workspace.ok()) << workspace.status();
    ASSERT_TRUE(workspace->has_value());
    EXPECT_LE(**workspace, kMostCudnnWorkspace);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CudnnTest, testing::Values(80, 90, 100),
                         [](const testing::TestParamInfo<int>& device) {
                           return absl::StrCat("sm_", device.param);
                         });

TEST(CudnnDescriptionTest, ADescriptionOfNothingIsRejected) {
  const absl::Status status = Cudnn::CreateForDescription("{}", 90).status();
  if (absl::IsUnimplemented(status)) GTEST_SKIP() << status;
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

}  // namespace
}  // namespace zeroth::cuda
