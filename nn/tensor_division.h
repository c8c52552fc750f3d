// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Divides a model's parameters among tensor ranks, by a table of rules beside the model, whose code
// does not know about ranks.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "zeroth/nn/module.h"
#include "zeroth/nn/tensor_ranks.h"

namespace zeroth {

enum class Division : uint8_t {
  kReplicated,   // every rank has all of it, and computes the same gradient
  kNormOfHeads,  // every rank has all of it, and computes the gradient from its heads
  // Column-parallel: the outputs of a linear layer, with its bias, or of a norm over all such
  // outputs; the channels of a convolution; one number of each head (sinks, A_log, dt_bias).
  // Divides an adapter's output half.
  kOutputs,
  // Row-parallel: the inputs of a linear layer, whose bias is replicated. Divides an adapter's
  // input half.
  kDepth,
  kVocabulary,  // the rows of an embedding table or of the head
};

struct DivisionRule {
  std::string module;  // the name of a module, or its end after a dot: "attn.c_attn"
  Division division = Division::kReplicated;
  // For kOutputs: the widths of outputs that are stored side by side, and divided separately.
  // Empty: one.
  std::vector<int64_t> sections = {};
  int64_t heads = 0;  // heads that must stay whole; 0: none
};

// Reduces each parameter of `model` to the part of rank `index` of options.size
// (Parameter::Divide), by the first rule for its module. Call it before the parameters join units.
// InvalidArgument names the parameter, and the numbers that cannot be divided; Unimplemented names
// a parameter without a rule.
absl::Status DivideParameters(const Module& model, absl::Span<const DivisionRule> rules,
                              const TensorParallelOptions& options, int index);

}  // namespace zeroth
