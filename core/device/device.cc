// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/device.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/did_you_mean.h"
#include "zeroth/core/base/registry.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<double> Event::Seconds() const {
  return absl::FailedPreconditionError(
      "this event keeps no time; record it with Stream::RecordTime");
}

absl::StatusOr<std::shared_ptr<Event>> Stream::RecordTime() {
  return absl::UnimplementedError(
      absl::StrCat("streams of device ", device().name(), " cannot tell the time"));
}

namespace {

using Devices = Registry<DeviceRegistry, DeviceRegistry::Factory>;

constexpr NamedElsewhere kElsewhere[] = {
    {"cuda", "gpu nvidia"},
};

}  // namespace

absl::StatusOr<std::shared_ptr<OffloadStore>> Device::CreateOffloadStore(
    const OffloadStoreOptions&) {
  return absl::UnimplementedError(
      absl::StrCat("device ", name(), " has no further memory to offload to"));
}

absl::Status Device::BeginRecording() {
  return absl::UnimplementedError(
      absl::StrCat("device ", name(), " cannot record its work to play it again"));
}

absl::StatusOr<std::unique_ptr<Recording>> Device::EndRecording() {
  return absl::UnimplementedError(
      absl::StrCat("device ", name(), " cannot record its work to play it again"));
}

std::string Device::name() const { return absl::StrCat(type(), ":", index()); }

DeviceRegistration::DeviceRegistration(absl::string_view type, DeviceRegistry::Factory factory) {
  Devices::Global().Add(type, std::move(factory));
}

absl::StatusOr<std::shared_ptr<Device>> DeviceRegistry::Create(absl::string_view type,
                                                               const DeviceOptions& options) {
  const std::optional<Factory> factory = Devices::Global().Find(type);
  if (!factory.has_value()) {
    return absl::NotFoundError(absl::StrCat("no device of kind '", type, "' is linked in",
                                            Devices::Global().Instead(type, kElsewhere)));
  }
  if (options.memory_limit < 0) {
    return InvalidArgument("device ", type, ": memory_limit is ", options.memory_limit,
                           " bytes, expected a positive number, or 0 for none");
  }
  absl::StatusOr<std::shared_ptr<Device>> device = (*factory)(options);
  if (device.ok() && options.memory_limit > 0) {
    (*device)->allocator().set_limit(options.memory_limit);
  }
  return device;
}

std::vector<std::string> DeviceRegistry::Types() { return Devices::Global().Names(); }

}  // namespace zeroth
