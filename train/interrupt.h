// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>

namespace zeroth {

// From now on, the first SIGINT, SIGTERM or SIGUSR1 only sets a flag, so that the run can end after
// the current step and save. A second signal of the same kind ends the program at once. The handler
// prints the text of AnnounceOnInterrupt to stderr. SIGUSR1 is what schedulers are asked to send
// ahead of a time limit, and what Open MPI's mpirun forwards at once.
void CatchInterrupts();

// Sets the texts that the first and the second signal print from now on. Empty texts print nothing:
// set them in all but one process of a run. Thread-safe.
void AnnounceOnInterrupt(const std::string& first, const std::string& second);

// True after the first signal. Thread-safe.
bool Interrupted();

}  // namespace zeroth
