// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/version.h"

#include "absl/strings/str_cat.h"

// Of version_stamp.cc.
extern const char zeroth_commit[];

namespace zeroth {

std::string VersionText() { return absl::StrCat("Zeroth 0.1.0, commit ", zeroth_commit, "\n"); }

}  // namespace zeroth
