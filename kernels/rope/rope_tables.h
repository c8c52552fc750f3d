// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/device/memory.h"
#include "zeroth/kernels/rope/rope.h"

namespace zeroth {

// The tables of angles that a device's kernels keep between calls, one for each spec, because
// layers of one model may alternate between specs (Gemma 3). Recordings hold the memory of tables
// that they use (Recording in core/device/device.h). Not thread-safe.
class RopeTables {
 public:
  // Returns a table for the call: for each of at least call.positions() positions, rotary_dim / 2
  // cosines, then as many sines, as fp32. If none is kept, `make` (bytes → StatusOr of the filled
  // memory) makes one, and the table that was not used for longest is freed if there are too many.
  // After an error there is no table for the call.
  template <typename Make>
  absl::StatusOr<const float*> Get(const RopeCall& call, const Make& make) {
    auto table = std::find_if(tables_.begin(), tables_.end(), [&call](const Table& kept) {
      return kept.rotary_dim == call.rotary_dim && kept.spec == call.spec;
    });
    if (table == tables_.end() || table->positions < call.positions()) {
      // Frees a table before its successor is made, so that both never exist at once.
      if (table == tables_.end() && tables_.size() == kMost) --table;
      if (table != tables_.end()) tables_.erase(table);
      Table made{call.positions(), call.rotary_dim, call.spec, nullptr};
      ZEROTH_ASSIGN_OR_RETURN(
          made.memory,
          make(static_cast<size_t>(call.positions() * call.rotary_dim) * sizeof(float)));
      table = tables_.insert(tables_.end(), std::move(made));
    }
    std::rotate(tables_.begin(), table, table + 1);
    return static_cast<const float*>(tables_.front().memory->data());
  }

 private:
  // Two models of two specs each: one in training, and its teacher.
  static constexpr size_t kMost = 4;

  struct Table {
    int64_t positions;
    int64_t rotary_dim;
    RopeSpec spec;
    std::shared_ptr<Buffer> memory;
  };
  std::vector<Table> tables_;  // the most recently used first
};

}  // namespace zeroth
