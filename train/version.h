// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_TRAIN_VERSION_H_
#define ZEROTH_TRAIN_VERSION_H_

#include <string>

namespace zeroth {

// "Zeroth 0.1.0, commit 1f3a…": the commit that this program was last linked at, with "-modified"
// where files differed from it, or "unknown" outside a Git repository.
std::string VersionText();

}  // namespace zeroth

#endif  // ZEROTH_TRAIN_VERSION_H_
