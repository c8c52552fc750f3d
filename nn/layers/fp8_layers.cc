// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/layers/fp8_layers.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/nn/layers/linear.h"

namespace zeroth {
namespace {

template <typename Function>
void ForEachLinear(const Module& module, const Function& function) {
  for (Module* child : module.children()) {
    if (auto* linear = dynamic_cast<Linear*>(child)) function(*linear);
    ForEachLinear(*child, function);
  }
}

}  // namespace

Fp8Layers FindFp8Layers(const Module& module) {
  Fp8Layers layers;
  ForEachLinear(module, [&](const Linear& linear) {
    (linear.uses_fp8() ? layers.in_fp8 : layers.others).push_back(linear.name());
  });
  return layers;
}

absl::Status UseFp8(const Module& module) {
  int used = 0;
  ForEachLinear(module, [&](Linear& linear) { used += linear.UseFp8() ? 1 : 0; });
  if (used > 0) return absl::OkStatus();
  return InvalidArgument(
      "fp8: none of the model's ", FindFp8Layers(module).others.size(),
      " linear layers has sizes in steps of 16, which products of 8-bit floats need");
}

}  // namespace zeroth
