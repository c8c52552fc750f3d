// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/kernels.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

struct Implementation {
  KernelRegistry::Factory factory;
  KernelSupport support;
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Implementation> implementations;
  std::map<std::string, int> numbers;  // of device types, in the tables
};

// Never destroyed: registrations of other translation units may outlive this one's statics.
Registry& GlobalRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

absl::StatusOr<Implementation> Find(absl::string_view device_type) {
  Registry& registry = GlobalRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const auto it = registry.implementations.find(std::string(device_type));
  if (it != registry.implementations.end()) return it->second;
  const std::string known =
      absl::StrJoin(registry.implementations, ", ",
                    [](std::string* out, const auto& entry) { absl::StrAppend(out, entry.first); });
  return absl::NotFoundError(absl::StrCat("no kernels for device type '", device_type,
                                          "'; linked in: ", known.empty() ? "none" : known));
}

absl::Status CheckSupport(absl::string_view device_type, const KernelSupport& support,
                          const KernelOptions& options) {
  if (options.fp32_precision == Fp32Precision::kTf32 && !support.tf32) {
    return absl::UnimplementedError(
        absl::StrCat("fp32_precision = tf32: devices of type '", device_type,
                     "' have no TF32; expected ieee, fp32 products in fp32"));
  }
  if (options.attention == AttentionBackend::kCudnn && !support.cudnn) {
    return absl::UnimplementedError(absl::StrCat("attention = cudnn: devices of type '",
                                                 device_type,
                                                 "' have no cuDNN; expected auto or flash"));
  }
  if (options.allow_slow_kernels && !support.slow_kernels) {
    return absl::UnimplementedError(absl::StrCat("allow_slow_kernels: devices of type '",
                                                 device_type,
                                                 "' have none for products; leave it out"));
  }
  return absl::OkStatus();
}

}  // namespace

Kernels::Kernels(Device& device, Stream& stream, const KernelOptions& options)
    : device_(device),
      stream_(stream),
      options_(options),
      device_type_(DeviceTypeNumber(device.type())) {}

int DeviceTypeNumber(absl::string_view device_type) {
  Registry& registry = GlobalRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const int next = static_cast<int>(registry.numbers.size());
  const int number = registry.numbers.emplace(std::string(device_type), next).first->second;
  ZEROTH_CHECK(number < kMostDeviceTypes);
  return number;
}

void KernelRegistry::Register(absl::string_view device_type, Factory factory,
                              const KernelSupport& support) {
  Registry& registry = GlobalRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const bool inserted =
      registry.implementations
          .emplace(std::string(device_type), Implementation{std::move(factory), support})
          .second;
  ZEROTH_CHECK(inserted);
}

absl::Status KernelRegistry::Check(absl::string_view device_type, const KernelOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const Implementation implementation, Find(device_type));
  return CheckSupport(device_type, implementation.support, options);
}

absl::StatusOr<std::unique_ptr<Kernels>> KernelRegistry::Create(Device& device, Stream& stream,
                                                                const KernelOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const Implementation implementation, Find(device.type()));
  ZEROTH_RETURN_IF_ERROR(CheckSupport(device.type(), implementation.support, options));
  if (&stream.device() != &device) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernels of ", device.name(), " need a stream of that device; '",
                     stream.name(), "' belongs to ", stream.device().name()));
  }
  return implementation.factory(device, stream, options);
}

std::vector<std::string> KernelRegistry::DeviceTypes() {
  Registry& registry = GlobalRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> types;
  for (const auto& [type, implementation] : registry.implementations) types.push_back(type);
  return types;
}

}  // namespace zeroth
