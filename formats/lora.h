// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What the options of LoRA mean, in a model that is trained and in an adapter's files alike.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace zeroth {

// What the product of an adapter's matrices is multiplied by: alpha / rank, or alpha / sqrt(rank)
// for rank-stabilized LoRA.
inline double LoraScale(double alpha, int64_t rank, bool rslora) {
  const auto divisor = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(divisor) : divisor);
}

// The name of the module that has the parameter; modules to save match by the ends of these.
inline absl::string_view ModuleNameOf(absl::string_view parameter) {
  return parameter.substr(0, std::min(parameter.rfind('.'), parameter.size()));
}

}  // namespace zeroth
