// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Parameters that are updated in another way than the rest: other learning rates, decays, betas.

#ifndef ZEROTH_OPTIM_PARAMETER_GROUP_H_
#define ZEROTH_OPTIM_PARAMETER_GROUP_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

struct ParameterGroup {
  // Of the whole names of its parameters; see MatchesPattern. A parameter belongs to the first
  // group that it matches, or to none.
  std::string pattern;
  double lr_scale = 1;  // times the learning rate of the step
  // What is not given is as for parameters without a group. Weight decay is that of the group's
  // parameters whose decay() is true.
  std::optional<double> weight_decay;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> eps;
};

// '*' is any run of characters, dots included, and none; every other character is itself:
// "*.lora_B", "transformer.h.0.*", "*wte.weight".
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

// For each name the index of its group, -1 for none. InvalidArgument for a group that no name falls
// to: it says whether an earlier group took them all, and lists names.
absl::StatusOr<std::vector<int>> AssignGroups(absl::Span<const ParameterGroup> groups,
                                              absl::Span<const std::string> names);

}  // namespace zeroth

#endif  // ZEROTH_OPTIM_PARAMETER_GROUP_H_
