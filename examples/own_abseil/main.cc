// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// A project that brings its own Abseil, which Zeroth then uses. It prints how a layer of three
// parameters is sharded over four ranks.

#include <cstdint>
#include <cstdio>

#include "zeroth/strategies/shard_layout.h"

#ifndef OWN_ABSEIL
#error "Zeroth was compiled with an Abseil other than the one that this project brings"
#endif

int main() {
  const zeroth::ShardLayout layout({{.numel = 512 * 128}, {.numel = 512}, {.numel = 7}},
                                   {.shard_count = 4});
  for (const zeroth::ShardLayout::Segment& segment : layout.segments()) {
    std::printf("%zu parameters in a segment of %lld elements, %lld on each of 4 ranks\n",
                segment.parameters.size(), static_cast<long long>(segment.numel),
                static_cast<long long>(segment.shard_numel));
  }
}
