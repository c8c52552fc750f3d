// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/tensor/initializer.h"

#include <algorithm>
#include <cmath>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/philox.h"

namespace zeroth {

void Initializer::Fill(uint64_t seed, absl::string_view name, int64_t begin,
                       absl::Span<float> out) const {
  ZEROTH_CHECK(begin >= 0);
  switch (kind_) {
    case Kind::kConstant:
      std::fill(out.begin(), out.end(), value_);
      return;
    case Kind::kNormal:
      CounterRng(seed, name).FillNormal(static_cast<uint64_t>(begin), value_, out);
      return;
    case Kind::kLogOfUniform: {
      const CounterRng random(seed, name);
      for (float& value : out) {
        value = std::log(value_ + (end_ - value_) * random.Uniform(static_cast<uint64_t>(begin++)));
      }
      return;
    }
  }
}

}  // namespace zeroth
