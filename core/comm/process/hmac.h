// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// HMAC-SHA-256 (RFC 2104, FIPS 180-4), by which ranks show that they know a secret.
//
// These are a hundred lines of our own because a library would cost more than it gives here:
// OpenSSL's is a shared library that small containers lack, or several megabytes in every program,
// and Nettle's licence (LGPL) does not go with linking it statically into an Apache-2.0 program.
// Nothing here is fast, and nothing needs to be: a rank computes three of these in its life.

#ifndef ZEROTH_CORE_COMM_PROCESS_HMAC_H_
#define ZEROTH_CORE_COMM_PROCESS_HMAC_H_

#include <string>

#include "absl/strings/string_view.h"

namespace zeroth {

// 32 bytes.
std::string Sha256(absl::string_view message);
std::string HmacSha256(absl::string_view key, absl::string_view message);

// Takes as long for any two strings of one length, so that its time tells nothing about a secret.
bool SameBytes(absl::string_view a, absl::string_view b);

}  // namespace zeroth

#endif  // ZEROTH_CORE_COMM_PROCESS_HMAC_H_
