// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs the Jinja of chat templates, as transformers does: its settings, and Python's methods.

#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "zeroth/data/chat/jinja/syntax.h"
#include "zeroth/data/chat/jinja/value.h"

namespace zeroth {

// Returns what a template writes with these variables. FailedPrecondition with its message if it
// calls raise_exception. InvalidArgument, with the line, for what Jinja or this interpreter
// refuses. ResourceExhausted for a template that takes too long or writes too much.
//
// strftime_now is not defined, so that a rendering does not depend on the day.
absl::StatusOr<std::string> RenderJinja(const JinjaNode& jinja, const JinjaValue::Map& variables);

}  // namespace zeroth
