// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <nccl.h>

#include <cstddef>

namespace zeroth::nccl::emulation {

// Returns the bytes of an element.
size_t Size(ncclDataType_t type);

// sum[i] += more[i], rounded after each addition, as rings do. Returns false for other types.
bool Add(ncclDataType_t type, char* sum, const char* more, size_t count);

}  // namespace zeroth::nccl::emulation
