// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace zeroth {

// A target of this value does not count: it is left out of the mean loss, and has no gradient.
inline constexpr int32_t kIgnoredTarget = -100;

}  // namespace zeroth
