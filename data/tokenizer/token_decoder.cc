// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer/token_decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/formats/json_fields.h"

namespace zeroth {
namespace {

// The byte of "<0x0A>".
std::optional<char> ByteOf(absl::string_view token) {
  uint32_t byte = 0;
  const bool fits = token.size() == 6 && absl::StartsWith(token, "<0x") && token[5] == '>' &&
                    absl::ascii_isxdigit(static_cast<unsigned char>(token[3])) &&
                    absl::ascii_isxdigit(static_cast<unsigned char>(token[4])) &&
                    absl::SimpleHexAtoi(token.substr(3, 2), &byte);
  return fits ? std::optional<char>(static_cast<char>(byte)) : std::nullopt;
}

absl::Status FuseBytes(bool replace_invalid, std::vector<std::string>& tokens) {
  std::vector<std::string> out;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    if (replace_invalid && ValidUtf8Length(bytes) < bytes.size()) {
      out.insert(out.end(), bytes.size(), "\uFFFD");
    } else {
      out.push_back(bytes);
    }
    bytes.clear();
  };
  for (const std::string& token : tokens) {
    if (const std::optional<char> byte = ByteOf(token)) {
      bytes.push_back(*byte);
    } else {
      flush();
      out.push_back(token);
    }
  }
  flush();
  tokens = std::move(out);
  return absl::OkStatus();
}

absl::Status DecodeAlphabet(bool replace_invalid, std::vector<std::string>& tokens) {
  std::string bytes;
  // A token with a character outside the alphabet is one that was added, and is text.
  for (const std::string& token : tokens) bytes += AlphabetToBytes(token).value_or(token);
  if (replace_invalid) bytes = ReplaceInvalidUtf8(bytes);
  tokens = {std::move(bytes)};
  return absl::OkStatus();
}

void Strip(const std::string& what, int64_t start, int64_t stop, std::string* token) {
  absl::string_view rest = *token;
  for (; start > 0 && absl::StartsWith(rest, what); --start) rest.remove_prefix(what.size());
  for (; stop > 0 && absl::EndsWith(rest, what); --stop) rest.remove_suffix(what.size());
  *token = std::string(rest);
}

}  // namespace

absl::StatusOr<TokenDecoder> TokenDecoder::FromJson(const nlohmann::json& json) {
  TokenDecoder decoder;
  ZEROTH_RETURN_IF_ERROR(
      ForEachPart(json, "decoder", "decoders", std::bind_front(&TokenDecoder::Add, &decoder)));
  return decoder;
}

absl::Status TokenDecoder::Add(const std::string& type, const nlohmann::json& json) {
  if (type == "ByteLevel") {
    steps_.push_back(&DecodeAlphabet);
  } else if (type == "ByteFallback") {
    steps_.push_back(&FuseBytes);
  } else if (type == "Fuse") {
    steps_.push_back([](bool, std::vector<std::string>& tokens) {
      tokens = {absl::StrJoin(tokens, "")};
      return absl::OkStatus();
    });
  } else if (type == "Replace") {
    ZEROTH_ASSIGN_OR_RETURN(Replacement replacement, Replacement::FromJson(json));
    steps_.push_back([replacement = std::move(replacement)](
                         bool, std::vector<std::string>& tokens) -> absl::Status {
      Regex::Scratch scratch;
      for (std::string& token : tokens) {
        ZEROTH_RETURN_IF_ERROR(replacement.Apply(&token, scratch));
      }
      return absl::OkStatus();
    });
  } else if (type == "Strip") {
    ZEROTH_ASSIGN_OR_RETURN(const std::string what, StringField(json, "content"));
    ZEROTH_ASSIGN_OR_RETURN(const int64_t start, IntField(json, "start"));
    ZEROTH_ASSIGN_OR_RETURN(const int64_t stop, IntField(json, "stop"));
    if (what.empty()) return absl::InvalidArgumentError("\"content\" of Strip is empty");
    steps_.push_back([what, start, stop](bool, std::vector<std::string>& tokens) {
      for (std::string& token : tokens) Strip(what, start, stop, &token);
      return absl::OkStatus();
    });
  } else if (type == "Metaspace") {
    ZEROTH_ASSIGN_OR_RETURN(const std::string space, StringField(json, "replacement"));
    if (space.empty()) return absl::InvalidArgumentError("\"replacement\" is empty");
    ZEROTH_ASSIGN_OR_RETURN(bool drops_first, BoolField(json, "add_prefix_space", true));
    if (!FieldOf(json, "prepend_scheme").is_null()) {
      ZEROTH_ASSIGN_OR_RETURN(const std::string scheme, StringField(json, "prepend_scheme"));
      drops_first = scheme != "never";
    }
    steps_.push_back([space, drops_first](bool, std::vector<std::string>& tokens) {
      for (size_t i = 0; i < tokens.size(); ++i) {
        const bool dropped = i == 0 && drops_first;
        tokens[i] = absl::StrReplaceAll(tokens[i], {{space, dropped ? "" : " "}});
      }
      return absl::OkStatus();
    });
  } else {
    return UnknownKind("decoder", type,
                       "ByteLevel, ByteFallback, Metaspace, Replace, Fuse, Strip, Sequence");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenDecoder::Decode(std::vector<std::string> tokens,
                                                 bool replace_invalid) const {
  for (const Step& step : steps_) ZEROTH_RETURN_IF_ERROR(step(replace_invalid, tokens));
  return absl::StrJoin(tokens, steps_.empty() ? " " : "");
}

}  // namespace zeroth
