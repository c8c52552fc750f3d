// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which element types the parts of a sharded training state travel and compute in.

#ifndef ZEROTH_STRATEGIES_MIXED_PRECISION_H_
#define ZEROTH_STRATEGIES_MIXED_PRECISION_H_

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"

namespace zeroth {

// As the policy of the same name of PyTorch's FSDP2. What the optimizer works on is fp32 whatever
// is computed in, unless masters are asked for in less ("Mixed precision training", Micikevicius et
// al., 2018).
struct MixedPrecision {
  // What full parameters are: gathered as, computed in, and therefore what activations are. fp32,
  // bf16 or fp16. The master is rounded straight into its place in the gather buffer.
  DType param_dtype = DType::kFloat32;
  // What full gradients are written, reduced and handed to the optimizer as: fp32, bf16 or fp16,
  // but not the other 16-bit type than param_dtype. Sums over ranks are made in fp32 and rounded
  // once, whatever travels.
  DType reduce_dtype = DType::kFloat32;
  // What the shards of parameters are, which the optimizer updates: fp32, or bf16 where param_dtype
  // is bf16: training without master weights, whose updates the optimizer rounds stochastically.
  DType master_dtype = DType::kFloat32;

  // True where full parameters are the shards' own type, so that one shard needs no second copy.
  bool computes_in_masters() const { return param_dtype == master_dtype; }
};

// InvalidArgument names the field, what it is and what it may be.
absl::Status ValidateMixedPrecision(const MixedPrecision& precision);

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_MIXED_PRECISION_H_
