// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Meaning of the LoRA options, shared by training and by adapter files.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace zeroth {

// Returns the scale of an adapter's output: alpha / rank, or alpha / sqrt(rank) for rank-stabilized
// LoRA.
inline double LoraScale(double alpha, int64_t rank, bool rslora) {
  const auto divisor = static_cast<double>(rank);
  return alpha / (rslora ? std::sqrt(divisor) : divisor);
}

// Returns the name of the parameter's module. An entry of modules_to_save matches its end.
inline absl::string_view ModuleNameOf(absl::string_view parameter) {
  return parameter.substr(0, std::min(parameter.rfind('.'), parameter.size()));
}

}  // namespace zeroth
