// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/kernels.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/device/device.h"
#include "zeroth/kernels/operation.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

// A device of a type without kernels.
class StrangeDevice final : public Device {
 public:
  absl::string_view type() const override { return "abacus"; }
  int index() const override { return 0; }
  const DeviceOptions& options() const override { return options_; }
  Allocator& allocator() override { return real_->allocator(); }
  Stream& compute_stream() override { return real_->compute_stream(); }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name) override {
    return real_->CreateStream(name);
  }
  void BindThread() override {}
  absl::Status Copy(void*, const void*, size_t, Stream&) override { return absl::OkStatus(); }
  absl::Status CopyFromHost(void*, const void*, size_t, Stream&) override {
    return absl::OkStatus();
  }
  absl::Status CopyToHost(void*, const void*, size_t, Stream&) override { return absl::OkStatus(); }
  absl::Status FillZero(void*, size_t, Stream&) override { return absl::OkStatus(); }

 private:
  DeviceOptions options_;
  std::shared_ptr<Device> real_ = *DeviceRegistry::Create("cpu", DeviceOptions{});
};

TEST(KernelRegistryTest, CreatesByDeviceType) {
  const std::shared_ptr<Device> device = *DeviceRegistry::Create("cpu", DeviceOptions{});
  const absl::StatusOr<std::unique_ptr<Kernels>> kernels =
      KernelRegistry::Create(*device, device->compute_stream());
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  EXPECT_EQ(&(*kernels)->stream(), &device->compute_stream());
}

TEST(KernelRegistryTest, UnknownTypeListsTheKnownOnes) {
  StrangeDevice device;
  const absl::Status status = KernelRegistry::Create(device, device.compute_stream()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("abacus"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cpu"));
}

TEST(KernelRegistryTest, RefusesTf32WhereThereIsNone) {
  const std::shared_ptr<Device> device = *DeviceRegistry::Create("cpu", DeviceOptions{});
  KernelOptions options;
  EXPECT_EQ(KernelRegistry::Check("cpu", options), absl::OkStatus());
  options.fp32_precision = Fp32Precision::kTf32;
  const absl::Status status = KernelRegistry::Check("cpu", options);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'cpu' have no TF32; expected ieee"));
  EXPECT_EQ(KernelRegistry::Create(*device, device->compute_stream(), options).status(), status);
  EXPECT_EQ(KernelRegistry::Check("abacus", options).code(), absl::StatusCode::kNotFound);
}

TEST(KernelRegistryTest, RefusesSlowKernelsWhereThereAreNone) {
  KernelOptions options;
  options.allow_slow_kernels = true;
  const absl::Status status = KernelRegistry::Check("cpu", options);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("allow_slow_kernels: devices of type 'cpu'"));
}

TEST(KernelRegistryTest, RefusesToGiveUpDeterminismThatIsFree) {
  const absl::Status status = KernelRegistry::Check("cpu", {.attention_determinism = false});
  EXPECT_EQ(status,
            absl::UnimplementedError("attention_determinism = off: devices of type 'cpu' have only "
                                     "deterministic attention; leave it out"));
}

TEST(KernelRegistryTest, RefusesAnotherDevicesStream) {
  const std::shared_ptr<Device> device = *DeviceRegistry::Create("cpu", DeviceOptions{});
  const std::shared_ptr<Device> other = *DeviceRegistry::Create("cpu", DeviceOptions{});
  EXPECT_EQ(KernelRegistry::Create(*device, other->compute_stream()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(KernelRegistryTest, ASecondRegistrationAborts) {
  EXPECT_DEATH(KernelRegistration("cpu", nullptr), "invariant");
}

// An operation that no device has.
struct StrangeCall {};

TEST(KernelTableTest, AMissingFunctionNamesOperationAndDevice) {
  const std::shared_ptr<Device> device = *DeviceRegistry::Create("cpu", DeviceOptions{});
  const std::unique_ptr<Kernels> kernels =
      *KernelRegistry::Create(*device, device->compute_stream());
  Operation operation("Juggle", *kernels);
  EXPECT_EQ(operation.Run(StrangeCall()),
            absl::UnimplementedError("Juggle: devices of type 'cpu' have no kernel for it"));
}

struct CountedCall {
  int* count = nullptr;
};

absl::Status Count(Kernels&, const CountedCall& call, CallTensors) {
  ++*call.count;
  return absl::OkStatus();
}

TEST(KernelTableTest, RunsTheDevicesFunctionUnlessAFieldIsWrong) {
  using Registration = KernelTable<CountedCall>::Registration;
  const Registration registration("cpu", Count);
  EXPECT_DEATH(Registration("cpu", Count), "invariant");
  const std::shared_ptr<Device> device = *DeviceRegistry::Create("cpu", DeviceOptions{});
  const std::unique_ptr<Kernels> kernels =
      *KernelRegistry::Create(*device, device->compute_stream());
  int count = 0;
  Operation operation("Count", *kernels);
  EXPECT_EQ(operation.Run(CountedCall{&count}), absl::OkStatus());
  EXPECT_EQ(count, 1);
  EXPECT_FALSE(operation.Require(false, "x", "is wrong"));
  EXPECT_EQ(operation.Run(CountedCall{&count}), absl::InvalidArgumentError("Count: x is wrong"));
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace zeroth
