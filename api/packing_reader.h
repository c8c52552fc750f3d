// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Loads weights in full precision into a model that keeps them in few bits
// (LoraOptions::base_format), or with the blocks of a GGUF file (base_formats).

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

// Returns a reader for Sharding::Load that packs each packed weight of `model` (PackedWeights) from
// what `weights` gives for it, and passes other parameters on. It finds them by name, so `model`
// may be another object than the model that is sharded; a model without packed weights gets
// `weights` back. Each rank reads and packs the whole weight, of which it stores its part, so that
// the bits are the same under every layout; one packed weight at a time is kept in memory. Codes in
// GGUF's formats are read by `blocks` instead, by each rank its part. Used by one thread. Errors:
// those of `weights`, `blocks` and PackMatrix, with the name of the weight.
ParameterReader PackingReader(std::shared_ptr<const Module> model, ParameterReader weights,
                              BlocksReader blocks = nullptr);

}  // namespace zeroth
