// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The element types that a sharded training state is stored, computed and reduced in.

#pragma once

#include <optional>

#include "absl/status/status.h"

#include "zeroth/core/base/dtype.h"

namespace zeroth {

// param_dtype, reduce_dtype, output_dtype and cast_forward_inputs are those of FSDP2's policy, but
// sums over ranks are fp32 whatever reduce_dtype is. The optimizer works on fp32 masters, unless
// master_dtype says otherwise ("Mixed precision training", Micikevicius et al., 2018).
struct MixedPrecision {
  // The type of full parameters, in which they are gathered and computed with, and of activations:
  // fp32, bf16 or fp16. Masters are rounded straight into the gather buffer.
  DType param_dtype = DType::kFloat32;
  // The type in which full gradients are written and sent, and which the optimizer reads: fp32,
  // bf16 or fp16. If it and param_dtype are 16-bit types, they are the same. Sums over ranks are
  // made in fp32 and rounded once.
  DType reduce_dtype = DType::kFloat32;
  // The type of the shards that the optimizer updates: fp32, or bf16 if param_dtype is bf16, too;
  // the optimizer then rounds its updates stochastically.
  DType master_dtype = DType::kFloat32;
  // Casts a module's inputs of another type to param_dtype, and their gradients back. False: such
  // inputs are an error.
  bool cast_forward_inputs = true;
  // The type of the outputs of the unit's module. std::nullopt: they stay as they are, in
  // param_dtype.
  std::optional<DType> output_dtype = std::nullopt;
  // False: the optimizer reads the fp32 sums over ranks. True: they are rounded to reduce_dtype.
  // False is refused for gradients that are not sharded, unless reduce_dtype is fp32. (FSDP1's flag
  // of this name is false by default; FSDP2's optimizer reads gradients in the parameters' type.)
  bool keep_low_precision_grads = true;
  // The type in which unsharded gradients of several micro-batches accumulate (no_shard,
  // shard_optimizer, one rank, SetRequiresGradientSync(false)), and which the optimizer then reads:
  // fp32, or reduce_dtype. bf16 loses contributions below a 256th of the sum. Shards always
  // accumulate in fp32. (DeepSpeed's grad_accum_dtype, Megatron's grad_reduce_in_fp32.)
  DType grad_accum_dtype = DType::kFloat32;

  // True if full parameters have the type of the shards, so that a single shard needs no second
  // copy.
  bool computes_in_masters() const { return param_dtype == master_dtype; }
  // The type of gradient shards.
  DType gradient_dtype() const { return keep_low_precision_grads ? reduce_dtype : DType::kFloat32; }
};

// InvalidArgument names the field, its value and the allowed values.
absl::Status ValidateMixedPrecision(const MixedPrecision& precision);

}  // namespace zeroth
