// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_convert.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_adapter.h"
#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/checkpoint/gguf/gguf_copies.h"
#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/hugging_face.h"
#include "zeroth/formats/json_fields.h"

namespace zeroth {
namespace {

constexpr char kEmbedding[] = "token_embd.weight";
constexpr char kHead[] = "output.weight";
// The version of ggml's quantised types.
constexpr uint32_t kQuantizationVersion = 2;
// Stands for an id that no vocabulary can have.
constexpr uint64_t kNoSuchToken = uint64_t{1} << 62;

// llama.cpp's numbers for general.file_type.
uint32_t FileType(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 1;
    case DType::kBFloat16:
      return 32;
    default:
      return 0;
  }
}

uint32_t FileType(GgufMix mix) { return mix == GgufMix::kQ8_0 ? 7 : 15; }

absl::StatusOr<std::vector<TensorCopy>> PlanExport(const WeightsSource& weights,
                                                   const GgufMetadata& metadata,
                                                   std::optional<DType> dtype) {
  ZEROTH_ASSIGN_OR_RETURN(const std::string naming, GgufNamingOf(metadata));
  ZEROTH_ASSIGN_OR_RETURN(const GgufDivision division, GgufDivisionOf(metadata));
  std::vector<TensorCopy> copies;
  for (const std::string& name : weights.names()) {
    ZEROTH_ASSIGN_OR_RETURN(
        std::optional<TensorCopy> copy,
        GgufCopyOf(weights, name, GgufNameOf(naming, name), division, /*to_gguf=*/true, dtype));
    if (copy.has_value()) copies.push_back(*std::move(copy));
  }
  SortAsInGguf(&copies);
  return copies;
}

// Refuses a model that lacks a tensor, since no program would load the result. The message names
// the tensor as the source does.
absl::Status CheckComplete(const GgufMetadata& metadata, bool tied,
                           const std::vector<TensorCopy>& copies, bool to_gguf,
                           const std::string& where) {
  ZEROTH_ASSIGN_OR_RETURN(const GgufBlockCounts counts, GgufBlockCountsOf(metadata));
  ZEROTH_ASSIGN_OR_RETURN(const std::string naming, GgufNamingOf(metadata));
  std::set<std::string> present;
  for (const TensorCopy& copy : copies) present.insert(to_gguf ? copy.to : copy.from);
  ZEROTH_ASSIGN_OR_RETURN(
      const std::string missing,
      MissingGgufTensor(naming, counts.blocks, tied, present, counts.full_interval));
  if (missing.empty()) return absl::OkStatus();
  std::string name = missing;
  if (to_gguf) {
    ZEROTH_ASSIGN_OR_RETURN(const auto renamed, HfNameOf(naming, missing));
    name = renamed->name;
  }
  return InvalidArgument(where, ": has no tensor \"", name, "\", which a model of ", counts.blocks,
                         " blocks", tied ? "" : " whose head is not the embedding", " needs");
}

void NoteMtp(int64_t tensors, std::vector<std::string>* notes) {
  if (tensors == 0) return;
  notes->push_back(
      absl::StrCat("Left out the multi-token prediction (MTP) layers: ", tensors, " tensors."));
}

// The dtype that most elements have.
DType CommonDType(const std::vector<TensorDeclaration>& tensors) {
  std::map<DType, int64_t> elements;
  for (const TensorDeclaration& tensor : tensors) elements[tensor.dtype] += tensor.shape.numel();
  DType common = DType::kFloat32;
  for (const auto& [dtype, count] : elements) {
    if (count > elements[common]) common = dtype;
  }
  return common;
}

// Reads a token id of a config, or the first of a list, as Llama 3 has for the ends of texts and
// turns.
std::optional<int64_t> ConfigTokenId(const nlohmann::json& config, const char* key) {
  const nlohmann::json& field = FieldOf(config, key);
  const nlohmann::json& id = field.is_array() && !field.empty() ? field.front() : field;
  if (!id.is_number_unsigned()) return std::nullopt;
  return static_cast<int64_t>(std::min(id.get<uint64_t>(), kNoSuchToken));
}

absl::Status AddVocabulary(const HfDirectory& model, GgufVocabularySource source,
                           GgufMetadata* metadata) {
  if (source == GgufVocabularySource::kNone) {
    SetNoVocabulary(metadata);
    return absl::OkStatus();
  }
  std::optional<GgufVocabulary> vocabulary = ByteVocabulary();
  if (source == GgufVocabularySource::kFiles) {
    ZEROTH_ASSIGN_OR_RETURN(vocabulary, ReadHfVocabulary(model.tokenizer_path()));
    if (!vocabulary) {
      return InvalidArgument(
          model.tokenizer_path(),
          ": has no tokenizer.json, no tokenizer.model, and no vocab.json with merges.txt; choose "
          "the byte vocabulary or none");
    }
    ZEROTH_ASSIGN_OR_RETURN(HfChatTemplate chat, ReadHfChatTemplate(model.tokenizer_path()));
    vocabulary->chat_template = std::move(chat.jinja);
  }
  // The tokenizer's ids take precedence, as in llama.cpp's converter.
  ZEROTH_ASSIGN_OR_RETURN(const auto generation, model.ReadGenerationConfig());
  ZEROTH_ASSIGN_OR_RETURN(
      const nlohmann::json defaults,
      ParseJson(generation.value_or("{}"), absl::StrCat(model.path(), "/", kGenerationConfig)));
  for (const auto& [id, key] :
       {std::pair(&vocabulary->bos, "bos_token_id"), std::pair(&vocabulary->eos, "eos_token_id")}) {
    if (!*id) *id = ConfigTokenId(model.config().json(), key);
    if (!*id) *id = ConfigTokenId(defaults, key);
  }
  ZEROTH_ASSIGN_OR_RETURN(const int64_t vocab_size, model.config().GetInt("vocab_size"));
  return Annotate(SetVocabulary(*std::move(vocabulary), vocab_size, metadata),
                  model.tokenizer_path());
}

// Returns the factors of Llama 3's rotary scaling as GGUF stores them; empty without such scaling.
absl::StatusOr<std::vector<float>> RopeFactors(const HfConfig& config,
                                               const GgufMetadata& metadata) {
  if (!metadata.Has("llama.block_count")) return std::vector<float>();
  ZEROTH_ASSIGN_OR_RETURN(std::optional<RopeSpec> rope, Llama3RopeOf(config));
  if (!rope) return std::vector<float>();
  ZEROTH_ASSIGN_OR_RETURN(rope->theta, metadata.GetDouble("llama.rope.freq_base"));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t head_dim, metadata.GetInt("llama.rope.dimension_count"));
  return Llama3RopeFactors(*rope, head_dim);
}

// True if two tensors have the same dtype, shape and bytes.
absl::StatusOr<bool> SameTensor(const GgufFile& model, absl::string_view a, absl::string_view b) {
  const SafetensorsEntry* const left = model.Find(a);
  const SafetensorsEntry* const right = model.Find(b);
  if (left == nullptr || right == nullptr) return false;
  if (left->dtype != right->dtype || left->shape != right->shape) return false;
  constexpr int64_t kPiece = int64_t{1} << 20;
  for (int64_t begin = 0; begin < left->end - left->begin; begin += kPiece) {
    ZEROTH_ASSIGN_OR_RETURN(const auto left_bytes, model.RawBytes(a, begin, begin + kPiece));
    ZEROTH_ASSIGN_OR_RETURN(const auto right_bytes, model.RawBytes(b, begin, begin + kPiece));
    if (left_bytes != right_bytes) return false;
  }
  return true;
}

struct ImportPlan {
  std::vector<TensorCopy> copies;
  bool tied = false;
  int64_t mtp_tensors = 0;
};

absl::StatusOr<ImportPlan> PlanImport(const GgufFile& model) {
  const GgufMetadata& metadata = model.metadata();
  if (IsGgufAdapter(model)) {
    return InvalidArgument(model.description(), ": an adapter, expected a model");
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::string architecture,
                          metadata.GetString("general.architecture"));
  ZEROTH_RETURN_IF_ERROR_WITH(CheckGgufArchitecture(architecture), model.description());
  ZEROTH_ASSIGN_OR_RETURN(const std::string naming, GgufNamingOf(metadata));
  ZEROTH_ASSIGN_OR_RETURN(const GgufDivision division, GgufDivisionOf(metadata));
  ZEROTH_ASSIGN_OR_RETURN(const int64_t parts, metadata.GetIntOr("split.count", 1));
  if (parts > 1) {
    return Unimplemented(
        model.description(), ": one of ", parts,
        " parts of a model, expected the whole; llama-gguf-split --merge joins them");
  }
  ZEROTH_ASSIGN_OR_RETURN(const GgufBlockCounts counts, GgufBlockCountsOf(metadata));
  ImportPlan plan;
  plan.tied = model.Find(kHead) == nullptr;
  if (architecture == "gpt2" && !plan.tied) {
    ZEROTH_ASSIGN_OR_RETURN(plan.tied, SameTensor(model, kHead, kEmbedding));
  }
  for (const std::string& name : model.names()) {
    if (plan.tied && name == kHead) continue;
    const int64_t block = GgufBlockNumber(name);
    if (block >= counts.with_mtp) {
      return InvalidArgument(model.description(), ": tensor \"", name, "\" is of block ", block,
                             ", expected one of the ", counts.with_mtp, " that \"", architecture,
                             ".block_count\" says, from 0");
    }
    if (block >= counts.blocks) {
      ++plan.mtp_tensors;
      continue;
    }
    const Shape& shape = model.Find(name)->shape;
    int64_t pieces = 1;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      ZEROTH_ASSIGN_OR_RETURN(std::optional<TensorCopy> copy,
                              GgufCopyOf(model, name, HfNameOf(naming, name, piece), division,
                                         /*to_gguf=*/false, /*dtype=*/std::nullopt));
      if (!copy.has_value()) break;
      // The file's shape, not its metadata, bounds the number of pieces.
      if (copy->stacking == Stacking::kOutOf && shape.rank() > 0 && shape.numel() > 0) {
        pieces = std::min(copy->places, shape.dim(0));
      }
      plan.copies.push_back(*std::move(copy));
    }
  }
  // One expert after the other, since the writer buffers experts that are incomplete.
  if (naming == "gpt-oss") {
    std::sort(plan.copies.begin(), plan.copies.end(),
              [](const TensorCopy& a, const TensorCopy& b) { return a.to < b.to; });
  }
  return plan;
}

absl::StatusOr<std::optional<RopeSpec>> ReadRopeFactors(const GgufFile& model) {
  const SafetensorsEntry* const entry = model.Find(kGgufRopeFactors);
  if (entry == nullptr) return std::nullopt;
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> factors,
                          model.ReadAll(kGgufRopeFactors, entry->shape));
  ZEROTH_ASSIGN_OR_RETURN(const double theta,
                          model.metadata().GetDoubleOr("llama.rope.freq_base", 10000.0));
  auto rope = RecoverLlama3Rope(factors, theta);
  ZEROTH_RETURN_IF_ERROR_WITH(
      rope.status(), absl::StrCat(model.description(), ": tensor \"", kGgufRopeFactors, "\""));
  return *rope;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> GgufTokenizerFiles(const GgufMetadata& metadata,
                                                                      GgufImportNotes* notes) {
  std::map<std::string, std::string> none;
  const auto vocabulary = VocabularyOf(metadata);
  if (vocabulary.ok() && !vocabulary->has_value()) return none;
  auto files = vocabulary.ok() ? HfTokenizerFiles(**vocabulary) : vocabulary.status();
  if (absl::IsUnimplemented(files.status())) {
    notes->push_back(std::string(files.status().message()));
    return none;
  }
  if (!files.ok() && vocabulary.ok()) return Annotate(files.status(), metadata.where());
  return files;
}

absl::Status CheckGgufVocabulary(const HfDirectory& model) {
  absl::StatusOr<GgufMetadata> metadata = GgufMetadataOf(model.config());
  if (!metadata.ok()) return absl::OkStatus();
  const auto vocabulary = ReadHfVocabulary(model.tokenizer_path());
  if (!vocabulary.ok() || !vocabulary->has_value()) return absl::OkStatus();
  return AddVocabulary(model, GgufVocabularySource::kFiles, &*metadata);
}

absl::Status ConvertHfToGguf(const HfDirectory& model, const std::string& path,
                             const GgufExportOptions& options, std::vector<std::string>* notes) {
  ZEROTH_ASSIGN_OR_RETURN(GgufMetadata metadata, GgufMetadataOf(model.config()));
  if (!options.name.empty()) metadata.SetString("general.name", options.name);
  ZEROTH_RETURN_IF_ERROR(AddVocabulary(model, options.vocabulary, &metadata));
  // Tensors to quantise are declared as fp16. Those that cannot be quantised stay fp16.
  ZEROTH_ASSIGN_OR_RETURN(
      const std::vector<TensorCopy> copies,
      PlanExport(model.weights(), metadata, options.mix ? DType::kFloat16 : options.dtype));
  if (notes != nullptr) {
    NoteMtp(std::ranges::count_if(model.weights().names(), IsMtpTensor), notes);
  }
  // transformers' defaults differ between the families.
  const bool tied_by_default = metadata.Has("gpt2.block_count") ||
                               metadata.Has("gemma2.block_count") ||
                               metadata.Has("gemma3.block_count");
  ZEROTH_ASSIGN_OR_RETURN(const bool tied,
                          model.config().GetBoolOr("tie_word_embeddings", tied_by_default));
  ZEROTH_RETURN_IF_ERROR(
      CheckComplete(metadata, tied, copies, /*to_gguf=*/true, model.weights().description()));
  ZEROTH_ASSIGN_OR_RETURN(std::vector<TensorDeclaration> tensors,
                          DeclareCopies(model.weights(), copies));
  GgufMixedTypes mixed;
  if (options.mix) {
    ZEROTH_ASSIGN_OR_RETURN(mixed, ChooseGgufBlocks(*options.mix, metadata, tensors));
    if (notes != nullptr) notes->insert(notes->end(), mixed.notes.begin(), mixed.notes.end());
    metadata.SetUint32("general.quantization_version", kQuantizationVersion);
  }
  metadata.SetUint32("general.file_type",
                     options.mix ? FileType(*options.mix) : FileType(CommonDType(tensors)));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> factors, RopeFactors(model.config(), metadata));
  if (!factors.empty()) {
    tensors.push_back(
        {.name = kGgufRopeFactors, .shape = Shape({static_cast<int64_t>(factors.size())})});
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<TensorFileWriter> writer,
                          GgufWriter::Create(path, metadata, tensors, mixed.blocks));
  ZEROTH_RETURN_IF_ERROR(
      CopyTensors(model.weights(), copies,
                  [&](absl::string_view name, int64_t begin, absl::Span<const float> values) {
                    const auto block = mixed.blocks.find(name);
                    if (block == mixed.blocks.end()) return writer->Write(name, begin, values);
                    // Pieces are whole rows, or begin at multiples of a block in the tensor.
                    return WriteQuantized(block->second, name, begin, values, writer.get());
                  }));
  if (!factors.empty()) ZEROTH_RETURN_IF_ERROR(writer->Write(kGgufRopeFactors, 0, factors));
  return writer->Finish();
}

absl::StatusOr<std::vector<TensorCopy>> GgufToHfCopies(const GgufFile& model) {
  ZEROTH_ASSIGN_OR_RETURN(ImportPlan plan, PlanImport(model));
  return std::move(plan.copies);
}

absl::StatusOr<GgufImport> PlanGgufImport(const GgufFile& model) {
  ZEROTH_ASSIGN_OR_RETURN(ImportPlan plan, PlanImport(model));
  ZEROTH_RETURN_IF_ERROR(CheckComplete(model.metadata(), plan.tied, plan.copies,
                                       /*to_gguf=*/false, model.description()));
  ZEROTH_ASSIGN_OR_RETURN(std::vector<TensorDeclaration> tensors,
                          DeclareCopies(model, plan.copies));
  HfConfigFacts facts;
  ZEROTH_ASSIGN_OR_RETURN(const Shape embedding, model.ShapeOf(kEmbedding));
  facts.vocab_size = embedding.rank() > 0 ? embedding.dim(0) : 0;
  facts.tie_word_embeddings = plan.tied;
  facts.attention_bias = model.Find("blk.0.attn_q.bias") != nullptr;
  facts.mlp_bias = model.Find("blk.0.ffn_up.bias") != nullptr;
  facts.torch_dtype = TorchDTypeName(CommonDType(tensors));
  ZEROTH_ASSIGN_OR_RETURN(facts.rope, ReadRopeFactors(model));
  ZEROTH_ASSIGN_OR_RETURN(HfConfig config, HfConfigOf(model.metadata(), facts));
  return GgufImport{std::move(config), std::move(plan.copies), std::move(tensors),
                    plan.mtp_tensors};
}

absl::StatusOr<GgufImportNotes> ConvertGgufToHf(const GgufFile& model, const std::string& directory,
                                                const HfConvertOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(GgufImport import, PlanGgufImport(model));
  GgufImportNotes problems;
  ZEROTH_ASSIGN_OR_RETURN(const auto files, GgufTokenizerFiles(model.metadata(), &problems));
  ZEROTH_RETURN_IF_ERROR(
      WriteHfDirectory(model, import.config, std::move(import.copies), files, directory, options));
  GgufImportNotes notes;
  for (const std::string& problem : problems) {
    notes.push_back(absl::StrCat("No tokenizer: ", problem, "."));
  }
  NoteMtp(import.mtp_tensors, &notes);
  return notes;
}

}  // namespace zeroth
