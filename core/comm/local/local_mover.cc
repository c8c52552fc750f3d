// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/local/local_mover.h"

#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/check.h"

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

struct Movers {
  std::mutex mutex;
  std::map<std::string, LocalMoverRegistry::Factory> by_type;
};

Movers& AllMovers() {
  static auto* movers = new Movers;
  return *movers;
}

}  // namespace

LocalMover& HostMover() {
  static auto* mover = new MoverOnHost;
  return *mover;
}

void LocalMoverRegistry::Register(absl::string_view device_type, Factory factory) {
  Movers& movers = AllMovers();
  std::lock_guard<std::mutex> lock(movers.mutex);
  const bool fresh = movers.by_type.emplace(std::string(device_type), std::move(factory)).second;
  ZEROTH_CHECK(fresh);
}

absl::StatusOr<std::unique_ptr<LocalMover>> LocalMoverRegistry::Create(Stream& stream) {
  const std::string type(stream.device().type());
  Factory factory;
  {
    Movers& movers = AllMovers();
    std::lock_guard<std::mutex> lock(movers.mutex);
    const auto found = movers.by_type.find(type);
    if (found != movers.by_type.end()) factory = found->second;
  }
  if (factory != nullptr) return factory(stream);
  return absl::UnimplementedError(
      absl::StrCat("the local back end cannot move memory of device type '", type,
                   "'; link //core/comm:all_backends, built for that device"));
}

}  // namespace zeroth
