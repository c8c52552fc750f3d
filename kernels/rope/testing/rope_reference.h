// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Rotary position embedding by its definition, in float64. For tests only.

#pragma once

#include <vector>

#include "zeroth/kernels/attention/attention.h"

namespace zeroth::reference {

// Returns a rotated copy of `qkv`, packed as RopeArgs::qkv, with the default frequencies
// (RopeSpec).
std::vector<double> Rope(const AttentionShape& shape, double theta, bool inverse,
                         std::vector<double> qkv);

}  // namespace zeroth::reference
