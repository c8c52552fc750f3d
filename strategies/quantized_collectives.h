// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Collectives in int8 ("ZeRO++: Extremely Efficient Collective Communication for Giant Model
// Training", Wang et al., 2023). All-gathers send weights that are quantised in blocks (qwZ), and
// an all-to-all of quantised gradients replaces reduce-scatters (qgZ).

#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "zeroth/strategies/unit_collectives.h"

namespace zeroth {

struct QuantizationOptions {
  bool weights = true;  // quantise all-gathers
  // Quantise reduce-scatters: inside a shard group and, if owners span groups, across them.
  // All-reduces, of shards across groups and of replicated parameters, stay as they are.
  bool gradients = true;
  // Elements that share an fp32 scale. A smaller block is more accurate, and the scales cost 4 /
  // block bytes of traffic per element.
  int64_t block = 256;
};

// Sends one byte for each element and a scale for each block. A gather needs as much kCommunication
// memory as it sends, and a reduction twice that. Rounding changes a value by at most 1/254 of the
// largest magnitude in its block. Gradients are rounded once, before they are summed in fp32;
// weights and gradients once more if owners span groups. Masters stay exact: each gather rounds
// them anew, and every rank computes with the same rounded weights.
// InvalidArgument if block is below 1.
absl::StatusOr<std::shared_ptr<UnitCollectives>> QuantizedCollectives(
    const QuantizationOptions& options = {});

}  // namespace zeroth
