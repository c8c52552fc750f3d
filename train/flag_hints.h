// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_FLAG_HINTS_H_
#define ZEROTH_TRAIN_FLAG_HINTS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace zeroth {

// What whoever wrote `unknown`, a flag's name without dashes, may have meant, as "; did you mean
// --beta1 or --beta2?": what other frameworks and earlier versions call by that name, or else the
// options that are spelled alike. May be empty.
std::string DidYouMean(absl::string_view unknown);

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_FLAG_HINTS_H_
