// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The element types that a sharded training state is stored, computed and reduced in.

#ifndef ZEROTH_STRATEGIES_MIXED_PRECISION_H_
#define ZEROTH_STRATEGIES_MIXED_PRECISION_H_

#include <optional>

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
  // once, whatever type is sent.
  DType reduce_dtype = DType::kFloat32;
  // What the shards of parameters are, which the optimizer updates: fp32, or bf16 where param_dtype
  // is bf16: training without master weights, whose updates the optimizer rounds stochastically.
  DType master_dtype = DType::kFloat32;
  // Activations that come into a module of another type are cast to param_dtype, and their
  // gradients back. False: such a module is an error.
  bool cast_forward_inputs = true;
  // What the unit's module hands on; none: param_dtype, as it is.
  std::optional<DType> output_dtype = std::nullopt;
  // False: what the optimizer reads is fp32 whatever was reduced, as the sums over ranks are made;
  // true: it is rounded to reduce_dtype, and takes its bytes. Where gradients are not sharded
  // there is no sum apart from them, so false is refused there unless reduce_dtype is fp32.
  bool keep_low_precision_grads = true;
  // What gradients of several micro-batches are added up in where they are not sharded
  // (no_shard, shard_optimizer, one rank, SetRequiresGradientSync(false)): fp32, in which the
  // optimizer then reads them, or reduce_dtype, which takes half of the memory where that is a
  // 16-bit type, and loses contributions that are small against the sum (in bf16, below a 256th of
  // it). Shards always add up in fp32. (DeepSpeed's data_types.grad_accum_dtype, Megatron's
  // grad_reduce_in_fp32.)
  DType grad_accum_dtype = DType::kFloat32;

  // True where full parameters are the shards' own type, so that one shard needs no second copy.
  bool computes_in_masters() const { return param_dtype == master_dtype; }
  // Of shards of gradients.
  DType gradient_dtype() const { return keep_low_precision_grads ? reduce_dtype : DType::kFloat32; }
};

// InvalidArgument names the field, what it is and what it may be.
absl::Status ValidateMixedPrecision(const MixedPrecision& precision);

}  // namespace zeroth

#endif  // ZEROTH_STRATEGIES_MIXED_PRECISION_H_
