// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_experts.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/mxfp4.h"
#include "zeroth/checkpoint/packed_blocks.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {
namespace {

constexpr absl::string_view kExperts = ".mlp.experts.";
constexpr char kQuantization[] = "quantization_config";
// A stack is read this many elements, or bytes of blocks, at a time. Elements are transposed in
// tiles of this many rows.
constexpr int64_t kStrip = int64_t{1} << 20;
constexpr int64_t kTile = 16;

struct Projection {
  absl::string_view name;
  absl::string_view stack;
  int64_t first;
  int64_t step;
};
constexpr std::array<Projection, 3> kProjections = {{{"gate_proj", "gate_up_proj", 0, 2},
                                                     {"up_proj", "gate_up_proj", 1, 2},
                                                     {"down_proj", "down_proj", 0, 1}}};

// Where the elements of a tensor are stored.
struct Place {
  enum class Kind { kWhole, kTransposed, kBias, kMxfp4 };
  Kind kind = Kind::kTransposed;
  std::string stored;
  std::string scales;
  int64_t expert = 0;
  int64_t first = 0;
  int64_t step = 1;
  int64_t rows = 0;  // of the expert in the stack
  int64_t columns = 0;
};

// An expert's slice of a stack of matrices.
struct Slice {
  std::string stored;
  int64_t expert = 0;
  std::vector<float> values = {};
};

// Thread-safe.
class SeparateExpertWeights final : public WeightsSource, public PackedBlocks {
 public:
  static absl::StatusOr<std::shared_ptr<const SeparateExpertWeights>> Create(
      std::shared_ptr<const HfWeights> all) {
    std::shared_ptr<SeparateExpertWeights> weights(new SeparateExpertWeights(std::move(all)));
    for (const auto& [name, entry] : weights->all_->tensors()) {
      ZEROTH_RETURN_IF_ERROR(weights->AddStored(name, entry));
    }
    return weights;
  }

  absl::Status ReadElements(absl::string_view name, int64_t begin,
                            absl::Span<float> out) const override {
    const auto found = places_.find(name);
    if (found == places_.end()) return MissingTensor(name);
    const Place& place = found->second;
    if (place.kind == Place::Kind::kWhole) return all_->ReadElements(place.stored, begin, out);
    ZEROTH_RETURN_IF_ERROR(
        CheckRange(name, "elements", begin, out.size(), Find(name)->shape.numel()));
    return place.kind == Place::Kind::kBias ? ReadBias(place, begin, out)
                                            : ReadMatrix(place, begin, out);
  }

  absl::Status ReadBlocks(absl::string_view name, int64_t begin,
                          absl::Span<uint8_t> out) const override {
    if (blocks().count(name) == 0) return MissingTensor(name);
    const Place& place = places_.find(name)->second;
    const int64_t row_bytes = place.columns / kMxfp4Block * kGgufMxfp4Bytes;
    ZEROTH_RETURN_IF_ERROR(CheckRange(name, "bytes of blocks", begin, out.size(),
                                      place.rows / place.step * row_bytes));
    const int64_t most = std::max<int64_t>(kStrip / (place.step * row_bytes), 1);
    while (!out.empty()) {
      const int64_t row = begin / row_bytes;
      const int64_t skipped = begin % row_bytes;
      const int64_t wanted = skipped + static_cast<int64_t>(out.size());
      const int64_t rows = std::min(most, (wanted + row_bytes - 1) / row_bytes);
      // Also reads the other projection's rows, which lie between these: a read for each row would
      // be slow.
      ZEROTH_ASSIGN_OR_RETURN(
          const Mxfp4Bytes read,
          ReadMxfp4(place, place.first + place.step * row, place.step * (rows - 1) + 1));
      const std::vector<uint8_t> bytes = GgufBlocksOfMxfp4(
          read.codes, read.scales, {.blocks = row_bytes / kGgufMxfp4Bytes, .step = place.step});
      const int64_t count = std::min(wanted, rows * row_bytes) - skipped;
      std::copy_n(bytes.begin() + skipped, count, out.begin());
      out.remove_prefix(static_cast<size_t>(count));
      begin += count;
    }
    return absl::OkStatus();
  }

 private:
  explicit SeparateExpertWeights(std::shared_ptr<const HfWeights> all)
      : WeightsSource(all->description()), all_(std::move(all)) {}

  // OutOfRange unless [begin, begin + count) is a part of a tensor's `all` units, called `what`.
  absl::Status CheckRange(absl::string_view name, absl::string_view what, int64_t begin,
                          size_t count, int64_t all) const {
    const auto most = static_cast<int64_t>(count);
    if (begin >= 0 && most <= all && begin <= all - most) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat(description(), ": ", what, " [", begin, ", ", begin,
                                              " + ", count, ") of tensor \"", name,
                                              "\", which has ", all));
  }

  absl::Status AddStored(const std::string& name, const SafetensorsEntry& entry) {
    const size_t at = absl::string_view(name).find(kExperts);
    const absl::string_view layer = at == absl::string_view::npos
                                        ? name
                                        : absl::string_view(name).substr(0, at + kExperts.size());
    absl::string_view stack = absl::string_view(name).substr(layer.size());
    const bool is_scales = absl::ConsumeSuffix(&stack, "_scales");
    Place place;
    place.stored = name;
    if (absl::ConsumeSuffix(&stack, "_bias")) {
      place.kind = Place::Kind::kBias;
    } else if (absl::ConsumeSuffix(&stack, "_blocks")) {
      place.kind = Place::Kind::kMxfp4;
      place.scales = absl::StrCat(layer, stack, "_scales");
    }
    const bool is_stack = std::any_of(kProjections.begin(), kProjections.end(),
                                      [&](const Projection& p) { return p.stack == stack; });
    if (!is_stack) {
      place.kind = Place::Kind::kWhole;
      return AddTensor(name, entry, place);
    }
    if (is_scales) {
      const std::string blocks = absl::StrCat(layer, stack, "_blocks");
      if (all_->Find(blocks) != nullptr) return absl::OkStatus();
      return InvalidArgument(description(), ": \"", name, "\" is there without \"", blocks,
                             "\"; expected both of MXFP4");
    }
    for (const Projection& projection : kProjections) {
      if (projection.stack != stack) continue;
      place.first = projection.first;
      place.step = projection.step;
      ZEROTH_RETURN_IF_ERROR(AddExperts(absl::StrCat(layer), projection.name, entry, place));
    }
    return absl::OkStatus();
  }

  // Adds the tensors of all experts in a stack.
  absl::Status AddExperts(const std::string& layer, absl::string_view projection,
                          const SafetensorsEntry& stored, Place place) {
    const Shape& shape = stored.shape;
    const bool is_bias = place.kind == Place::Kind::kBias;
    const bool is_mxfp4 = place.kind == Place::Kind::kMxfp4;
    const int rank = is_bias ? 2 : is_mxfp4 ? 4 : 3;
    bool fits = shape.rank() == rank && shape.numel() > 0;
    if (fits) {
      place.rows = shape.dim(place.kind == Place::Kind::kTransposed ? 2 : 1);
      place.columns = is_bias ? 1 : is_mxfp4 ? shape.dim(2) * kMxfp4Block : shape.dim(1);
      fits = place.rows % place.step == 0 && (!is_mxfp4 || shape.dim(3) == kMxfp4BlockBytes);
    }
    if (!fits) {
      const absl::string_view rows = place.step == 2 ? "twice the inner features" : "features";
      return InvalidArgument(description(), ": \"", place.stored, "\" has shape ", shape.ToString(),
                             ", expected ",
                             is_bias    ? absl::StrCat("[experts, ", rows, "]")
                             : is_mxfp4 ? absl::StrCat("[experts, ", rows, ", blocks of 32, 16]")
                                        : absl::StrCat("[experts, features, ", rows, "]"));
    }
    SafetensorsEntry entry = stored;
    if (is_mxfp4) {
      ZEROTH_RETURN_IF_ERROR(CheckMxfp4(place, shape, stored.dtype));
      entry.dtype = SafetensorsDType::kBF16;
    }
    const int64_t rows = place.rows / place.step;
    entry.shape = is_bias ? Shape({rows}) : Shape({rows, place.columns});
    for (place.expert = 0; place.expert < shape.dim(0); ++place.expert) {
      const std::string name =
          absl::StrCat(layer, place.expert, ".", projection, is_bias ? ".bias" : ".weight");
      ZEROTH_RETURN_IF_ERROR(AddTensor(name, entry, place));
      if (is_mxfp4) blocks_[name] = PackedFormat::kMxfp4;
    }
    return absl::OkStatus();
  }

  absl::Status CheckMxfp4(const Place& place, const Shape& shape, SafetensorsDType dtype) const {
    const SafetensorsEntry* const scales = all_->Find(place.scales);
    if (scales == nullptr) {
      return InvalidArgument(description(), ": \"", place.stored, "\" is there without \"",
                             place.scales, "\"; expected both of MXFP4");
    }
    for (const auto& [name, type] :
         {std::pair(&place.stored, dtype), std::pair(&place.scales, scales->dtype)}) {
      if (type == SafetensorsDType::kU8) continue;
      return InvalidArgument(description(), ": \"", *name, "\" is ", SafetensorsDTypeName(type),
                             ", expected U8, as MXFP4 has");
    }
    const Shape expected({shape.dim(0), shape.dim(1), shape.dim(2)});
    if (scales->shape == expected) return absl::OkStatus();
    return InvalidArgument(description(), ": \"", place.scales, "\" has shape ",
                           scales->shape.ToString(), ", expected ", expected.ToString(),
                           ", one for each block of \"", place.stored, "\"");
  }

  absl::Status AddTensor(const std::string& name, const SafetensorsEntry& entry, Place place) {
    const auto [other, inserted] = places_.emplace(name, std::move(place));
    if (inserted) {
      tensors_.emplace(name, entry);
      return absl::OkStatus();
    }
    return InvalidArgument(description(), ": tensor \"", name, "\" is stored in \"",
                           other->second.stored, "\" and in another tensor; expected one of them");
  }

  absl::Status ReadBias(const Place& place, int64_t begin, absl::Span<float> out) const {
    std::vector<float> all(static_cast<size_t>(place.rows));
    ZEROTH_RETURN_IF_ERROR(
        all_->ReadElements(place.stored, place.expert * place.rows, absl::MakeSpan(all)));
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = all[static_cast<size_t>(place.first + place.step * begin) +
                   i * static_cast<size_t>(place.step)];
    }
    return absl::OkStatus();
  }

  // Returns the part of an expert in a stack of matrices as [rows, columns].
  absl::StatusOr<std::shared_ptr<const Slice>> SliceOf(const Place& place) const {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (last_ != nullptr && last_->stored == place.stored && last_->expert == place.expert) {
        return last_;
      }
    }
    auto slice = std::make_shared<Slice>();
    slice->stored = place.stored;
    slice->expert = place.expert;
    slice->values.resize(static_cast<size_t>(place.rows * place.columns));
    ZEROTH_RETURN_IF_ERROR(place.kind == Place::Kind::kMxfp4
                               ? Decode(place, absl::MakeSpan(slice->values))
                               : Transpose(place, absl::MakeSpan(slice->values)));
    const std::lock_guard<std::mutex> lock(mutex_);
    last_ = slice;
    return slice;
  }

  absl::Status ReadMatrix(const Place& place, int64_t begin, absl::Span<float> out) const {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const Slice> slice, SliceOf(place));
    while (!out.empty()) {
      const int64_t row = place.first + place.step * (begin / place.columns);
      const int64_t column = begin % place.columns;
      const int64_t count = std::min(static_cast<int64_t>(out.size()), place.columns - column);
      std::copy_n(slice->values.begin() + row * place.columns + column, count, out.begin());
      out.remove_prefix(static_cast<size_t>(count));
      begin += count;
    }
    return absl::OkStatus();
  }

  absl::Status Transpose(const Place& place, absl::Span<float> out) const {
    const int64_t most = std::clamp<int64_t>(kStrip / place.rows, 1, place.columns);
    std::vector<float> strip;
    for (int64_t begin = 0; begin < place.columns; begin += most) {
      const int64_t count = std::min(most, place.columns - begin);
      strip.resize(static_cast<size_t>(count * place.rows));
      ZEROTH_RETURN_IF_ERROR(all_->ReadElements(place.stored,
                                                (place.expert * place.columns + begin) * place.rows,
                                                absl::MakeSpan(strip)));
      // In tiles, so that a line of the cache is used whole on both sides.
      for (int64_t tile = 0; tile < place.rows; tile += kTile) {
        const int64_t end = std::min(tile + kTile, place.rows);
        for (int64_t column = 0; column < count; ++column) {
          for (int64_t row = tile; row < end; ++row) {
            out[static_cast<size_t>(row * place.columns + begin + column)] =
                strip[static_cast<size_t>(column * place.rows + row)];
          }
        }
      }
    }
    return absl::OkStatus();
  }

  struct Mxfp4Bytes {
    std::vector<uint8_t> codes;
    std::vector<uint8_t> scales;
  };
  // Reads rows [row, row + rows) of an expert in its stack.
  absl::StatusOr<Mxfp4Bytes> ReadMxfp4(const Place& place, int64_t row, int64_t rows) const {
    const int64_t blocks = place.columns / kMxfp4Block;
    const int64_t begin = (place.expert * place.rows + row) * blocks;
    const int64_t end = begin + rows * blocks;
    Mxfp4Bytes bytes;
    ZEROTH_ASSIGN_OR_RETURN(bytes.codes, all_->RawBytes(place.stored, begin * kMxfp4BlockBytes,
                                                        end * kMxfp4BlockBytes));
    ZEROTH_ASSIGN_OR_RETURN(bytes.scales, all_->RawBytes(place.scales, begin, end));
    return bytes;
  }

  absl::Status Decode(const Place& place, absl::Span<float> out) const {
    ZEROTH_ASSIGN_OR_RETURN(const Mxfp4Bytes bytes, ReadMxfp4(place, 0, place.rows));
    DecodeMxfp4(bytes.codes, bytes.scales, out);
    return absl::OkStatus();
  }

  const std::shared_ptr<const HfWeights> all_;
  std::map<std::string, Place, std::less<>> places_;
  mutable std::mutex mutex_;
  // A matrix is read piece by piece, and gate and up after each other. Guarded.
  mutable std::shared_ptr<const Slice> last_;
};

}  // namespace

absl::Status CheckAdapterLayers(const HfConfig& config, absl::Span<const std::string> layers) {
  if (!StacksExperts(config)) return absl::OkStatus();
  for (const std::string& layer : layers) {
    if (!absl::StrContains(layer, kExperts)) continue;
    return Unimplemented(
        "an adapter of \"", layer,
        "\" cannot be written alone: transformers stacks the experts of gpt-oss in one parameter, "
        "so that PEFT has no layer for it; write the merged model instead (--lora_export=merged), "
        "or adapt no experts (--lora_targets=all_but_experts)");
  }
  return absl::OkStatus();
}

bool StacksExperts(const HfConfig& config) {
  const auto type = config.json().find("model_type");
  return type != config.json().end() && *type == "gpt_oss";
}

absl::StatusOr<HfSeparateExperts> SeparateExperts(const HfConfig& config,
                                                  std::shared_ptr<const HfWeights> weights) {
  nlohmann::json json = config.json();
  if (const auto found = json.find(kQuantization); found != json.end()) {
    const auto method = found->is_object() ? found->find("quant_method") : found->end();
    if (!found->is_object() || method == found->end() || *method != "mxfp4") {
      return InvalidArgument(config.where(), ": key \"", kQuantization, "\" is ",
                             found->dump(-1, ' ', true),
                             ", expected \"quant_method\" \"mxfp4\"; save the model unquantised");
    }
    json.erase(found);
  }
  ZEROTH_ASSIGN_OR_RETURN(HfConfig plain, HfConfig::Parse(json.dump(), config.where()));
  ZEROTH_ASSIGN_OR_RETURN(auto separate, SeparateExpertWeights::Create(std::move(weights)));
  return HfSeparateExperts{std::move(plain), std::move(separate)};
}

std::string ExpertPart::StackName() const {
  return absl::StrCat(layer, stack, is_bias ? "_bias" : "");
}

std::optional<ExpertPart> ExpertPartOf(absl::string_view name) {
  const size_t at = name.find(kExperts);
  if (at == absl::string_view::npos) return std::nullopt;
  ExpertPart part;
  part.layer = std::string(name.substr(0, at + kExperts.size()));
  absl::string_view rest = name.substr(part.layer.size());
  const size_t digits = std::min(rest.find('.'), rest.size());
  if (!absl::SimpleAtoi(rest.substr(0, digits), &part.expert) || part.expert < 0) {
    return std::nullopt;
  }
  rest.remove_prefix(digits);
  part.is_bias = absl::EndsWith(rest, ".bias");
  for (const Projection& projection : kProjections) {
    if (rest != absl::StrCat(".", projection.name, part.is_bias ? ".bias" : ".weight")) continue;
    part.stack = std::string(projection.stack);
    part.first = projection.first;
    part.step = projection.step;
    return part;
  }
  return std::nullopt;
}

}  // namespace zeroth
