// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/device.h"

#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"

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

struct Registry {
  std::mutex mutex;
  std::map<std::string, DeviceRegistry::Factory> factories;
};

Registry& GlobalRegistry() {
  // Never destroyed, so that static registration objects and threads that outlive main() may use
  // it.
  static Registry& registry = *new Registry;
  return registry;
}

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

void DeviceRegistry::Register(absl::string_view type, Factory factory) {
  Registry& registry = GlobalRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const bool is_new = registry.factories.emplace(std::string(type), std::move(factory)).second;
  ZEROTH_CHECK(is_new);
}

absl::StatusOr<std::shared_ptr<Device>> DeviceRegistry::Create(absl::string_view type,
                                                               const DeviceOptions& options) {
  Factory factory;
  {
    Registry& registry = GlobalRegistry();
    std::lock_guard<std::mutex> lock(registry.mutex);
    const auto found = registry.factories.find(std::string(type));
    if (found != registry.factories.end()) factory = found->second;
  }
  if (factory == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no device of kind '", type,
                     "' is linked into this program; it has: ", absl::StrJoin(Types(), ", ")));
  }
  absl::StatusOr<std::shared_ptr<Device>> device = factory(options);
  if (device.ok() && options.memory_limit > 0) {
    (*device)->allocator().set_limit(options.memory_limit);
  }
  return device;
}

std::vector<std::string> DeviceRegistry::Types() {
  Registry& registry = GlobalRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> types;
  for (const auto& entry : registry.factories) types.push_back(entry.first);
  return types;
}

}  // namespace zeroth
