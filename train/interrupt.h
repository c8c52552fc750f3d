// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

namespace zeroth {

// From now on, the first SIGINT or SIGTERM only sets a flag, so that the run can end after the
// current step and save. A second signal of the same kind ends the program at once. The handler
// prints the text of AnnounceOnInterrupt to stderr.
void CatchInterrupts();

// Sets the texts that the first and the second signal print from now on. Empty texts print nothing,
// for all but one process of a run. Thread-safe.
void AnnounceOnInterrupt(const std::string& first, const std::string& second);

// True after the first signal. Thread-safe.
bool Interrupted();

}  // namespace zeroth
