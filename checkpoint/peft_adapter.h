// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// LoRA adapters as the library PEFT stores them, without the model that they adapt:
// adapter_config.json and adapter_model.safetensors (HfDirectoryKind::kAdapter).

#ifndef ZEROTH_CHECKPOINT_PEFT_ADAPTER_H_
#define ZEROTH_CHECKPOINT_PEFT_ADAPTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/checkpoint/hf_config.h"

namespace zeroth {

struct PeftAdapter {
  int64_t rank = 0;
  double alpha = 0;
  // Whether the adapted weights are [in, out], as GPT-2's; all of them or none.
  bool fan_in_fan_out = false;
  // Where the model that is adapted is to be found; empty: unknown.
  std::string base_model;
  // The adapted layers by their names in the model: "transformer.h.0.attn.c_attn".
  std::vector<std::string> layers;
};

// adapter_config.json. InvalidArgument for an adapter without layers or rank.
absl::StatusOr<HfConfig> PeftAdapterConfig(const PeftAdapter& adapter);

// The names in adapter_model.safetensors of a layer's two halves. Whatever the layout of the
// weight, A is [rank, in] and B is [out, rank]: what is added is alpha / rank * B A, or its
// transpose.
std::string PeftNameOfA(absl::string_view layer);
std::string PeftNameOfB(absl::string_view layer);

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_PEFT_ADAPTER_H_
