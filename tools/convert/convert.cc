// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/convert/convert.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/gguf/gguf_adapter.h"
#include "zeroth/checkpoint/gguf/gguf_convert.h"
#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/gguf/gguf_mix.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/checkpoint/hf_experts.h"
#include "zeroth/checkpoint/llmc_model.h"
#include "zeroth/checkpoint/peft_adapter.h"
#include "zeroth/checkpoint/sharded/checkpoint_model.h"
#include "zeroth/core/base/byte_count.h"
#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/hugging_face.h"
#include "zeroth/tools/model/open_model.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;
using Notes = std::vector<std::string>;

// Vocabulary of the trainer's byte tokenizer: the bytes and "<|endoftext|>".
constexpr int64_t kByteTokens = 257;

// The value of --dtype, parsed.
struct Types {
  // Empty: each tensor keeps its type.
  std::optional<DType> dtype;
  // Set for a quantised GGUF file.
  std::optional<GgufMix> mix;
};

absl::StatusOr<Types> ParseTypes(const std::string& name) {
  const std::string text = absl::AsciiStrToLower(name);  // llama.cpp writes Q4_K_M
  Types types;
  if (text == "auto") return types;
  if (text == "q8_0" || text == "q4_k_m") {
    types.mix = text == "q8_0" ? GgufMix::kQ8_0 : GgufMix::kQ4_K_M;
    return types;
  }
  const absl::StatusOr<DType> dtype = ParseDType(text);
  if (!dtype.ok() || !IsFloatingPoint(*dtype)) {
    return InvalidArgument(
        "--dtype=", name, ": expected auto, fp32, fp16 or bf16, or for a GGUF file q8_0 or q4_k_m");
  }
  types.dtype = *dtype;
  return types;
}

// An adapter without its base model.
struct LoneAdapter {
  PeftAdapter adapter;
  std::shared_ptr<const WeightsSource> weights;
  // How to make PEFT's tensors from `weights`: A, then B of each layer; then the saved modules.
  std::vector<TensorCopy> tensors;
  std::map<std::string, std::string> tokenizer_files;
  std::optional<HfConfig> base;  // of a checkpoint's model
};

// Opens the adapters of a checkpoint, or of PEFT, to write them as PEFT's or as GGUF.
// FailedPrecondition for a checkpoint without adapters.
absl::StatusOr<LoneAdapter> OpenLoneAdapter(const std::string& path, bool to_gguf) {
  LoneAdapter lone;
  const bool is_peft = IsPeftDirectory(path);
  if (is_peft) {
    ZEROTH_ASSIGN_OR_RETURN(const PeftDirectory opened, PeftDirectory::Open(path));
    lone.adapter = opened.adapter();
    lone.weights = opened.weights();
  } else {
    ZEROTH_ASSIGN_OR_RETURN(const CheckpointModel opened, OpenCheckpointModel(path));
    if (!opened.adapter.has_value()) {
      return FailedPrecondition("--lora_export=adapter: ", path, " has no adapters");
    }
    lone.adapter = *opened.adapter;
    if (!to_gguf) {
      ZEROTH_RETURN_IF_ERROR(CheckAdapterLayers(opened.model.config(), lone.adapter.layers));
    }
    lone.weights = opened.model.shared_weights();
    lone.base = opened.model.config();
    ZEROTH_ASSIGN_OR_RETURN(lone.tokenizer_files, opened.model.ReadTokenizerFiles());
  }
  const auto add = [&](const std::string& name, const std::string& parameter) -> TensorCopy& {
    TensorCopy copy;
    copy.to = name;
    copy.from = is_peft ? name : parameter;
    return lone.tensors.emplace_back(std::move(copy));
  };
  for (const std::string& layer : lone.adapter.layers) {
    for (const bool is_a : {true, false}) {
      TensorCopy& copy = add(is_a ? PeftNameOfA(layer) : PeftNameOfB(layer),
                             absl::StrCat(layer, is_a ? kLoraA : kLoraB));
      if (!is_peft && lone.adapter.fan_in_fan_out) copy.relayout = Relayout::kTranspose;
    }
  }
  for (const std::string& layer : lone.adapter.layers) {
    if (lone.adapter.dora) add(PeftNameOfMagnitude(layer), absl::StrCat(layer, kLoraMagnitude));
  }
  for (const std::string& name : lone.adapter.saved) add(PeftNameOfSaved(name), name);
  return lone;
}

bool HasTokenizer(const HfDirectory& model) {
  const std::vector<std::string> files = model.TokenizerFiles();
  return std::any_of(files.begin(), files.end(), [](const std::string& file) {
    const std::string name = fs::path(file).filename().string();
    return name == "tokenizer.json" || name == "vocab.json" || name == "tokenizer.model";
  });
}

absl::StatusOr<GgufVocabularySource> ChooseVocabulary(const HfDirectory& model,
                                                      const std::string& text) {
  if (text == "files") return GgufVocabularySource::kFiles;
  if (text == "byte") return GgufVocabularySource::kByte;
  if (text == "none") return GgufVocabularySource::kNone;
  if (text != "auto") {
    return InvalidArgument("--vocabulary=", text, ": expected auto, files, byte or none");
  }
  if (HasTokenizer(model)) return GgufVocabularySource::kFiles;
  ZEROTH_ASSIGN_OR_RETURN(const int64_t tokens, model.config().GetInt("vocab_size"));
  return tokens == kByteTokens ? GgufVocabularySource::kByte : GgufVocabularySource::kNone;
}

std::string VocabularyNote(GgufVocabularySource source) {
  switch (source) {
    case GgufVocabularySource::kFiles:
      return "Its vocabulary comes from the directory's tokenizer files.";
    case GgufVocabularySource::kByte:
      return "Its vocabulary is the bytes.";
    default:
      return "It has no vocabulary: programs that read it exchange token ids, not text.";
  }
}

// Checks the options that apply to adapters only.
absl::Status CheckAdapterOptions(const ConvertOptions& options, bool is_directory) {
  if (options.lora_export != "merged" && options.lora_export != "adapter") {
    return InvalidArgument("--lora_export=", options.lora_export, ": expected merged or adapter");
  }
  const bool alone = options.lora_export == "adapter";
  const bool to_gguf = absl::EndsWith(options.out, ".gguf");
  if (alone &&
      (!is_directory || !(IsCheckpoint(options.in) || (to_gguf && IsPeftDirectory(options.in))))) {
    return InvalidArgument("--lora_export=adapter: ", options.in,
                           " is not a checkpoint of the trainer",
                           to_gguf ? " or an adapter of PEFT's"
                                   : "; an adapter becomes one of PEFT's without this flag");
  }
  return absl::OkStatus();
}

// Returns the last part of a path, which may end with a slash.
std::string LastPart(const std::string& path) {
  const fs::path plain = fs::path(path).lexically_normal();
  return (plain.has_filename() ? plain : plain.parent_path()).filename().string();
}

bool IsGguf(const std::string& path) {
  const absl::StatusOr<RandomAccessFile> file = RandomAccessFile::Open(path);
  if (!file.ok()) return false;
  const absl::StatusOr<std::vector<uint8_t>> head = file->ReadHead(4);
  return head.ok() && HasGgufMagic(*head);
}

// Refuses a directory that is there already, unless it is empty or options.overwrite is set, and a
// name that seems to be a file's. HfDirectoryWriter refuses a directory that is not a model.
absl::Status CheckDirectory(const ConvertOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(options.out, ignored)) {
    if (fs::is_empty(options.out, ignored)) return absl::OkStatus();
    return CheckOutput("--out", options.out, options.overwrite, "a model",
                       [](const std::string&) { return true; });
  }
  // "Llama-3.2-1B" has no ending of a file.
  const std::string ending = fs::path(LastPart(options.out)).extension().string();
  const bool is_ending =
      ending.size() > 1 && std::all_of(ending.begin() + 1, ending.end(), absl::ascii_isalpha);
  if (!is_ending) return absl::OkStatus();
  return InvalidArgument("--out=", options.out, ": convert writes no ", ending,
                         " files; expected a name that ends in .gguf, for a GGUF file of a "
                         "directory, or a name without an ending, for a Hugging Face directory");
}

// Refuses a file in a directory that does not exist, before a large model is read.
absl::Status CheckFile(const ConvertOptions& options) {
  ZEROTH_RETURN_IF_ERROR(
      CheckOutput("--out", options.out, options.overwrite, "a GGUF file", IsGguf));
  return CheckDirectoryOf("--out", options.out);
}

std::string GgufName(const ConvertOptions& options) {
  return options.name.empty() ? LastPart(options.in) : options.name;
}

// Says which parts of the model the output lacks.
void NoteLeftOut(const HfDirectory& model, Notes* notes) {
  if (model.left_out().empty()) return;
  notes->push_back(
      absl::StrCat("It has the language model alone, without ", model.left_out(), "."));
}

absl::StatusOr<Notes> AdapterToGguf(const ConvertOptions& options, const Types& types) {
  if (types.mix || options.vocabulary != "auto") {
    return InvalidArgument(
        types.mix ? "--dtype=" : "--vocabulary=", types.mix ? options.dtype : options.vocabulary,
        " is for whole models, and --lora_export=adapter writes an adapter");
  }
  ZEROTH_ASSIGN_OR_RETURN(const LoneAdapter lone, OpenLoneAdapter(options.in, /*to_gguf=*/true));
  std::optional<HfConfig> config = lone.base;
  if (!config.has_value()) {
    // This also checks the adapter's shapes.
    ZEROTH_ASSIGN_OR_RETURN(const HfDirectory base, OpenModel(options.in, options.base));
    config = base.config();
  }
  ZEROTH_RETURN_IF_ERROR(ConvertAdapterToGguf(*config, lone.adapter, *lone.weights, lone.tensors,
                                              options.out, types.dtype, GgufName(options)));
  return Notes{absl::StrCat("Wrote the GGUF adapter ", options.out,
                            "; llama.cpp adds it with --lora to a GGUF file of the base model.")};
}

absl::StatusOr<Notes> ToGguf(const ConvertOptions& options, const Types& types) {
  if (options.max_shard_size != ConvertOptions().max_shard_size) {
    return InvalidArgument("--max_shard_size=", options.max_shard_size,
                           " is for Hugging Face directories, and --out=", options.out,
                           " is a GGUF file, which is never split");
  }
  ZEROTH_RETURN_IF_ERROR(CheckFile(options));
  if (options.lora_export == "adapter") return AdapterToGguf(options, types);
  ZEROTH_ASSIGN_OR_RETURN(const HfDirectory model, OpenModel(options.in, options.base));
  GgufExportOptions gguf;
  gguf.dtype = types.dtype;
  gguf.mix = types.mix;
  gguf.name = GgufName(options);
  ZEROTH_ASSIGN_OR_RETURN(gguf.vocabulary, ChooseVocabulary(model, options.vocabulary));
  Notes notes = {absl::StrCat("Wrote the GGUF file ", options.out, "."),
                 VocabularyNote(gguf.vocabulary)};
  NoteLeftOut(model, &notes);
  ZEROTH_RETURN_IF_ERROR(ConvertHfToGguf(model, options.out, gguf, &notes));
  return notes;
}

// Returns the options with which a directory is written. Refuses options of GGUF files.
absl::StatusOr<HfConvertOptions> DirectoryOptionsOf(const ConvertOptions& options,
                                                    const Types& types) {
  if (absl::EndsWith(options.out, ".gguf")) {
    return InvalidArgument("--out=", options.out, ": ", options.in,
                           " is a file and becomes a directory; expected a name without .gguf, "
                           "and for another GGUF file a second call, with that directory as --in");
  }
  if (options.vocabulary != "auto" || !options.name.empty()) {
    return InvalidArgument(options.vocabulary != "auto" ? "--vocabulary" : "--name",
                           " is for writing GGUF files, and ", options.in,
                           " becomes a Hugging Face directory");
  }
  if (types.mix) {
    return InvalidArgument("--dtype=", options.dtype, " is for writing GGUF files, and ",
                           options.in, " becomes a Hugging Face directory");
  }
  const absl::StatusOr<int64_t> bytes = ParseByteCount(options.max_shard_size);
  ZEROTH_RETURN_IF_ERROR_WITH(bytes.status(), "--max_shard_size");
  HfConvertOptions convert;
  convert.dtype = types.dtype;
  convert.directory.max_shard_bytes = *bytes;
  return convert;
}

Notes AdapterNotes(const ConvertOptions& options) {
  return {absl::StrCat("Wrote the adapter ", options.out, ".")};
}

Notes DirectoryNotes(const ConvertOptions& options) {
  return {absl::StrCat("Wrote the Hugging Face directory ", options.out, ".")};
}

absl::Status RefuseShards(const ConvertOptions& options, const HfConvertOptions& convert) {
  if (convert.directory.max_shard_bytes == 0) return absl::OkStatus();
  // PEFT reads a single file.
  return InvalidArgument("--max_shard_size=", options.max_shard_size,
                         " is for models, and an adapter is one file");
}

absl::StatusOr<Notes> DirectoryToDirectory(const ConvertOptions& options, const Types& types) {
  ZEROTH_ASSIGN_OR_RETURN(HfConvertOptions convert, DirectoryOptionsOf(options, types));
  std::error_code error;
  // Rounding would destroy the only copy.
  if (fs::equivalent(options.in, options.out, error)) {
    return InvalidArgument("--out=", options.out,
                           " is the directory of --in; name another directory");
  }
  ZEROTH_RETURN_IF_ERROR(CheckDirectory(options));
  if (options.lora_export == "adapter") {
    ZEROTH_RETURN_IF_ERROR(RefuseShards(options, convert));
    ZEROTH_ASSIGN_OR_RETURN(LoneAdapter lone, OpenLoneAdapter(options.in, /*to_gguf=*/false));
    ZEROTH_ASSIGN_OR_RETURN(const HfConfig config, PeftAdapterConfig(lone.adapter));
    convert.directory.kind = HfDirectoryKind::kAdapter;
    ZEROTH_RETURN_IF_ERROR(WriteHfDirectory(*lone.weights, config, std::move(lone.tensors),
                                            lone.tokenizer_files, options.out, convert));
    return AdapterNotes(options);
  }
  ZEROTH_ASSIGN_OR_RETURN(const HfDirectory model, OpenModel(options.in, options.base));
  ZEROTH_RETURN_IF_ERROR(ConvertHfToHf(model, options.out, convert));
  Notes notes = DirectoryNotes(options);
  NoteLeftOut(model, &notes);
  return notes;
}

// Needs the base model: the order of an adapter's rows depends on the rows per head, which the GGUF
// file of an adapter lacks.
absl::StatusOr<Notes> GgufAdapterToDirectory(const ConvertOptions& options, const GgufFile& file,
                                             const HfConvertOptions& convert) {
  if (options.base.empty()) {
    return InvalidArgument(options.in,
                           ": an adapter; name the Hugging Face directory of the model that it was "
                           "made for, --base=DIRECTORY");
  }
  ZEROTH_RETURN_IF_ERROR(RefuseShards(options, convert));
  const absl::StatusOr<HfDirectory> base = HfDirectory::Open(options.base);
  ZEROTH_RETURN_IF_ERROR_WITH(base.status(), "--base");
  ZEROTH_RETURN_IF_ERROR(
      ConvertGgufToAdapter(file, base->config(), options.base, options.out, convert));
  return AdapterNotes(options);
}

absl::StatusOr<Notes> FileToDirectory(const ConvertOptions& options, const Types& types) {
  ZEROTH_ASSIGN_OR_RETURN(const HfConvertOptions convert, DirectoryOptionsOf(options, types));
  ZEROTH_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(options.in));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<uint8_t> head, file.ReadHead(4));
  const bool is_llmc = HasLlmcModelMagic(head);
  if (!is_llmc && !HasGgufMagic(head)) {
    return InvalidArgument(
        options.in,
        ": its first bytes are neither those of a GGUF file nor of a GPT-2 model of llm.c");
  }
  ZEROTH_RETURN_IF_ERROR(CheckDirectory(options));
  std::unique_ptr<GgufFile> gguf;
  if (!is_llmc) {
    ZEROTH_ASSIGN_OR_RETURN(gguf, GgufFile::Open(options.in));
    if (IsGgufAdapter(*gguf)) return GgufAdapterToDirectory(options, *gguf, convert);
  }
  if (!options.base.empty()) {
    return InvalidArgument("--base=", options.base, " is for an adapter, and ", options.in,
                           " is a model");
  }
  Notes notes = DirectoryNotes(options);
  if (is_llmc) {
    ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LlmcModelFile> model,
                            LlmcModelFile::Open(options.in));
    ZEROTH_RETURN_IF_ERROR(ConvertLlmcToHf(*model, options.out, convert));
    notes.push_back(
        "llm.c's files have no tokenizer; copy GPT-2's vocab.json and merges.txt there.");
    return notes;
  }
  ZEROTH_ASSIGN_OR_RETURN(GgufImportNotes left, ConvertGgufToHf(*gguf, options.out, convert));
  notes.insert(notes.end(), left.begin(), left.end());
  return notes;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> Convert(const ConvertOptions& options) {
  if (options.in.empty() || options.out.empty()) {
    return InvalidArgument(options.in.empty() ? "--in" : "--out",
                           " is missing: name what to convert and what to write, as in --in=model "
                           "--out=model.gguf");
  }
  ZEROTH_ASSIGN_OR_RETURN(const Types types, ParseTypes(options.dtype));
  std::error_code error;
  const fs::file_status status = fs::status(options.in, error);
  if (!fs::exists(status)) {
    return absl::NotFoundError(absl::StrCat("--in=", options.in, ": ",
                                            error ? error.message() : "no such file or directory",
                                            HubHint(options.in)));
  }
  ZEROTH_RETURN_IF_ERROR(CheckAdapterOptions(options, fs::is_directory(status)));
  if (!fs::is_directory(status)) return FileToDirectory(options, types);
  return absl::EndsWith(options.out, ".gguf") ? ToGguf(options, types)
                                              : DirectoryToDirectory(options, types);
}

}  // namespace zeroth
