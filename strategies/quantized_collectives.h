// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Traffic in int8 ("ZeRO++: Extremely Efficient Collective Communication for Giant Model Training",
// Wang et al., 2023): weights quantised in blocks for all-gathers (qwZ), gradients for an
// all-to-all that takes the place of reduce-scatters (qgZ).

#ifndef ZEROTH_STRATEGIES_QUANTIZED_COLLECTIVES_H_
#define ZEROTH_STRATEGIES_QUANTIZED_COLLECTIVES_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "zeroth/strategies/unit_collectives.h"

namespace zeroth {

struct QuantizationOptions {
  bool weights = true;  // gathers
  // Reduce-scatters: inside a shard group and, where owners span groups, across them. All-reduces,
  // of shards across groups and of replicated parameters, stay as they are.
  bool gradients = true;
  // Elements that share an fp32 scale: smaller blocks follow values more closely and cost
  // 4 / block bytes an element more in traffic.
  int64_t block = 256;
};

// A gather sends one byte for each element and a scale for each block, against 4 bytes in fp32 and
// 2 in 16-bit types. It takes as much memory as it sends (kCommunication), and a reduction twice
// that. Values differ from what they stand for by at most 1/254 of the largest of their block;
// gradients are rounded once, before they are summed in fp32, and both once more where owners span
// groups (StrategyOptions::shard_optimizer_over_world). Masters are untouched: every rank
// computes with the same rounded weights, which are rounded anew from the masters at each gather.
// InvalidArgument if block is below 1.
absl::StatusOr<std::shared_ptr<UnitCollectives>> QuantizedCollectives(
    const QuantizationOptions& options = {});

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_QUANTIZED_COLLECTIVES_H_
