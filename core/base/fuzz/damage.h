// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <random>
#include <string>

namespace zeroth {

// Damages a file in one to three places, as disks, careless writers and attackers do: changed
// bytes, numbers that break careless arithmetic (binary, or decimal instead of digits), missing,
// repeated or truncated parts, and deeply nested brackets.
void Damage(std::mt19937_64& random, std::string* file);

}  // namespace zeroth
