// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/launcher.h"

#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "zeroth/core/base/check.h"

namespace zeroth {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, Launcher> launchers;
};

// Never destroyed: back ends register before main, and threads may still look names up after it.
Registry& GlobalRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

}  // namespace

void LauncherRegistry::Register(absl::string_view name, Launcher launcher) {
  ZEROTH_CHECK(launcher != nullptr);
  Registry& registry = GlobalRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const bool inserted = registry.launchers.emplace(std::string(name), std::move(launcher)).second;
  ZEROTH_CHECK(inserted);
}

absl::Status LauncherRegistry::Launch(absl::string_view name, const LaunchOptions& options,
                                      const RankMain& rank_main) {
  Launcher launcher;
  {
    Registry& registry = GlobalRegistry();
    std::lock_guard<std::mutex> lock(registry.mutex);
    const auto found = registry.launchers.find(std::string(name));
    if (found != registry.launchers.end()) launcher = found->second;
  }
  if (launcher == nullptr) {
    const std::vector<std::string> names = Names();
    return absl::NotFoundError(
        absl::StrCat("unknown communication back end '", name, "'; this program has: ",
                     names.empty() ? "none (link a target such as //core/comm:all_backends)"
                                   : absl::StrJoin(names, ", ")));
  }
  return launcher(options, rank_main);
}

std::vector<std::string> LauncherRegistry::Names() {
  Registry& registry = GlobalRegistry();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& [name, launcher] : registry.launchers) names.push_back(name);
  return names;
}

}  // namespace zeroth
