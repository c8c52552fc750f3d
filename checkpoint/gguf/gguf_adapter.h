// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// LoRA adapters as GGUF files, which llama.cpp adds to a GGUF file of the base model. Each adapted
// tensor NAME of the base has the LoRA matrices NAME.lora_a [rank, in] and NAME.lora_b [out, rank];
// rows of lora_b are in the order of the rows of NAME. Experts are stacked as in NAME. The scale is
// adapter.lora.alpha / rank, so a rank-stabilized adapter has alpha * sqrt(rank) there.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/checkpoint/tensor_copy.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/dtype.h"

namespace zeroth {

// True if general.type says that the file is an adapter.
bool IsGgufAdapter(const GgufFile& file);

// Writes an adapter of a model with the configuration `base` to a GGUF file at `path`, which
// appears whole or not at all. `matrices` maps tensors of `weights` to those of PEFT's
// adapter_model.safetensors: for each of adapter.layers A, then B. Empty `dtype`: each tensor keeps
// its type. `name`: general.name. Unimplemented for families without a mapping, and for an adapter
// with modules to save or of multi-token prediction layers; InvalidArgument for a layer that the
// family does not have, for some but not all of a block's experts, and for an alpha of 0, which
// llama.cpp treats as absent.
absl::Status ConvertAdapterToGguf(const HfConfig& base, const PeftAdapter& adapter,
                                  const WeightsSource& weights,
                                  const std::vector<TensorCopy>& matrices, const std::string& path,
                                  std::optional<DType> dtype, const std::string& name);

// The inverse: writes PEFT's directory of an adapter of the model `base`, which is named
// `base_path`. Without an alpha in the file, the scale is 1, as in llama.cpp. InvalidArgument for a
// file that is not an adapter, was made for another family, or has tensors that are not A or B or
// differ in rank; Unimplemented for other kinds of adapter than LoRA.
absl::Status ConvertGgufToAdapter(const GgufFile& file, const HfConfig& base,
                                  const std::string& base_path, const std::string& directory,
                                  HfConvertOptions options);

}  // namespace zeroth
