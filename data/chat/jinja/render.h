// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs the Jinja of chat templates, as transformers does: its settings, and Python's methods.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "zeroth/data/chat/jinja/syntax.h"
#include "zeroth/data/chat/jinja/value.h"

namespace zeroth {

// Returns what a template writes with these variables. FailedPrecondition with its message if it
// calls raise_exception. InvalidArgument, with the line, for what Jinja or this interpreter
// refuses. ResourceExhausted for a template that takes too long or writes too much.
//
// strftime_now always formats 26 July 2024, 0:00, the day that Llama 3.1's template writes, so that
// a rendering does not depend on the day.
//
// `generated`, if not null, gets what {% generation %} blocks wrote: bytes of the text, in order.
// Such a block in a macro or {% set %} is refused.
struct JinjaSpan {
  size_t begin = 0;
  size_t end = 0;
};
absl::StatusOr<std::string> RenderJinja(const JinjaNode& jinja, const JinjaValue::Map& variables,
                                        std::vector<JinjaSpan>* generated = nullptr);

}  // namespace zeroth
