// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_INTERRUPT_H_
#define ZEROTH_TRAIN_INTERRUPT_H_

#include <string>

namespace zeroth {

// From now on, the first SIGINT or SIGTERM only sets a flag, so that the run can end after the
// current step and save; a second one of its kind ends the program at once, as usual. Each says on
// stderr, from within the signal, what AnnounceOnInterrupt has prepared.
void CatchInterrupts();

// What the first and the second signal say from now on; empty: nothing, for all but one process of
// a run. Thread-safe.
void AnnounceOnInterrupt(const std::string& first, const std::string& second);

// Whether one has come. Thread-safe.
bool Interrupted();

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_INTERRUPT_H_
