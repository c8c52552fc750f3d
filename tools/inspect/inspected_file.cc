// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/inspect/inspected_file.h"

#include <algorithm>
#include <filesystem>
#include <memory>
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

void AddState(const std::shared_ptr<CheckpointReader>& reader, const std::string& name,
              const std::string& state, std::vector<InspectedTensor>& tensors) {
  const CheckpointParameter& parameter = reader->index().parameters.at(name);
  const CheckpointTensor& stored = parameter.states.at(state);
  InspectedTensor tensor;
  tensor.is_state = state != kParameterState;
  tensor.name = state == kParameterState ? name : absl::StrCat(name, " (", state, ")");
  tensor.dtype = stored.dtype;
  tensor.type = std::string(SafetensorsDTypeName(stored.dtype));
  tensor.numel = parameter.NumelOf(stored);
  const absl::Span<const int64_t> dims = parameter.shape.dims();
  tensor.shape = stored.block == 1 ? std::vector<int64_t>(dims.begin(), dims.end())
                                   : std::vector<int64_t>{tensor.numel};
  tensor.where = stored.pieces.size() == 1
                     ? reader->index().files[static_cast<size_t>(stored.pieces[0].file)].name
                     : absl::StrCat(stored.pieces.size(), " pieces");
  tensor.read = [=, size = BitsOf(stored.dtype) / 8](int64_t begin, int64_t count,
                                                     std::vector<uint8_t>& out) {
    out.resize(static_cast<size_t>(count * size));
    return reader->ReadBytes(name, state, begin, absl::MakeSpan(out));
  };
  tensors.push_back(std::move(tensor));
}

// The states of a parameter are tensors "weight", "weight (m)" and so on.
absl::StatusOr<InspectedFile> OpenCheckpoint(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<CheckpointReader> reader,
                          CheckpointReader::Open(path));
  InspectedFile result;
  const CheckpointIndex& index = reader->index();
  for (const auto& [name, parameter] : index.parameters) {
    AddState(reader, name, kParameterState, result.tensors);
    for (const auto& [state, tensor] : parameter.states) {
      if (state != kParameterState) AddState(reader, name, state, result.tensors);
    }
  }
  int64_t bytes = 0;
  for (const CheckpointFile& file : index.files) bytes += file.bytes;
  result.notes = {
      absl::StrCat("checkpoint of step ", index.step, ", save ", index.id, ": ", index.files.size(),
                   " files, ", bytes, " bytes"),
      absl::StrCat("training ",
                   index.training.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))};
  result.verify = [reader] { return reader->Verify(); };
  return result;
}

InspectedTensor Described(const std::string& name, SafetensorsDType dtype, const Shape& shape,
                          const std::string& path) {
  return {name,
          dtype,
          std::string(SafetensorsDTypeName(dtype)),
          std::vector<int64_t>(shape.dims().begin(), shape.dims().end()),
          shape.numel(),
          fs::path(path).filename().string(),
          {}};
}

// Adds the tensors of a file with their own names and layouts.
void AddFile(const std::shared_ptr<const TensorFile>& file, std::vector<InspectedTensor>& tensors) {
  for (const auto& [name, entry] : file->tensors()) {
    InspectedTensor tensor = Described(name, entry.dtype, entry.shape, file->description());
    tensor.read = [file, name = name, bits = int64_t{BitsOf(entry.dtype)}](
                      int64_t begin, int64_t count, std::vector<uint8_t>& out) -> absl::Status {
      if (bits % 8 != 0) {
        return Unimplemented(name, ": elements of ", bits, " bits, of which several share a byte");
      }
      ZEROTH_ASSIGN_OR_RETURN(out,
                              file->RawBytes(name, begin * bits / 8, (begin + count) * bits / 8));
      return absl::OkStatus();
    };
    tensors.push_back(std::move(tensor));
  }
}

// Returns "u32 7", "string \"llama\"" or "array of string, 257 items".
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
        // `+` promotes to int, because StrCat does not print one-byte types as numbers.
        if constexpr (std::is_arithmetic_v<Item>) return absl::StrCat(+item);
        return "";
      },
      value);
}

// Sets the type of `tensor` if that of this name in `file` is quantised.
void SetQuantizedType(const GgufFile& file, const std::string& name, InspectedTensor& tensor) {
  const absl::string_view type = file.QuantizedTypeOf(name);
  if (!type.empty()) tensor.type = std::string(type);
}

// A GGUF file, and the tensor that was read last, in Hugging Face's layout.
struct GgufAsHf {
  std::unique_ptr<GgufFile> file;
  std::string held;  // the tensor's name
  std::vector<uint8_t> bytes;

  // The type stays, so converting through float32 is exact.
  absl::Status Hold(const TensorCopy& copy, int64_t numel) {
    if (held == copy.to) return absl::OkStatus();
    held.clear();
    bytes.resize(static_cast<size_t>(numel) * SizeOf(copy.dtype));
    ZEROTH_RETURN_IF_ERROR(CopyTensors(
        *file, absl::MakeConstSpan(&copy, 1),
        [&](absl::string_view, int64_t begin, absl::Span<const float> values) {
          ConvertFromFloat32(copy.dtype, values,
                             bytes.data() + static_cast<size_t>(begin) * SizeOf(copy.dtype));
          return absl::OkStatus();
        }));
    held = copy.to;
    return absl::OkStatus();
  }
};

absl::StatusOr<InspectedFile> OpenGgufAsHf(const std::string& path) {
  const auto gguf = std::make_shared<GgufAsHf>();
  ZEROTH_ASSIGN_OR_RETURN(gguf->file, GgufFile::Open(path, GgufTypes::kUnpackable));
  ZEROTH_ASSIGN_OR_RETURN(std::vector<TensorCopy> copies, GgufToHfCopies(*gguf->file));
  std::ranges::sort(copies, {}, &TensorCopy::to);
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<TensorDeclaration> declared,
                          DeclareCopies(*gguf->file, copies));
  InspectedFile result;
  for (size_t i = 0; i < declared.size(); ++i) {
    InspectedTensor tensor =
        Described(declared[i].name, ToSafetensorsDType(declared[i].dtype), declared[i].shape, path);
    SetQuantizedType(*gguf->file, copies[i].from, tensor);
    tensor.read = [gguf, copy = copies[i], numel = tensor.numel](
                      int64_t begin, int64_t count, std::vector<uint8_t>& out) -> absl::Status {
      ZEROTH_RETURN_IF_ERROR(gguf->Hold(copy, numel));
      const auto size = static_cast<int64_t>(SizeOf(copy.dtype));
      const auto first = gguf->bytes.begin() + begin * size;
      out.assign(first, first + count * size);
      return absl::OkStatus();
    };
    result.tensors.push_back(std::move(tensor));
  }
  return result;
}

absl::StatusOr<InspectedFile> OpenGguf(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const GgufFile> file,
                          GgufFile::Open(path, GgufTypes::kAll));
  InspectedFile result;
  result.notes = {absl::StrCat(path, ": GGUF, ", file->tensors().size(), " tensors")};
  for (const auto& [key, value] : file->metadata().values()) {
    result.notes.push_back(absl::StrCat("metadata ", key, " = ", Brief(value)));
  }
  AddFile(file, result.tensors);
  for (InspectedTensor& tensor : result.tensors) {
    SetQuantizedType(*file, tensor.name, tensor);
    if (file->QuantizedTypeOf(tensor.name).empty()) continue;
    tensor.read = nullptr;
    tensor.read_blocks = [file, name = tensor.name](int64_t begin, int64_t end) {
      return file->RawBytes(name, begin, end);
    };
    if (file->blocks().contains(tensor.name)) {
      tensor.read = [file, name = tensor.name](int64_t begin, int64_t count,
                                               std::vector<uint8_t>& out) {
        std::vector<float> values(static_cast<size_t>(count));
        ZEROTH_RETURN_IF_ERROR(file->ReadElements(name, begin, absl::MakeSpan(values)));
        out.resize(values.size() * sizeof(float));
        ConvertFromFloat32(DType::kFloat32, values, out.data());
        return absl::OkStatus();
      };
    }
  }
  result.verify = [] {
    return absl::UnimplementedError(
        "GGUF files have no checksums; their header, sizes and alignment are consistent");
  };
  return result;
}

absl::StatusOr<InspectedFile> OpenSafetensors(const std::vector<std::string>& paths) {
  InspectedFile result;
  for (const std::string& path : paths) {
    ZEROTH_ASSIGN_OR_RETURN(const std::shared_ptr<const SafetensorsFile> file,
                            SafetensorsFile::Open(path));
    result.notes.push_back(absl::StrCat(path, ": ", file->tensors().size(), " tensors"));
    for (const auto& [key, value] : file->metadata()) {
      result.notes.push_back(absl::StrCat("metadata ", key, " = ", value));
    }
    AddFile(file, result.tensors);
  }
  result.verify = [] {
    return absl::UnimplementedError(
        "safetensors files have no checksums; their headers and sizes are consistent");
  };
  return result;
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

absl::StatusOr<InspectedFile> InspectedFile::Open(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error))
    return absl::NotFoundError(absl::StrCat(path, ": no such file or directory"));
  if (fs::exists(fs::path(path) / kCheckpointIndexName, error)) return OpenCheckpoint(path);
  if (IsGguf(path)) return OpenGguf(path);
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> paths, SafetensorsPaths(path));
  return OpenSafetensors(paths);
}

absl::StatusOr<std::pair<InspectedFile, InspectedFile>> InspectedFile::OpenPair(
    const std::string& a, const std::string& b) {
  const bool mixed = IsGguf(a) != IsGguf(b);
  const auto open = [mixed](const std::string& path) {
    return mixed && IsGguf(path) ? OpenGgufAsHf(path) : Open(path);
  };
  ZEROTH_ASSIGN_OR_RETURN(InspectedFile first, open(a));
  ZEROTH_ASSIGN_OR_RETURN(InspectedFile second, open(b));
  return std::make_pair(std::move(first), std::move(second));
}

}  // namespace zeroth
