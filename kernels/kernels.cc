// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/kernels.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, KernelRegistry::Factory> factories;
};

// Never destroyed: registrations of other translation units may outlive this one's statics.
Registry& GlobalRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

}  // namespace

void KernelRegistry::Register(absl::string_view device_type, Factory factory) {
  Registry& registry = GlobalRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const bool inserted =
      registry.factories.emplace(std::string(device_type), std::move(factory)).second;
  ZEROTH_CHECK(inserted);
}

absl::StatusOr<std::unique_ptr<Kernels>> KernelRegistry::Create(Device& device, Stream& stream) {
  Factory factory;
  {
    Registry& registry = GlobalRegistry();
    std::lock_guard<std::mutex> lock(registry.mutex);
    const auto it = registry.factories.find(std::string(device.type()));
    if (it == registry.factories.end()) {
      const std::string known = absl::StrJoin(
          registry.factories, ", ",
          [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); });
      return absl::NotFoundError(absl::StrCat("no kernels for device type '", device.type(),
                                              "'; linked in: ", known.empty() ? "none" : known));
    }
    factory = it->second;
  }
  if (&stream.device() != &device) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernels of ", device.name(), " need a stream of that device; '",
                     stream.name(), "' belongs to ", stream.device().name()));
  }
  return factory(device, stream);
}

}  // namespace zeroth
