// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which linear layers of a model multiply in 8-bit floats, see Fp8LinearOp.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/nn/module.h"

namespace zeroth {

// Names of linear layers, in order of declaration.
struct Fp8Layers {
  std::vector<std::string> in_fp8;
  std::vector<std::string> others;
};

// Those of `module` and below. Embeddings and the head are no linear layers here, and never in fp8,
// as in torchao and TransformerEngine.
Fp8Layers FindFp8Layers(const Module& module);

// Has every linear layer of `module` and below whose sizes allow it multiply in fp8; the others
// stay as they are, and FindFp8Layers names them. InvalidArgument if there is none.
absl::Status UseFp8(const Module& module);

}  // namespace zeroth
