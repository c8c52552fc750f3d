// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace zeroth {

// Raises the process's soft limit on open files to the hard one if it is below `wanted`. Returns
// the soft limit that then holds; it may still be below `wanted`.
uint64_t RaiseDescriptorLimit(uint64_t wanted);

}  // namespace zeroth
