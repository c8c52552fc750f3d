// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Activation checkpointing: the parts of a model that backward recomputes instead of keeping.

#pragma once

#include <cstdint>

#include "zeroth/nn/module.h"

namespace zeroth {

// The modules that are recomputed.
enum class ActivationCheckpointing : uint8_t {
  kNone,
  kBlock,        // every block; memory holds the blocks' inputs, and the activations of one block
  kSelective,    // every block, except for attention and every second matmul
  kAttention,    // the attention of every block
  kMlp,          // the MLP of every block
  kElementwise,  // every block, except for attention and matmuls
};

// Makes exactly these modules of `model` recompute. Changes memory and time, but not a bit of any
// result.
void SetActivationCheckpointing(Module& model, ActivationCheckpointing what);

}  // namespace zeroth
