// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/comm/process/node.h"

#include <unistd.h>

#include <climits>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace zeroth {
namespace {

// Empty: NodeName asks the machine.
std::string& NameForTest() {
  static thread_local std::string name;
  return name;
}

}  // namespace

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

std::string NodeName() {
  if (!NameForTest().empty()) return NameForTest();
  return absl::StrCat(HostName(), " ", BootId());
}

void SetNodeNameForTest(std::string name) { NameForTest() = std::move(name); }

int RanksPerNode(absl::Span<const std::string> nodes) {
  size_t first = 0;
  while (first < nodes.size() && nodes[first] == nodes[0]) ++first;
  if (first == nodes.size() || nodes.size() % first != 0 || (first & (first - 1)) != 0) return 1;
  std::set<absl::string_view> seen;
  for (size_t begin = 0; begin < nodes.size(); begin += first) {
    if (!seen.insert(nodes[begin]).second) return 1;
    for (size_t rank = begin; rank < begin + first; ++rank) {
      if (nodes[rank] != nodes[begin]) return 1;
    }
  }
  return static_cast<int>(first);
}

}  // namespace zeroth
