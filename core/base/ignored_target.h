// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace zeroth {

// Targets of this value are masked: left out of the mean loss, and without a gradient.
inline constexpr int32_t kIgnoredTarget = -100;

}  // namespace zeroth
