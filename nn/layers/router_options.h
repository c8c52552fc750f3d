// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

namespace zeroth {

// Options of training for the routers of a mixture of experts.
struct RouterOptions {
  bool fp32 = false;  // logits and their gradients are fp32 (Fp32RouterOp)
  // Coefficient of the router z-loss (RouterZLossOp), averaged over the layers with experts; 0: no
  // such loss.
  double z_loss = 0;
};

}  // namespace zeroth
