// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/api/packing_reader.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/packed/packed_format.h"
#include "zeroth/nn/layers/linear.h"

namespace zeroth {
namespace {

// Caches the last packed weight, since its codes and scales are read one after the other.
struct LastPacked {
  const PackedWeight* weight = nullptr;
  PackedMatrix bytes;
};

}  // namespace

ParameterReader PackingReader(std::shared_ptr<const Module> model, ParameterReader weights,
                              BlocksReader blocks) {
  std::map<std::string, const PackedWeight*> packed_of;
  for (const PackedWeight* packed : PackedWeights(*model)) {
    packed_of[packed->codes->name()] = packed;
    if (packed->scales != nullptr) packed_of[packed->scales->name()] = packed;
  }
  if (packed_of.empty()) return weights;
  return [model = std::move(model), weights = std::move(weights), blocks = std::move(blocks),
          packed_of = std::move(packed_of), last = std::make_shared<LastPacked>()](
             const Parameter& parameter, int64_t begin, absl::Span<float> out) -> absl::Status {
    const auto found = packed_of.find(parameter.name());
    if (found == packed_of.end()) return weights(parameter, begin, out);
    const PackedWeight& packed = *found->second;
    if (blocks != nullptr && IsGgufFormat(packed.shape.format)) {
      std::vector<uint8_t> bytes(out.size());
      ZEROTH_RETURN_IF_ERROR_WITH(blocks(*packed.weight, begin, absl::MakeSpan(bytes)),
                                  packed.weight->name());
      std::copy(bytes.begin(), bytes.end(), out.begin());
      return absl::OkStatus();
    }
    if (last->weight != &packed) {
      *last = LastPacked();
      absl::StatusOr<PackedMatrix> bytes =
          PackMatrix(packed.shape, [&](int64_t from, absl::Span<float> values) {
            return weights(*packed.weight, from, values);
          });
      ZEROTH_RETURN_IF_ERROR_WITH(bytes.status(), packed.weight->name());
      *last = {&packed, *std::move(bytes)};
    }
    const bool is_codes = parameter.name() == packed.codes->name();
    const std::vector<uint8_t>& bytes = is_codes ? last->bytes.codes : last->bytes.scales;
    std::copy_n(bytes.begin() + begin, out.size(), out.begin());
    return absl::OkStatus();
  };
}

}  // namespace zeroth
