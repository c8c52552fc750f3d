// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/inspect/inspected.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <type_traits>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/gguf/gguf_convert.h"
#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/checkpoint/tensor_copy.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

// A sharded checkpoint. The states of a parameter are tensors "weight", "weight (m)" and so on.
class InspectedCheckpoint final : public Inspected {
 public:
  explicit InspectedCheckpoint(std::unique_ptr<CheckpointReader> reader)
      : reader_(std::move(reader)) {
    const CheckpointIndex& index = reader_->index();
    for (const auto& [name, parameter] : index.parameters) {
      AddState(name, parameter, kParameterState);
      for (const auto& [state, tensor] : parameter.states) {
        if (state != kParameterState) AddState(name, parameter, state);
      }
    }
    int64_t bytes = 0;
    for (const CheckpointFile& file : index.files) bytes += file.bytes;
    notes_.push_back(absl::StrCat("checkpoint of step ", index.step, ", save ", index.id, ": ",
                                  index.files.size(), " files, ", bytes, " bytes"));
    notes_.push_back(absl::StrCat(
        "training ",
        index.training.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }

  absl::Status Read(size_t index, int64_t begin, int64_t count,
                    std::vector<uint8_t>& out) override {
    out.resize(static_cast<size_t>(count * (BitsOf(tensors_[index].dtype) / 8)));
    return reader_->ReadBytes(places_[index].first, places_[index].second, begin,
                              absl::MakeSpan(out));
  }

  absl::StatusOr<std::vector<absl::Status>> Verify() override { return reader_->Verify(); }

 private:
  void AddState(const std::string& name, const CheckpointParameter& parameter,
                const std::string& state) {
    const CheckpointTensor& stored = parameter.states.at(state);
    InspectedTensor tensor;
    tensor.name = state == kParameterState ? name : absl::StrCat(name, " (", state, ")");
    tensor.dtype = stored.dtype;
    tensor.numel = parameter.NumelOf(stored);
    const absl::Span<const int64_t> dims = parameter.shape.dims();
    tensor.shape = stored.block == 1 ? std::vector<int64_t>(dims.begin(), dims.end())
                                     : std::vector<int64_t>{tensor.numel};
    if (stored.pieces.size() == 1) {
      tensor.where = reader_->index().files[static_cast<size_t>(stored.pieces[0].file)].name;
    } else {
      tensor.where = absl::StrCat(stored.pieces.size(), " pieces");
    }
    tensors_.push_back(std::move(tensor));
    places_.emplace_back(name, state);
  }

  std::unique_ptr<CheckpointReader> reader_;
  std::vector<std::pair<std::string, std::string>> places_;  // parameter and state of each tensor
};

InspectedTensor Described(const std::string& name, SafetensorsDType dtype, const Shape& shape,
                          const std::string& path) {
  return {name, dtype, std::vector<int64_t>(shape.dims().begin(), shape.dims().end()),
          shape.numel(), fs::path(path).filename().string()};
}

// Files with their own names and layouts. `unchecked` is the message of Verify.
class InspectedFiles final : public Inspected {
 public:
  InspectedFiles(std::vector<std::unique_ptr<const TensorFile>> files,
                 std::vector<std::string> notes, const char* unchecked)
      : files_(std::move(files)), unchecked_(unchecked) {
    notes_ = std::move(notes);
    for (const auto& file : files_) {
      for (const auto& [name, entry] : file->tensors()) {
        tensors_.push_back(Described(name, entry.dtype, entry.shape, file->description()));
        places_.push_back(file.get());
      }
    }
  }

  absl::Status Read(size_t index, int64_t begin, int64_t count,
                    std::vector<uint8_t>& out) override {
    const InspectedTensor& tensor = tensors_[index];
    const int64_t bits = BitsOf(tensor.dtype);
    if (bits % 8 != 0) {
      return Unimplemented(tensor.name, ": elements of ", bits,
                           " bits, of which several share a byte");
    }
    const int64_t size = bits / 8;
    ZEROTH_ASSIGN_OR_RETURN(
        out, places_[index]->RawBytes(tensor.name, begin * size, (begin + count) * size));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<absl::Status>> Verify() override {
    return absl::UnimplementedError(unchecked_);
  }

 private:
  const std::vector<std::unique_ptr<const TensorFile>> files_;
  const char* const unchecked_;
  std::vector<const TensorFile*> places_;  // the file of each tensor
};

// "u32 7", "string \"llama\"", "array of 257 string".
std::string Brief(const GgufValue& value) {
  constexpr size_t kShown = 80;
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    const size_t count = std::visit([](const auto& items) { return items.size(); }, array->items);
    return absl::StrCat(GgufTypeName(value), ", ", count, " items");
  }
  if (const auto* text = std::get_if<std::string>(&value)) {
    return absl::StrCat("\"", absl::CHexEscape(text->substr(0, kShown)),
                        text->size() > kShown ? "…" : "", "\"");
  }
  return std::visit(
      [](const auto& item) -> std::string {
        using Item = std::decay_t<decltype(item)>;
        if constexpr (std::is_same_v<Item, bool>) return item ? "true" : "false";
        // As a number, which StrCat would not do for the types of one byte.
        if constexpr (std::is_arithmetic_v<Item>) return absl::StrCat(+item);
        return "";
      },
      value);
}

// A GGUF file with Hugging Face's names and layouts.
class InspectedGgufAsHf final : public Inspected {
 public:
  static absl::StatusOr<std::unique_ptr<Inspected>> Create(std::unique_ptr<GgufFile> file) {
    std::unique_ptr<InspectedGgufAsHf> result(new InspectedGgufAsHf(std::move(file)));
    ZEROTH_ASSIGN_OR_RETURN(result->copies_, GgufToHfCopies(*result->file_));
    std::sort(result->copies_.begin(), result->copies_.end(),
              [](const TensorCopy& a, const TensorCopy& b) { return a.to < b.to; });
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<TensorDeclaration> tensors,
                            DeclareCopies(*result->file_, result->copies_));
    for (const TensorDeclaration& tensor : tensors) {
      result->tensors_.push_back(Described(tensor.name, ToSafetensorsDType(tensor.dtype),
                                           tensor.shape, result->file_->description()));
    }
    return result;
  }

  absl::Status Read(size_t index, int64_t begin, int64_t count,
                    std::vector<uint8_t>& out) override {
    if (index != held_) ZEROTH_RETURN_IF_ERROR(Hold(index));
    const int64_t size = BitsOf(tensors_[index].dtype) / 8;
    out.assign(bytes_.begin() + begin * size, bytes_.begin() + (begin + count) * size);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<absl::Status>> Verify() override {
    return absl::UnimplementedError("GGUF files have no checksums");
  }

 private:
  explicit InspectedGgufAsHf(std::unique_ptr<GgufFile> file) : file_(std::move(file)) {}

  // Converts a tensor to Hugging Face's layout. Its type stays, so converting through float32 is
  // exact.
  absl::Status Hold(size_t index) {
    const DType dtype = copies_[index].dtype;
    held_ = copies_.size();
    bytes_.resize(static_cast<size_t>(tensors_[index].numel) * SizeOf(dtype));
    ZEROTH_RETURN_IF_ERROR(CopyTensors(
        *file_, absl::MakeConstSpan(&copies_[index], 1),
        [&](absl::string_view, int64_t begin, absl::Span<const float> values) {
          for (size_t i = 0; i < values.size(); ++i) {
            Put(dtype, values[i], &bytes_[(static_cast<size_t>(begin) + i) * SizeOf(dtype)]);
          }
          return absl::OkStatus();
        }));
    held_ = index;
    return absl::OkStatus();
  }

  static void Put(DType dtype, float value, uint8_t* to) {
    if (dtype == DType::kFloat32) {
      std::memcpy(to, &value, sizeof(value));
      return;
    }
    const uint16_t bits = dtype == DType::kFloat16 ? ToFloat16(value).bits : ToBFloat16(value).bits;
    std::memcpy(to, &bits, sizeof(bits));
  }

  std::unique_ptr<GgufFile> file_;
  std::vector<TensorCopy> copies_;  // of each tensor
  size_t held_ = std::numeric_limits<size_t>::max();
  std::vector<uint8_t> bytes_;  // of the tensor `held_`
};

absl::StatusOr<std::unique_ptr<Inspected>> OpenGguf(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  std::vector<std::string> notes = {
      absl::StrCat(path, ": GGUF, ", file->tensors().size(), " tensors")};
  for (const auto& [key, value] : file->metadata().values()) {
    notes.push_back(absl::StrCat("metadata ", key, " = ", Brief(value)));
  }
  std::vector<std::unique_ptr<const TensorFile>> files;
  files.push_back(std::move(file));
  return std::make_unique<InspectedFiles>(
      std::move(files), std::move(notes),
      "GGUF files have no checksums; their header, sizes and alignment are consistent");
}

absl::StatusOr<std::unique_ptr<Inspected>> OpenSafetensors(const std::vector<std::string>& paths) {
  std::vector<std::unique_ptr<const TensorFile>> files;
  std::vector<std::string> notes;
  for (const std::string& path : paths) {
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Open(path));
    notes.push_back(absl::StrCat(path, ": ", file->tensors().size(), " tensors"));
    for (const auto& [key, value] : file->metadata()) {
      notes.push_back(absl::StrCat("metadata ", key, " = ", value));
    }
    files.push_back(std::move(file));
  }
  return std::make_unique<InspectedFiles>(
      std::move(files), std::move(notes),
      "safetensors files have no checksums; their headers and sizes are consistent");
}

bool IsGguf(const std::string& path) {
  if (!IsFile(path)) return false;
  const absl::StatusOr<RandomAccessFile> file = RandomAccessFile::Open(path);
  if (!file.ok()) return false;
  const absl::StatusOr<std::vector<uint8_t>> head = file->ReadHead(4);
  return head.ok() && HasGgufMagic(*head);
}

absl::StatusOr<std::vector<std::string>> SafetensorsPaths(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> paths;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".safetensors") paths.push_back(it->path().string());
  }
  std::sort(paths.begin(), paths.end());
  if (!paths.empty()) return paths;
  const absl::StatusOr<std::vector<int64_t>> steps = ListCheckpoints(path);
  const std::string hint =
      steps.ok() && !steps->empty()
          ? absl::StrCat("; it holds checkpoints: inspect ", CheckpointPath(path, steps->back()))
          : "";
  return InvalidArgument(path, ": expected a checkpoint (index.json) or .safetensors files in it",
                         hint);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Inspected>> Inspected::Open(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    return absl::NotFoundError(absl::StrCat(path, ": no such file or directory"));
  if (fs::exists(fs::path(path) / kCheckpointIndexName, error)) {
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader, CheckpointReader::Open(path));
    return std::make_unique<InspectedCheckpoint>(std::move(reader));
  }
  if (IsGguf(path)) return OpenGguf(path);
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> paths, SafetensorsPaths(path));
  return OpenSafetensors(paths);
}

absl::StatusOr<std::pair<std::unique_ptr<Inspected>, std::unique_ptr<Inspected>>>
Inspected::OpenPair(const std::string& a, const std::string& b) {
  const bool mixed = IsGguf(a) != IsGguf(b);
  const auto open = [&](const std::string& path) -> absl::StatusOr<std::unique_ptr<Inspected>> {
    if (!mixed || !IsGguf(path)) return Open(path);
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<GgufFile> file, GgufFile::Open(path));
    return InspectedGgufAsHf::Create(std::move(file));
  };
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Inspected> first, open(a));
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<Inspected> second, open(b));
  return std::make_pair(std::move(first), std::move(second));
}

}  // namespace zeroth
