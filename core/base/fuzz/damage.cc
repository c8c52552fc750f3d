// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/fuzz/damage.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "absl/strings/ascii.h"

namespace zeroth {
namespace {

constexpr uint64_t kNumbers[] = {0,
                                 1,
                                 2,
                                 9,
                                 31,
                                 0x7fffffff,
                                 0xffffffff,
                                 uint64_t{1} << 32,
                                 uint64_t{1} << 62,
                                 uint64_t{0x7fffffffffffffff},
                                 uint64_t{0xffffffffffffffe0},
                                 uint64_t{0xffffffffffffffff}};

constexpr const char* kTexts[] = {"0",
                                  "1",
                                  "-1",
                                  "4294967296",
                                  "9223372036854775807",
                                  "9223372036854775808",
                                  "18446744073709551616",
                                  "1e400",
                                  "null",
                                  "\"\"",
                                  "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
                                  "{\"a\":{\"a\":{\"a\":{\"a\":",
                                  "[],[],[],[],[],[],[],[]",
                                  "\\ud800"};

// Replaces the next digits at or after `place` by another number, or by text that is not a number.
void ReplaceDigits(std::mt19937_64& random, size_t place, std::string* file) {
  while (place < file->size() && !absl::ascii_isdigit((*file)[place])) ++place;
  size_t end = place;
  while (end < file->size() && absl::ascii_isdigit((*file)[end])) ++end;
  file->replace(place, end - place, kTexts[random() % std::size(kTexts)]);
}

}  // namespace

void Damage(std::mt19937_64& random, std::string* file) {
  for (uint64_t edits = 1 + random() % 3; edits > 0 && !file->empty(); --edits) {
    const size_t place = random() % file->size();
    const size_t length = std::min<size_t>(random() % 64, file->size() - place);
    switch (random() % 7) {
      case 0:
        (*file)[place] = static_cast<char>(random());
        break;
      case 1: {
        const uint64_t number = kNumbers[random() % std::size(kNumbers)];
        const size_t width = random() % 2 == 0 ? 8 : 4;
        std::memcpy(file->data() + place, &number, std::min(width, file->size() - place));
        break;
      }
      case 2:
        file->erase(place, length);
        break;
      case 3:
        file->insert(place, file->substr(random() % file->size(), length));
        break;
      case 4:
        file->resize(place);
        break;
      case 5:
        ReplaceDigits(random, place, file);
        break;
      default:
        (*file)[place] = static_cast<char>((*file)[place] ^ (1 << random() % 8));
    }
  }
}

}  // namespace zeroth
