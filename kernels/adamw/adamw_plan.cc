// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/adamw/adamw_plan.h"

#include <algorithm>
#include <cstring>

namespace zeroth::cuda {
namespace {

// Returns the index of the call's coefficients in the table, or the next free index, or kAdamWSets
// if there is no room. Compares bits, because NaN is a legal scale.
int SetOf(const AdamWTable& table, const AdamWRangeCall& call) {
  int set = 0;
  while (set < table.sets && std::memcmp(&table.coefficients[set], &call.coefficients,
                                         sizeof(AdamWCoefficients)) != 0) {
    ++set;
  }
  return set;
}

bool Fits(const AdamWLaunch& launch, const AdamWRangeCall& call) {
  return launch.types == call.types && launch.table.grad_factor == call.grad_factor &&
         launch.table.count < kAdamWRanges &&
         (call.on_device != nullptr || SetOf(launch.table, call) < kAdamWSets);
}

void Append(const AdamWRangeCall& call, AdamWLaunch& launch) {
  AdamWTable& table = launch.table;
  const bool packed =
      ArePacked(call.param, call.grad, call.m, call.v) && call.first_element % 2 == 0;
  AdamWRange& range = table.ranges[table.count++] = {call, 0, packed};
  if (call.on_device == nullptr) {
    range.set = SetOf(table, call);
    table.coefficients[range.set] = call.coefficients;
    if (range.set == table.sets) ++table.sets;
  }
  launch.tiles += (call.count + kAdamWTile - 1) / kAdamWTile;
}

}  // namespace

std::vector<AdamWLaunch> PlanAdamW(absl::Span<const AdamWRangeCall> calls) {
  std::vector<AdamWLaunch> launches;
  for (const AdamWRangeCall& call : calls) {
    if (call.count == 0) continue;
    auto launch = std::find_if(launches.begin(), launches.end(),
                               [&](const AdamWLaunch& each) { return Fits(each, call); });
    if (launch == launches.end()) {
      launch = launches.insert(launch,
                               {.types = call.types, .table = {.grad_factor = call.grad_factor}});
    }
    Append(call, *launch);
  }
  return launches;
}

}  // namespace zeroth::cuda
