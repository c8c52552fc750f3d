// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Ranks as threads of one process over shared memory: the host's, or one GPU's that they share.
// Registered as "local".
//
// An all-gather copies each peer's shard straight into the caller's buffer; a reduction reads the
// peers' buffers in place and adds them in the fixed tree, each rank its own piece: no staging
// buffers exist.

#ifndef ZEROTH_CORE_COMM_LOCAL_LOCAL_H_
#define ZEROTH_CORE_COMM_LOCAL_LOCAL_H_

#include "absl/status/status.h"

#include "zeroth/core/comm/launcher.h"

namespace zeroth {

// Runs `rank_main` on options.world_size threads (see Launcher). InvalidArgument if world_size < 1.
absl::Status RunLocalRanks(const LaunchOptions& options, const RankMain& rank_main);
// The same with the default timeout.
absl::Status RunLocalRanks(int world_size, const RankMain& rank_main);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_LOCAL_LOCAL_H_
