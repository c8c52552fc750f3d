// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

namespace zeroth {

// A base of modules with few parameters, which every rank keeps in full, in fp32 whatever the
// precision of others; only shard_optimizer_over_world divides their masters among the ranks. Such
// a module is a unit under every WrapPolicy.
class ReplicatedModule {
 public:
  virtual ~ReplicatedModule() = default;
};

}  // namespace zeroth
