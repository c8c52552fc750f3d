// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// HMAC-SHA-256 (RFC 2104, FIPS 180-4), by which ranks prove that they know a secret.
//
// We have our own hundred lines because a library would cost more than it gives here. OpenSSL is a
// shared library that small containers lack, or adds several megabytes to every program. Nettle's
// licence (LGPL) does not allow linking it statically into an Apache-2.0 program. The code need not
// be fast: a rank computes three HMACs in its life.

#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace zeroth {

// 32 bytes.
std::string Sha256(absl::string_view message);
std::string HmacSha256(absl::string_view key, absl::string_view message);

// Compares in a time that depends on the length alone, so that it reveals nothing about a secret.
bool SameBytes(absl::string_view a, absl::string_view b);

}  // namespace zeroth
