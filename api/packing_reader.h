// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Loads full-precision weights into a model that keeps them packed in few bits
// (LoraOptions::base_format), or copies the blocks of the model's files, GGUF or MXFP4, as they are
// (base_formats).

#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/module.h"
#include "zeroth/strategies/sharding.h"

namespace zeroth {

// Sets `out` to bytes [begin, begin + out.size()) of the codes of an undivided weight.
using BlocksReader =
    std::function<absl::Status(const Parameter& weight, int64_t begin, absl::Span<uint8_t> out)>;

// Returns a reader for Sharding::Load that packs what `weights` reads for each packed weight of
// `model` (PackedWeights); other parameters come from `weights` unchanged. It matches parameters by
// name, so `model` may be another object than the model that is sharded; without packed weights it
// returns `weights`. Each rank reads and packs the whole weight and stores its part, so that the
// bits are the same under every layout; one packed weight at a time is in memory. Codes in block
// formats (IsGgufFormat) come from `blocks` instead, of which each rank reads only its part. Used
// by one thread. Errors: those of `weights`, `blocks` and PackMatrix, with the name of the weight.
ParameterReader PackingReader(std::shared_ptr<const Module> model, ParameterReader weights,
                              BlocksReader blocks = nullptr);

}  // namespace zeroth
