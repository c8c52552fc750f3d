// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/kernels.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/registry.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

struct Implementation {
  KernelRegistry::Factory factory;
  KernelSupport support;
};

using Implementations = Registry<KernelRegistry, Implementation>;

absl::StatusOr<Implementation> Find(absl::string_view device_type) {
  if (std::optional<Implementation> found = Implementations::Global().Find(device_type)) {
    return *std::move(found);
  }
  const std::string known = absl::StrJoin(KernelRegistry::DeviceTypes(), ", ");
  return absl::NotFoundError(absl::StrCat("no kernels for device type '", device_type,
                                          "'; linked in: ", known.empty() ? "none" : known));
}

absl::Status CheckSupport(absl::string_view device_type, const KernelSupport& support,
                          const KernelOptions& options) {
  const auto lacking = [&](absl::string_view option, absl::string_view words) {
    return Unimplemented(option, ": devices of type '", device_type, "' have ", words);
  };
  if (options.fp32_precision == Fp32Precision::kTf32 && !support.tf32) {
    return lacking("fp32_precision = tf32", "no TF32; expected ieee, fp32 matmuls in fp32");
  }
  if (options.attention == AttentionBackend::kCudnn && !support.cudnn) {
    return lacking("attention = cudnn", "no cuDNN; expected auto or flash");
  }
  if (!options.attention_determinism && !support.cudnn) {
    return lacking("attention_determinism = off", "only deterministic attention; leave it out");
  }
  if (options.allow_slow_kernels && !support.slow_kernels) {
    return lacking("allow_slow_kernels", "no slow kernels; leave it out");
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
  // Never destroyed: registrations of other translation units may outlive this one's statics.
  static auto& mutex = *new std::mutex;
  static auto& numbers = *new std::map<std::string, int>;
  std::lock_guard<std::mutex> lock(mutex);
  const int next = static_cast<int>(numbers.size());
  const int number = numbers.emplace(std::string(device_type), next).first->second;
  ZEROTH_CHECK(number < kMostDeviceTypes);
  return number;
}

KernelRegistration::KernelRegistration(absl::string_view device_type,
                                       KernelRegistry::Factory factory,
                                       const KernelSupport& support) {
  Implementations::Global().Add(device_type, {std::move(factory), support});
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
    return InvalidArgument("kernels of ", device.name(), " need a stream of that device; '",
                           stream.name(), "' belongs to ", stream.device().name());
  }
  return implementation.factory(device, stream, options);
}

std::vector<std::string> KernelRegistry::DeviceTypes() { return Implementations::Global().Names(); }

}  // namespace zeroth
