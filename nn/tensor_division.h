// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Which parts of a model's parameters each of several tensor ranks has: a table beside the model,
// which itself names no ranks.

#ifndef ZEROTH_NN_TENSOR_DIVISION_H_
#define ZEROTH_NN_TENSOR_DIVISION_H_

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
  kNormOfHeads,  // every rank has all of it, and computes the gradient of its heads
  // Of a linear layer, its bias too (column-parallel); of a norm over all such outputs together. Of
  // an adapter the half with the outputs.
  kOutputs,
  // Of a linear layer; its bias is replicated (row-parallel). Of an adapter the half with the
  // inputs.
  kDepth,
  kVocabulary,  // rows of a table of tokens
};

struct DivisionRule {
  std::string module;  // the name of a module, or its end after a dot: "attn.c_attn"
  Division division = Division::kReplicated;
  // Of kOutputs: widths that are stored side by side and divided each by itself; empty: one.
  std::vector<int64_t> sections = {};
  int64_t heads = 0;  // that may not be cut; 0: there are none
};

// Leaves to each parameter of `model` what is rank `index`'s of options.size (Parameter::Divide),
// by the first rule for the module that has it. Before the parameters join units. InvalidArgument
// names the parameter and the numbers that cannot be divided; Unimplemented names one that no rule
// is for.
absl::Status DivideParameters(const Module& model, absl::Span<const DivisionRule> rules,
                              const TensorParallelOptions& options, int index);

}  // namespace zeroth

#endif  // ZEROTH_NN_TENSOR_DIVISION_H_
