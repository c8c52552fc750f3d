// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/hardware.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/core/base/registry.h"

namespace zeroth {
namespace {

using HardwareNames = Registry<HardwareNameRegistration, HardwareNameRegistration::NameOf>;

}  // namespace

absl::StatusOr<std::string> HardwareName(const Device& device) {
  const std::optional<HardwareNameRegistration::NameOf> name_of =
      HardwareNames::Global().Find(device.type());
  if (name_of.has_value()) return (*name_of)(device);
  return absl::UnimplementedError(
      absl::StrCat("device ", device.name(), " does not name its hardware"));
}

HardwareNameRegistration::HardwareNameRegistration(absl::string_view type, NameOf name_of) {
  HardwareNames::Global().Add(type, std::move(name_of));
}

}  // namespace zeroth
