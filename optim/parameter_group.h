// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Groups of parameters that have their own learning rate, weight decay or betas.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace zeroth {

struct ParameterGroup {
  // Matches the full names of the group's parameters; see MatchesPattern. A parameter belongs to
  // the first group that it matches, or to none.
  std::string pattern;
  double lr_scale = 1;  // multiplies the learning rate of the step
  // std::nullopt: the optimizer's value, as for parameters without a group. Weight decay applies to
  // those of the group's parameters whose decay() is true.
  std::optional<double> weight_decay;
  std::optional<double> beta1;
  std::optional<double> beta2;
  std::optional<double> eps;
};

// Returns true if `name` matches `pattern`, in which '*' stands for any run of characters, even
// none, dots included: "*.lora_B", "transformer.h.0.*", "*wte.weight".
bool MatchesPattern(absl::string_view pattern, absl::string_view name);

// Returns the index of each name's group, or -1 for a name without a group. InvalidArgument for a
// group without names: says that earlier groups match all of its names, or lists `names`.
absl::StatusOr<std::vector<int>> AssignGroups(absl::Span<const ParameterGroup> groups,
                                              absl::Span<const std::string> names);

}  // namespace zeroth
