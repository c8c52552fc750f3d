// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/did_you_mean.h"

namespace zeroth {

// The registered plug-ins of one `Kind`, by name. `Kind` is any type; it only tells registries
// apart. Plug-ins register before main, by objects at namespace scope. A registry is never
// destroyed, because look-ups may happen after main. Thread-safe.
template <typename Kind, typename Entry>
class Registry {
 public:
  // The one registry of this kind.
  static Registry& Global() {
    static Registry* const registry = new Registry;
    return *registry;
  }

  // A second entry of a name is a bug and aborts.
  void Add(absl::string_view name, Entry entry) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool is_new = entries_.emplace(std::string(name), std::move(entry)).second;
    ZEROTH_CHECK(is_new && "something with this name is already registered");
  }

  std::optional<Entry> Find(absl::string_view name) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(std::string(name));
    if (found == entries_.end()) return std::nullopt;
    return found->second;
  }

  // Sorted.
  std::vector<std::string> Names() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }

  // The end of an error message about an `unknown` name, see did_you_mean.h.
  std::string Instead(absl::string_view unknown,
                      absl::Span<const NamedElsewhere> elsewhere = {}) const {
    return InsteadOf(unknown, elsewhere, Names());
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace zeroth
