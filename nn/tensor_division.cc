// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/tensor_division.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {
namespace {

// The halves of a linear layer's adapter: one reads the layer's inputs, and the other makes its
// outputs.
constexpr absl::string_view kLoraA = ".lora_A";
constexpr absl::string_view kLoraB = ".lora_B";
constexpr absl::string_view kScales = "_scales";                    // a packed weight's scales
constexpr absl::string_view kMagnitude = ".lora_magnitude_vector";  // DoRA's, one for each output
constexpr absl::string_view kRouterBias = ".e_score_correction_bias";
// Parameters of a mixer of tokens itself, with a number for each of its heads.
constexpr absl::string_view kOfHeads[] = {".sinks", ".A_log", ".dt_bias"};

const DivisionRule* FindRule(absl::Span<const DivisionRule> rules, const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  const absl::string_view kind =
      absl::string_view(parameter).substr(std::min(dot, parameter.size()));
  const bool is_packed = absl::StartsWith(kind, ".weight_");
  if (!is_packed && kind != ".weight" && kind != ".bias" && kind != kLoraA && kind != kLoraB &&
      kind != kMagnitude && kind != kRouterBias && std::ranges::count(kOfHeads, kind) == 0) {
    return nullptr;
  }
  const absl::string_view module = absl::string_view(parameter).substr(0, dot);
  const auto rule = std::find_if(rules.begin(), rules.end(), [&](const DivisionRule& candidate) {
    return module == candidate.module || absl::EndsWith(module, "." + candidate.module);
  });
  return rule == rules.end() ? nullptr : &*rule;
}

absl::Status ExpectMultiple(const Parameter& parameter, absl::string_view what, int64_t number,
                            int count, absl::string_view among) {
  if (number % count == 0) return absl::OkStatus();
  return InvalidArgument("parameter '", parameter.name(), "': ", number, " ", what,
                         " cannot be divided among ", count, " ", among, "; expected a divisor of ",
                         number);
}

absl::Status ExpectDivisible(const Parameter& parameter, const DivisionRule& rule,
                             absl::string_view what, int64_t width,
                             const TensorParallelOptions& options) {
  if (rule.heads > 0) {
    ZEROTH_RETURN_IF_ERROR(
        ExpectMultiple(parameter, "heads", rule.heads, options.size, "tensor ranks"));
  }
  ZEROTH_RETURN_IF_ERROR(ExpectMultiple(parameter, what, width, options.size, "tensor ranks"));
  return ExpectMultiple(parameter, what, width, std::max(options.deterministic, 1),
                        "deterministic pieces");
}

// Packed weights are divided by inputs only between blocks of codes. A block is one element for
// parameters that are not codes, and in formats with a code for each element.
PackedShape BlockOf(const Parameter& parameter) {
  return {FormatOfCodes(parameter.name()).value_or(PackedFormat::kNone)};
}

std::string InputsOf(const Parameter& parameter) {
  const int64_t block = BlockOf(parameter).block();
  return block == 1 ? "inputs" : absl::StrCat("blocks of ", block, " inputs");
}

int64_t WidthOf(const Parameter& parameter, int dim) {
  const int64_t width = parameter.global_shape().dim(dim);
  return dim == 1 ? width / BlockOf(parameter).block_bytes() : width;
}

absl::Status DivideOne(Parameter& parameter, const DivisionRule& rule,
                       const TensorParallelOptions& options, int index) {
  if (absl::EndsWith(parameter.name(), kScales)) return absl::OkStatus();  // each rank has all
  const bool is_weight = parameter.global_shape().rank() == 2;
  const bool outputs_are_columns = parameter.matrix().outputs_are_columns;
  ParameterPart part{.axis = kTensorAxis, .index = index, .count = options.size};
  switch (rule.division) {
    case Division::kReplicated:
      return absl::OkStatus();
    case Division::kNormOfHeads:
      if (options.deterministic == 0 || !absl::EndsWith(parameter.name(), ".bias")) {
        return absl::OkStatus();
      }
      return Unimplemented("parameter '", parameter.name(),
                           "': the gradient of a bias of norms of heads is not summed in "
                           "deterministic pieces; expected norms by root mean square");
    case Division::kVocabulary:
      break;
    case Division::kDepth:
      if (!is_weight || absl::EndsWith(parameter.name(), kLoraB)) return absl::OkStatus();
      part.dim = outputs_are_columns ? 0 : 1;
      ZEROTH_RETURN_IF_ERROR(ExpectDivisible(parameter, rule, InputsOf(parameter),
                                             WidthOf(parameter, part.dim), options));
      break;
    case Division::kOutputs:
      if (absl::EndsWith(parameter.name(), kLoraA)) return absl::OkStatus();
      part.dim = is_weight && outputs_are_columns ? 1 : 0;
      part.sections = rule.sections;
      std::vector<int64_t> widths = rule.sections;
      if (widths.empty()) widths = {parameter.global_shape().dim(part.dim)};
      for (const int64_t width : widths) {
        ZEROTH_RETURN_IF_ERROR(ExpectDivisible(parameter, rule, "outputs", width, options));
      }
      break;
  }
  return parameter.Divide(std::move(part));
}

}  // namespace

absl::Status ValidateTensorParallel(const TensorParallelOptions& options) {
  if (options.size < 1) {
    return InvalidArgument(options.size, " tensor ranks, expected at least 1");
  }
  const int pieces = options.deterministic;
  if (pieces == 0) return absl::OkStatus();
  if (pieces < 0 || (pieces & (pieces - 1)) != 0 || pieces % options.size != 0) {
    return InvalidArgument(pieces, " deterministic pieces over ", options.size,
                           " tensor ranks; expected a power of two that the ranks divide");
  }
  if (!options.sequence) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "deterministic pieces with sequence parallelism: gradients of norms would be summed in "
      "another order for each number of tensor ranks; leave one of them out");
}

absl::Status DivideParameters(const Module& model, absl::Span<const DivisionRule> rules,
                              const TensorParallelOptions& options, int index) {
  ZEROTH_RETURN_IF_ERROR(ValidateTensorParallel(options));
  for (Parameter* parameter : model.Parameters()) {
    const DivisionRule* const rule = FindRule(rules, parameter->name());
    if (rule == nullptr) {
      return Unimplemented("no rule says how parameter '", parameter->name(),
                           "' is divided among tensor ranks, or that it is replicated");
    }
    ZEROTH_RETURN_IF_ERROR(DivideOne(*parameter, *rule, options, index));
  }
  return absl::OkStatus();
}

}  // namespace zeroth
