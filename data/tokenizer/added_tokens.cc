// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>

#include "absl/strings/ascii.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"

namespace zeroth {
namespace {

// \w of Rust's regular expressions: alphabetic characters, marks, decimal digits, connectors and
// joiners.
bool IsWordCharacter(uint32_t code_point) {
  if (code_point == DecodedChar::kInvalid) return false;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      // Circled and squared letters are alphabetic, too.
      return code_point == 0x200C || code_point == 0x200D ||
             (code_point >= 0x24B6 && code_point <= 0x24E9) ||
             (code_point >= 0x1F130 && code_point <= 0x1F149) ||
             (code_point >= 0x1F150 && code_point <= 0x1F169) ||
             (code_point >= 0x1F170 && code_point <= 0x1F189);
  }
}

bool IsSpace(uint32_t code_point) {
  if (code_point < 0x80) return absl::ascii_isspace(static_cast<unsigned char>(code_point));
  if (code_point == DecodedChar::kInvalid) return false;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return code_point == 0x85 || category == UTF8PROC_CATEGORY_ZS ||
         category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

size_t LastCharBegin(absl::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

uint32_t LastChar(absl::string_view text) {
  return DecodeUtf8(text.substr(LastCharBegin(text))).code_point;
}

bool TouchesWord(absl::string_view before, absl::string_view after) {
  return (!before.empty() && IsWordCharacter(LastChar(before))) ||
         (!after.empty() && IsWordCharacter(DecodeUtf8(after).code_point));
}

}  // namespace

void AddedTokenFinder::Add(const AddedToken& token, absl::string_view spelling,
                           bool parse_special) {
  if (spelling.empty()) return;
  uint32_t node = 0;
  for (const char c : spelling) {
    const uint64_t key = uint64_t{node} << 8 | static_cast<uint8_t>(c);
    const auto next = static_cast<uint32_t>(entry_of_node_.size());
    const auto [child, is_new] = children_.emplace(key, next);
    if (is_new) entry_of_node_.push_back(-1);
    node = child->second;
  }
  begins_[static_cast<uint8_t>(spelling[0])] = true;
  const auto index = static_cast<int32_t>(tokens_.size());
  const bool is_text = token.special && !parse_special;
  if (entry_of_node_[node] < 0) entry_of_node_[node] = index;
  tokens_.push_back({token, is_text});
  finds_any_ = finds_any_ || !is_text;
  const bool reads_on = !is_text && (token.rstrip || token.single_word);
  cuts_at_spaces_ =
      cuts_at_spaces_ && !reads_on && spelling.find(' ', 1) == absl::string_view::npos;
}

const AddedTokenFinder::Entry* AddedTokenFinder::LongestAt(absl::string_view text,
                                                           size_t* length) const {
  const Entry* longest = nullptr;
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto child = children_.find(uint64_t{node} << 8 | static_cast<uint8_t>(text[i]));
    if (child == children_.end()) break;
    node = child->second;
    if (entry_of_node_[node] < 0) continue;
    longest = &tokens_[static_cast<size_t>(entry_of_node_[node])];
    *length = i + 1;
  }
  return longest;
}

absl::Status AddedTokenFinder::Split(absl::string_view text, Sink sink) const {
  size_t done = 0;
  for (size_t place = 0; place < text.size() && !tokens_.empty();) {
    size_t length = 0;
    const Entry* const entry = begins_[static_cast<uint8_t>(text[place])]
                                   ? LongestAt(text.substr(place), &length)
                                   : nullptr;
    if (entry == nullptr) {
      ++place;
      continue;
    }
    size_t begin = place;
    size_t end = place + length;
    place = end;
    const AddedToken& token = entry->token;
    if (entry->is_text) continue;
    if (token.single_word && TouchesWord(text.substr(0, begin), text.substr(end))) continue;
    if (token.lstrip) {
      while (begin > done && IsSpace(LastChar(text.substr(0, begin))))
        begin = LastCharBegin(text.substr(0, begin));
      begin = std::max(begin, done);
    }
    while (token.rstrip && end < text.size() && IsSpace(DecodeUtf8(text.substr(end)).code_point))
      end += DecodeUtf8(text.substr(end)).length;
    if (begin > done) ZEROTH_RETURN_IF_ERROR(sink(text.substr(done, begin - done), nullptr));
    ZEROTH_RETURN_IF_ERROR(sink(text.substr(begin, end - begin), &token));
    done = end;
  }
  return done < text.size() ? sink(text.substr(done), nullptr) : absl::OkStatus();
}

}  // namespace zeroth
