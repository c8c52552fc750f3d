// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_INTERRUPT_H_
#define ZEROTH_TRAIN_INTERRUPT_H_

namespace zeroth {

// From now on, the first SIGINT or SIGTERM only sets a flag, so that the run can end after the
// current step and save; a second one ends the program at once, as usual.
void CatchInterrupts();

// Whether one has come. Thread-safe.
bool Interrupted();

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_INTERRUPT_H_
