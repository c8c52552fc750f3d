// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Rotary position embedding by its definition, in float64. For tests only.

#pragma once

#include <vector>

#include "zeroth/kernels/attention/attention.h"

namespace zeroth::reference {

// Packed as RopeArgs::qkv; the rotated copy. Rotations are the default ones (RopeSpec).
std::vector<double> Rope(const AttentionShape& shape, double theta, bool inverse,
                         std::vector<double> qkv);

}  // namespace zeroth::reference
