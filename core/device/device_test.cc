// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/device.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace zeroth {
namespace {

// Fails with its options in the message: enough to see that the registry passed them on.
DeviceRegistry::Factory FailingFactory(const std::string& who) {
  return [who](const DeviceOptions& options) -> absl::StatusOr<std::shared_ptr<Device>> {
    return absl::UnavailableError(who + " index " + std::to_string(options.index) + " threads " +
                                  std::to_string(options.threads));
  };
}

const DeviceRegistration zebra("zebra", FailingFactory("zebra"));
const DeviceRegistration aardvark("aardvark", FailingFactory("aardvark"));

TEST(DeviceRegistryTest, TypesAreSorted) {
  EXPECT_EQ(DeviceRegistry::Types(), (std::vector<std::string>{"aardvark", "zebra"}));
}

TEST(DeviceRegistryTest, CreateCallsTheFactoryWithTheOptions) {
  const absl::Status status = DeviceRegistry::Create("zebra", {.index = 3, .threads = 5}).status();
  EXPECT_EQ(status, absl::UnavailableError("zebra index 3 threads 5"));
}

TEST(DeviceRegistryTest, UnknownKindListsTheKnownOnes) {
  const absl::Status status = DeviceRegistry::Create("quagga", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "no device of kind 'quagga' is linked in; this program has: aardvark, zebra");
}

TEST(DeviceRegistryTest, ANegativeLimitOfMemoryIsNotNone) {
  const absl::Status status = DeviceRegistry::Create("zebra", {.memory_limit = -4096}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "device zebra: memory_limit is -4096 bytes, expected a positive number, or 0 for none");
}

TEST(DeviceRegistryDeathTest, SecondRegistrationAborts) {
  EXPECT_DEATH(DeviceRegistration("zebra", FailingFactory("again")), "invariant violated");
}

}  // namespace
}  // namespace zeroth
