// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>

namespace zeroth {

// Raises the process's soft limit on open files to `wanted`, or to the hard limit if that is lower.
// Never lowers it. Returns the soft limit that then holds.
uint64_t RaiseDescriptorLimit(uint64_t wanted);

// Returns the number of files and sockets that the process has open; 0 if /proc does not say it.
uint64_t OpenDescriptors();

}  // namespace zeroth
