// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/adamw/adamw_plan.h"

#include <algorithm>
#include <cstring>

namespace zeroth::cuda {
namespace {

bool IsOfKind(const AdamWLaunch& launch, const AdamWRangeCall& call) {
  return launch.param_dtype == call.param_dtype && launch.grad_dtype == call.grad_dtype &&
         launch.moment_dtype == call.moment_dtype && launch.table.grad_factor == call.grad_factor;
}

AdamWLaunch EmptyLaunch(const AdamWRangeCall& call) {
  AdamWLaunch launch;
  launch.param_dtype = call.param_dtype;
  launch.grad_dtype = call.grad_dtype;
  launch.moment_dtype = call.moment_dtype;
  launch.table.grad_factor = call.grad_factor;
  return launch;
}

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
  return IsOfKind(launch, call) && launch.table.count < kAdamWRanges &&
         (call.on_device != nullptr || SetOf(launch.table, call) < kAdamWSets);
}

bool IsPacked(const AdamWRangeCall& call) {
  constexpr uintptr_t kPackBytes = 16;
  for (const void* array : {static_cast<const void*>(call.param), call.grad,
                            static_cast<const void*>(call.m), static_cast<const void*>(call.v)}) {
    if (reinterpret_cast<uintptr_t>(array) % kPackBytes != 0) return false;
  }
  return call.first_element % 2 == 0;
}

void Append(const AdamWRangeCall& call, AdamWLaunch& launch) {
  AdamWTable& table = launch.table;
  AdamWRange& range = table.ranges[table.count++];
  range.count = call.count;
  range.param = call.param;
  range.grad = call.grad;
  range.m = call.m;
  range.v = call.v;
  range.m_scale = call.m_scale;
  range.v_scale = call.v_scale;
  range.stream = call.stream;
  range.first_element = call.first_element;
  range.on_device = call.on_device;
  range.packed = IsPacked(call);
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
    if (launch == launches.end()) launch = launches.insert(launch, EmptyLaunch(call));
    Append(call, *launch);
  }
  return launches;
}

}  // namespace zeroth::cuda
