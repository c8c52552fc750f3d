// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

namespace zeroth {

// Base class of modules with few parameters (RouterBias). Every rank keeps these in full and in
// fp32, even if other parameters are gathered in a lower precision. Only
// shard_optimizer_over_world divides their masters among the ranks. Such a module is a unit under
// every WrapPolicy.
class ReplicatedModule {
 public:
  virtual ~ReplicatedModule() = default;
};

}  // namespace zeroth
