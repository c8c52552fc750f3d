// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/local/local_mover.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/registry.h"

namespace zeroth {
namespace {

class MoverOnHost final : public LocalMover {
 public:
  absl::Status Copy(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status Reduce(const HostReduction& reduction) override {
    ReduceOnHost(reduction);
    return absl::OkStatus();
  }
};

using Movers = Registry<LocalMoverRegistry, LocalMoverRegistry::Factory>;

}  // namespace

LocalMover& HostMover() {
  static auto* mover = new MoverOnHost;
  return *mover;
}

void LocalMoverRegistry::Register(absl::string_view device_type, Factory factory) {
  Movers::Global().Add(device_type, std::move(factory));
}

absl::StatusOr<std::unique_ptr<LocalMover>> LocalMoverRegistry::Create(Stream& stream) {
  const absl::string_view type = stream.device().type();
  if (const std::optional<Factory> factory = Movers::Global().Find(type)) return (*factory)(stream);
  return absl::UnimplementedError(
      absl::StrCat("the local back end cannot move memory of device type '", type,
                   "'; link //core/comm:all_backends, built for that device"));
}

}  // namespace zeroth
