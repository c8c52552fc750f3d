// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The sizes of a decoder that LanguageModel::FlopsPerToken needs.

#include <cstdint>

#include "zeroth/nn/decoder/decoder.h"

namespace zeroth {

int64_t Decoder::WindowedAttentionWidth() const {
  if (!config_.mixes_windows) return AttentionWidth();
  const auto full = static_cast<int64_t>(config_.full_layers.size());
  return (config_.layers - full) * config_.heads * config_.head_dim;
}

int64_t Decoder::MatmulWeights() const {
  const int64_t q = config_.heads * config_.head_dim;
  const int64_t kv = config_.kv_heads * config_.head_dim;
  const int64_t values = config_.linear_value_heads * config_.linear_value_dim;
  const int64_t linear =
      config_.LinearShape().packed_dim() + 2 * values + 2 * config_.linear_value_heads;
  int64_t width = config_.scores ? 1 : config_.vocab_size;
  for (int64_t layer = 0; layer < config_.layers; ++layer) {
    const int64_t full = (config_.gated_attention ? 3 : 2) * q + 2 * kv;
    width += config_.IsLinear(layer) ? linear : full;
    const int64_t dense = (config_.gated ? 3 : 2) * config_.mlp_hidden;
    const int64_t gate = config_.names.shared_expert_gate.empty() ? 0 : 1;
    const int64_t sparse = 3 * config_.experts_per_token * config_.expert_hidden + config_.experts +
                           3 * config_.SharedHidden() + gate;
    width += config_.HasExperts(layer) ? sparse : dense;
  }
  return config_.dim * width;
}

// The state is multiplied with the key and the query, and the product of key and value is added.
int64_t Decoder::StateWeights() const {
  if (!config_.mixes_linear) return 0;
  const DeltaNetShape shape = config_.LinearShape();
  const int64_t layers = config_.layers - static_cast<int64_t>(config_.full_layers.size());
  return layers * (3 * shape.value_heads * shape.key_dim * shape.value_dim +
                   config_.linear_taps * shape.packed_dim());
}

}  // namespace zeroth
