// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/gguf/gguf_convert.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/packed/packed_format.h"

namespace zeroth {
namespace {

// Calls read(file_begin, piece) for each run of `out` that is contiguous in the file, which is all
// of `out` if elements keep their order. `begin` is the offset of `out` in the tensor. `begin`,
// `row_size` and file_begin count units of T: elements or bytes.
template <typename T, typename Read>
absl::Status ReadRuns(const TensorCopy& copy, int64_t rows, int64_t row_size, int64_t begin,
                      absl::Span<T> out, const Read& read) {
  const int64_t before = copy.place * rows * row_size;
  while (!out.empty()) {
    const SourceRun run = SourceRunOf(copy, rows, row_size, begin);
    const auto size = std::min(out.size(), static_cast<size_t>(run.size));
    ZEROTH_RETURN_IF_ERROR(read(before + run.begin, out.first(size)));
    begin += static_cast<int64_t>(size);
    out.remove_prefix(size);
  }
  return absl::OkStatus();
}

}  // namespace

bool IsGgufPath(absl::string_view path) { return absl::EndsWith(path, ".gguf"); }

GgufWeights::GgufWeights(std::unique_ptr<const GgufFile> file, std::vector<TensorCopy> copies,
                         TensorEntries tensors, int64_t mtp_tensors)
    : WeightsSource(file->description(), std::move(tensors)),
      file_(std::move(file)),
      mtp_tensors_(mtp_tensors) {
  for (TensorCopy& copy : copies) {
    const auto block = file_->blocks().find(copy.from);
    // A head's columns need not be whole blocks; such a weight is read in full precision instead.
    if (block != file_->blocks().end() && copy.relayout != Relayout::kRegroupColumns) {
      blocks_[copy.to] = block->second;
    }
    copies_[copy.to] = std::move(copy);
  }
}

absl::Status GgufWeights::ReadElements(absl::string_view name, int64_t begin,
                                       absl::Span<float> out) const {
  const SafetensorsEntry* const entry = Find(name);
  if (entry == nullptr) return MissingTensor(name);
  const int64_t numel = entry->shape.numel();
  const auto count = static_cast<int64_t>(out.size());
  if (begin < 0 || count > numel || begin > numel - count) {
    return absl::OutOfRangeError(absl::StrCat(description(), ": elements [", begin, ", ", begin,
                                              " + ", count, ") of tensor \"", name,
                                              "\", which has ", numel));
  }
  const TensorCopy& copy = copies_.find(name)->second;
  const int64_t rows = entry->shape.rank() == 0 ? 1 : entry->shape.dim(0);
  ZEROTH_RETURN_IF_ERROR(ReadRuns(copy, rows, numel / std::max<int64_t>(rows, 1), begin, out,
                                  [&](int64_t from, absl::Span<float> piece) {
                                    return file_->ReadElements(copy.from, from, piece);
                                  }));
  return MapElements(*file_, copy, out);
}

absl::Status GgufWeights::ReadBlocks(absl::string_view name, int64_t begin,
                                     absl::Span<uint8_t> out) const {
  const auto format = blocks_.find(name);
  if (format == blocks_.end()) {
    return absl::NotFoundError(
        absl::StrCat(description(), ": tensor \"", name, "\" is not stored in blocks"));
  }
  const Shape& shape = Find(name)->shape;
  const TensorCopy& copy = copies_.find(name)->second;
  const int64_t row_bytes = PackedShape{format->second}.CodeBytes(shape.dim(-1));
  return ReadRuns(
      copy, shape.numel() / shape.dim(-1), row_bytes, begin, out,
      [&](int64_t from, absl::Span<uint8_t> piece) -> absl::Status {
        ZEROTH_ASSIGN_OR_RETURN(
            const std::vector<uint8_t> bytes,
            file_->RawBytes(copy.from, from, from + static_cast<int64_t>(piece.size())));
        if (bytes.size() != piece.size()) {
          return absl::OutOfRangeError(absl::StrCat(description(), ": bytes from ", begin,
                                                    " of tensor \"", name,
                                                    "\" leave it; expected bytes of its blocks"));
        }
        std::copy(bytes.begin(), bytes.end(), piece.begin());
        return absl::OkStatus();
      });
}

absl::StatusOr<HfDirectory> OpenGgufModel(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file,
                          GgufFile::Open(path, GgufTypes::kUnpackable));
  ZEROTH_ASSIGN_OR_RETURN(GgufImport import, PlanGgufImport(*file));
  TensorEntries tensors;
  for (size_t i = 0; i < import.copies.size(); ++i) {
    const TensorCopy& copy = import.copies[i];
    if (copy.relayout == Relayout::kTranspose) {
      return Unimplemented(path, ": the matrices of this family are transposed in GGUF; expected ",
                           "another family than GPT-2, or a directory made by //tools/convert");
    }
    SafetensorsEntry entry = *file->Find(copy.from);
    entry.shape = import.tensors[i].shape;
    tensors[copy.to] = entry;
  }
  return HfDirectory(
      path, std::move(import.config),
      std::shared_ptr<const GgufWeights>(new GgufWeights(std::move(file), std::move(import.copies),
                                                         std::move(tensors), import.mtp_tensors)));
}

absl::StatusOr<HfDirectory> OpenModelFiles(const std::string& path) {
  return IsGgufPath(path) ? OpenGgufModel(path) : HfDirectory::Open(path);
}

absl::Status SetGgufTokenizer(const GgufMetadata& metadata, HfDirectory* model) {
  GgufImportNotes problems;
  const auto files = GgufTokenizerFiles(metadata, &problems);
  // The model is still usable: data of token ids needs no tokenizer, and --tokenizer can name
  // another one.
  if (!files.ok()) problems = {std::string(files.status().message())};
  if (!problems.empty()) model->set_tokenizer_problem(problems[0]);
  if (!files.ok() || files->empty()) return absl::OkStatus();
  const absl::Status set = model->SetTokenizerFiles(*files);
  return set.ok() ? set
                  : Annotate(set, absl::StrCat("the tokenizer of ", metadata.where(),
                                               " needs a directory for temporary files (TMPDIR)"));
}

}  // namespace zeroth
