// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The back end "local": ranks are threads of one process and share memory, the host's or one GPU's.
//
// An all-gather copies each peer's shard straight into the caller's buffer. In a reduction each
// rank reads its own piece of all peers' buffers in place, and adds them in the fixed tree. There
// are no staging buffers.

#pragma once

#include "absl/status/status.h"

#include "zeroth/core/comm/launcher.h"

namespace zeroth {

// Runs `rank_main` on options.world_size threads (see Launcher). InvalidArgument if world_size < 1.
absl::Status RunLocalRanks(const LaunchOptions& options, const RankMain& rank_main);
// The same with default options.
absl::Status RunLocalRanks(int world_size, const RankMain& rank_main);

}  // namespace zeroth
