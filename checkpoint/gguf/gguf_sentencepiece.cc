// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "zeroth/checkpoint/gguf/gguf_vocabulary.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/formats/hf_added_tokens.h"
#include "zeroth/formats/json_fields.h"

namespace zeroth {
namespace {

using Json = nlohmann::json;

// llama.cpp's "llama" merges pieces as SentencePiece's BPE does. How text is normalised before is
// fixed, except for the space in front of it.
absl::Status CheckModel(const SentencePieceModel& model) {
  if (model.model_type != SentencePieceModel::kBpe) {
    const char* const names[] = {"unigram", "BPE", "word", "char"};
    const bool known = model.model_type >= 1 && model.model_type <= 4;
    return Unimplemented("a SentencePiece model of the type ",
                         known ? names[model.model_type - 1] : "unknown",
                         ", expected BPE, the type whose pieces llama.cpp's tokenizer \"llama\" "
                         "merges");
  }
  const char* reason = nullptr;
  if (model.has_charsmap) reason = "replaces characters (normalizer_spec.precompiled_charsmap)";
  if (model.remove_extra_whitespaces) reason = "removes spaces (remove_extra_whitespaces)";
  if (!model.escape_whitespaces) reason = "does not mark spaces (escape_whitespaces)";
  if (model.treat_whitespace_as_suffix) reason = "marks spaces behind words";
  if (reason == nullptr) return absl::OkStatus();
  return Unimplemented("a SentencePiece model that ", reason, ", which llama.cpp does not");
}

// Whether the rules of a tokenizer.json put a space before a text. Unimplemented unless they do
// nothing else than this and spell spaces as kMetaspace.
absl::StatusOr<bool> AddsSpace(const HfTokenizer& files) {
  bool adds = false;
  bool marks = false;
  ZEROTH_RETURN_IF_ERROR(ForEachPart(
      files.normalizer, "normalizer", "normalizers",
      [&](const std::string& type, const Json& part) -> absl::Status {
        if (type == "Prepend" && FieldOf(part, "prepend") == kMetaspace) {
          adds = true;
          return absl::OkStatus();
        }
        if (type == "Replace" && FieldOf(FieldOf(part, "pattern"), "String") == " " &&
            FieldOf(part, "content") == kMetaspace) {
          marks = true;
          return absl::OkStatus();
        }
        return Unimplemented("its normalizer has ", Shorten(part.dump(-1, ' ', true)),
                             ", which llama.cpp does not do; expected Prepend and Replace");
      }));
  ZEROTH_RETURN_IF_ERROR(ForEachPart(
      files.pre_tokenizer, "pre_tokenizer", "pretokenizers",
      [&](const std::string& type, const Json& part) -> absl::Status {
        // Gemma's, which finds no space after its normalizer.
        if (type == "Split" && marks && FieldOf(FieldOf(part, "pattern"), "String") == " ") {
          return absl::OkStatus();
        }
        if (type == "Metaspace" && FieldOf(part, "replacement") == kMetaspace &&
            FieldOf(part, "split") == false) {
          marks = true;
          const Json& scheme = FieldOf(part, "prepend_scheme");
          const Json& old = FieldOf(part, "add_prefix_space");
          if (scheme.is_null() ? old != false : scheme != "never") adds = true;
          return absl::OkStatus();
        }
        return Unimplemented("its pre_tokenizer has ", Shorten(part.dump(-1, ' ', true)),
                             ", which llama.cpp does not do; expected none, or Metaspace with "
                             "\"split\": false");
      }));
  if (marks) return adds;
  return Unimplemented("neither its normalizer nor its pre_tokenizer spells a space as \"",
                       kMetaspace, "\", as SentencePiece does");
}

// Gives each piece the score that orders merges in llama.cpp as the list of merges does.
// Unimplemented where no scores do: llama.cpp merges any two tokens whose text together is a token.
absl::Status SetScores(const BpeParts& bpe, GgufVocabulary* vocabulary) {
  const size_t count = vocabulary->tokens.size();
  absl::flat_hash_map<absl::string_view, size_t> normal;
  for (size_t id = 0; id < count; ++id) {
    if (vocabulary->types[id] == GgufTokenType::kNormal) normal.emplace(vocabulary->tokens[id], id);
  }
  const float lowest = -static_cast<float>(bpe.merges.size());
  vocabulary->scores.assign(count, 0.0f);
  for (const auto& [token, id] : normal) vocabulary->scores[id] = lowest;
  std::vector<size_t> merges(count, 0);
  size_t last = count;
  for (size_t rank = 0; rank < bpe.merges.size(); ++rank) {
    const auto& [left, right] = bpe.merges[rank];
    if (!normal.contains(left) || !normal.contains(right)) continue;
    const auto made = normal.find(absl::StrCat(left, right));
    if (made == normal.end()) continue;
    const size_t id = made->second;
    if (merges[id]++ == 0) {
      vocabulary->scores[id] = -static_cast<float>(rank);
    } else if (id != last) {
      return Unimplemented("its merges into ", Excerpt(vocabulary->tokens[id]),
                           " have others between them, which no score of that token expresses");
    }
    last = id;
  }
  for (const auto& [token, id] : normal) {
    size_t ways = 0;
    for (size_t cut = DecodeUtf8(token).length; cut < token.size();
         cut += DecodeUtf8(token.substr(cut)).length) {
      if (normal.contains(token.substr(0, cut)) && normal.contains(token.substr(cut))) ++ways;
    }
    if (ways == merges[id]) continue;
    return Unimplemented("the token ", Excerpt(token), " can be made of two tokens in ", ways,
                         " ways, of which ", merges[id],
                         " are merges; llama.cpp merges all of them, as SentencePiece does");
  }
  return absl::OkStatus();
}

// Finishes a vocabulary whose tokens, types and scores are set.
absl::Status Finish(GgufVocabulary* vocabulary) {
  size_t bytes = 0;
  for (size_t id = 0; id < vocabulary->tokens.size(); ++id) {
    const GgufTokenType type = vocabulary->types[id];
    if (type == GgufTokenType::kByte) ++bytes;
    // llama.cpp looks for these before it spells spaces as SentencePiece does.
    if (type == GgufTokenType::kUserDefined) {
      vocabulary->tokens[id] = absl::StrReplaceAll(vocabulary->tokens[id], {{kMetaspace, " "}});
    }
  }
  if (bytes == 256) return absl::OkStatus();
  return Unimplemented("a SentencePiece vocabulary with ", bytes,
                       " of the 256 byte tokens, in which llama.cpp spells other characters");
}

bool IsByteToken(absl::string_view token) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F'); };
  return token.size() == 6 && token.substr(0, 3) == "<0x" && is_digit(token[3]) &&
         is_digit(token[4]) && token[5] == '>';
}

}  // namespace

absl::StatusOr<GgufVocabulary> SentencePieceVocabulary(const HfTokenizer& files) {
  GgufVocabulary result;
  ZEROTH_ASSIGN_OR_RETURN(result.add_space_prefix, AddsSpace(files));
  if (files.bpe.ignore_merges) {
    return Unimplemented("\"ignore_merges\" with byte fallback, which llama.cpp does not know");
  }
  ZEROTH_RETURN_IF_ERROR(SetTokens(files, &result));
  for (size_t id = 0; id < result.tokens.size(); ++id) {
    if (IsByteToken(result.tokens[id])) result.types[id] = GgufTokenType::kByte;
    if (result.tokens[id] != files.bpe.unk_token) continue;
    result.types[id] = GgufTokenType::kUnknown;
    result.unknown = static_cast<int64_t>(id);
  }
  ZEROTH_RETURN_IF_ERROR(SetScores(files.bpe, &result));
  ZEROTH_ASSIGN_OR_RETURN(result.bos, files.Named("bos_token"));
  ZEROTH_ASSIGN_OR_RETURN(result.eos, files.Named("eos_token"));
  ZEROTH_ASSIGN_OR_RETURN(result.padding, files.Named("pad_token"));
  result.prefix.assign(files.prefix.begin(), files.prefix.end());
  result.suffix.assign(files.suffix.begin(), files.suffix.end());
  ZEROTH_RETURN_IF_ERROR(Finish(&result));
  return result;
}

absl::StatusOr<GgufVocabulary> SentencePieceVocabulary(const SentencePieceModel& model,
                                                       Json config) {
  ZEROTH_RETURN_IF_ERROR(CheckModel(model));
  HfTokenizer files;
  files.config = std::move(config);
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    files.bpe.vocab.emplace_back(model.pieces[id].text, static_cast<int32_t>(id));
  }
  ZEROTH_RETURN_IF_ERROR(AddTokensOfConfig(&files, /*keeps_ids=*/true));
  // A token of the config may have the id of a piece that was reserved for it.
  for (const AddedToken& token : files.added_tokens) {
    const auto id = static_cast<size_t>(token.id);
    if (id < files.bpe.vocab.size()) files.bpe.vocab[id].first = token.content;
  }
  GgufVocabulary result;
  ZEROTH_RETURN_IF_ERROR(SetTokens(files, &result));
  result.scores.assign(result.tokens.size(), 0.0f);
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const auto type = static_cast<GgufTokenType>(model.pieces[id].type);
    result.scores[id] = model.pieces[id].score;
    // The config knows which tokens transformers takes as added ones.
    // A control token is special whatever the config says, as in the tokenizer of OpenTokenizer.
    const bool is_added = result.types[id] != GgufTokenType::kNormal;
    if (!is_added || type == GgufTokenType::kControl || type == GgufTokenType::kUnknown ||
        type == GgufTokenType::kByte) {
      result.types[id] = type;
    }
    if (type == GgufTokenType::kUnknown) result.unknown = static_cast<int64_t>(id);
  }
  result.add_space_prefix = model.add_dummy_prefix;
  for (const auto& [id, piece, name] :
       {std::tuple(&result.bos, &model.bos_piece, "bos_token"),
        std::tuple(&result.eos, &model.eos_piece, "eos_token"),
        std::tuple(&result.padding, &model.pad_piece, "pad_token")}) {
    ZEROTH_ASSIGN_OR_RETURN(*id, files.Named(name));
    if (const int64_t found = model.FindControl(*piece); !id->has_value() && found >= 0) {
      *id = found;
    }
  }
  // As in the tokenizer that OpenTokenizer makes of such a file.
  ZEROTH_ASSIGN_OR_RETURN(const bool begins, BoolField(files.config, "add_bos_token", true));
  ZEROTH_ASSIGN_OR_RETURN(const bool ends, BoolField(files.config, "add_eos_token", false));
  if (begins && result.bos.has_value()) result.prefix = {*result.bos};
  if (ends && result.eos.has_value()) result.suffix = {*result.eos};
  ZEROTH_RETURN_IF_ERROR(Finish(&result));
  return result;
}

absl::StatusOr<std::map<std::string, std::string>> SentencePieceFiles(
    const GgufVocabulary& vocabulary) {
  if (!vocabulary.unknown || !vocabulary.eos) {
    return Unimplemented(
        "a tokenizer.model needs a token for unknown text and one that ends a "
        "text, and this file names none");
  }
  SentencePieceModel model;
  model.model_type = SentencePieceModel::kBpe;
  model.add_dummy_prefix = vocabulary.add_space_prefix;
  model.remove_extra_whitespaces = false;
  size_t count = vocabulary.tokens.size();
  while (count > 0 && vocabulary.types[count - 1] == GgufTokenType::kUnused) --count;
  absl::flat_hash_map<std::string, size_t> known;
  GgufVocabulary spelled = vocabulary;
  for (size_t id = 0; id < count; ++id) {
    SentencePiece piece;
    piece.score = vocabulary.scores[id];
    const GgufTokenType type = vocabulary.types[id];
    if (type == GgufTokenType::kUserDefined) {
      spelled.tokens[id] = absl::StrReplaceAll(vocabulary.tokens[id], {{" ", kMetaspace}});
    }
    piece.text = spelled.tokens[id];
    const auto [place, inserted] = known.emplace(piece.text, id);
    if (!inserted || piece.text.empty()) {
      return InvalidArgument("tokens ", place->second, " and ", id, " are both ",
                             Excerpt(piece.text), ", expected a spelling for each");
    }
    const auto number = static_cast<int64_t>(id);
    // Older files of llama.cpp call the unknown token a control token.
    if (number == vocabulary.unknown) {
      piece.type = SentencePieceType::kUnknown;
    } else if (number == vocabulary.bos || number == vocabulary.eos ||
               number == vocabulary.padding || type == GgufTokenType::kUnknown) {
      piece.type = SentencePieceType::kControl;
    } else {
      piece.type = static_cast<SentencePieceType>(type);
    }
    spelled.types[id] = static_cast<GgufTokenType>(piece.type);
    model.byte_fallback = model.byte_fallback || type == GgufTokenType::kByte;
    model.pieces.push_back(std::move(piece));
  }
  spelled.tokens.resize(count);
  spelled.types.resize(count);
  const auto name = [&](const std::optional<int64_t>& id, std::string* piece) {
    piece->clear();
    if (id && *id < static_cast<int64_t>(count)) *piece = spelled.tokens[static_cast<size_t>(*id)];
  };
  name(vocabulary.bos, &model.bos_piece);
  name(vocabulary.eos, &model.eos_piece);
  name(vocabulary.padding, &model.pad_piece);
  Json config = TokenizerConfigOf(spelled, "LlamaTokenizer");
  config["add_bos_token"] = !vocabulary.prefix.empty();
  config["add_eos_token"] = !vocabulary.suffix.empty();
  config["add_prefix_space"] = vocabulary.add_space_prefix;
  // Like llama.cpp, "legacy" puts that space behind each added token as well.
  config["legacy"] = true;
  return std::map<std::string, std::string>{{"tokenizer.model", SerializeSentencePieceModel(model)},
                                            {"tokenizer_config.json", DumpJson(config, 2)}};
}

}  // namespace zeroth
