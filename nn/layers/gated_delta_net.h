// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "zeroth/kernels/delta_net/delta_net.h"
#include "zeroth/nn/layers/attention.h"
#include "zeroth/nn/layers/linear.h"
#include "zeroth/nn/layers/norm.h"

namespace zeroth {

struct GatedDeltaNetOptions {
  DeltaNetShape shape;  // of heads; batch and seq are not set
  int64_t taps = 4;     // of the convolution
  double norm_eps = 1e-6;
  float init_std = 0.02f;  // of the convolution's weight
};

// Linear attention by the gated delta rule (kernels/delta_net): x [batch, seq, dim] → [batch, seq,
// dim]. `qkv`, `z` and `gates` read x; `gates` makes b of all value heads, then a of all.
// `out` projects RMS-normalised heads times silu(z). Parameters conv1d.weight, dt_bias, A_log and
// norm.weight, as Hugging Face's Qwen3_5GatedDeltaNet.
class GatedDeltaNet : public TokenMixer {
 public:
  GatedDeltaNet(std::string name, const GatedDeltaNetOptions& options, std::unique_ptr<Linear> qkv,
                std::unique_ptr<Linear> z, std::unique_ptr<Linear> gates,
                std::unique_ptr<Linear> out);

  absl::StatusOr<Value> Forward(Context& context, const Value& x) override;

 private:
  absl::StatusOr<Value> Compute(Context& context, const Value& x);
  // The shape of this rank's heads, which are a part of all heads if the projections are divided.
  DeltaNetShape shape() const;
  DeltaNetShape shape_;
  Linear* qkv_;
  Linear* z_;
  Linear* gates_;
  Parameter* convolution_;
  Parameter* dt_bias_;
  Parameter* log_decay_;
  Norm* norm_;
  Linear* out_;
};

}  // namespace zeroth
