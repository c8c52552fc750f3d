// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/open_data.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/excerpt.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/chat/conversations.h"
#include "zeroth/data/chat/examples.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/documents.h"
#include "zeroth/data/records.h"
#include "zeroth/data/sequential_file.h"
#include "zeroth/data/token_cache.h"
#include "zeroth/data/token_file.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {
namespace {

constexpr int64_t kTokensAtOnce = int64_t{1} << 16;

// Returns the first place at or after `from` where a document begins; otherwise the last such place
// before `from`, except the source's first token; otherwise `from`.
absl::StatusOr<int64_t> DocumentAt(const TokenSource& source, int64_t from, int32_t end_of_text) {
  std::vector<int32_t> room;
  // A document that begins at i follows the end-of-text token i - 1. No document begins at the end.
  for (int64_t begin = from - 1; begin < source.size() - 1;) {
    room.resize(static_cast<size_t>(std::min(kTokensAtOnce, source.size() - 1 - begin)));
    ZEROTH_RETURN_IF_ERROR(source.Read(begin, absl::MakeSpan(room)));
    const auto found = std::find(room.begin(), room.end(), end_of_text);
    if (found != room.end()) return begin + (found - room.begin()) + 1;
    begin += static_cast<int64_t>(room.size());
  }
  for (int64_t end = from - 1; end > 0;) {
    room.resize(static_cast<size_t>(std::min(kTokensAtOnce, end)));
    ZEROTH_RETURN_IF_ERROR(
        source.Read(end - static_cast<int64_t>(room.size()), absl::MakeSpan(room)));
    const auto found = std::find(room.rbegin(), room.rend(), end_of_text);
    if (found != room.rend()) return end - (found - room.rbegin());
    end -= static_cast<int64_t>(room.size());
  }
  return from;
}

TokenCacheOptions CacheFor(const DataOptions& options, const std::string& kind) {
  const Tokenizer& tokenizer = *options.tokenizer;
  return {options.cache_dir,
          absl::StrCat(kind, "\n", tokenizer.name(), " ", tokenizer.end_of_text(), " ",
                       options.tokenizer_identity),
          tokenizer.vocab_size()};
}

absl::StatusOr<std::shared_ptr<const TokenSource>> OpenDocuments(const std::vector<DataFile>& files,
                                                                 const ColumnNames& columns,
                                                                 const DataOptions& options) {
  const bool is_plain = std::all_of(files.begin(), files.end(), [](const DataFile& file) {
    return file.kind == DataFileKind::kText;
  });
  const bool is_compressed = std::any_of(files.begin(), files.end(), [](const DataFile& file) {
    return file.compression != Compression::kNone;
  });
  if (is_plain && !options.columns.empty()) {
    return InvalidArgument(files[0].path,
                           " is text without records, so --data_columns=", options.columns,
                           " has no columns to read");
  }
  // Each byte is its id: nothing need be stored.
  if (is_plain && !is_compressed &&
      dynamic_cast<const ByteTokenizer*>(options.tokenizer) != nullptr) {
    return OpenByteText(files);
  }
  return CachedTokens(
      files,
      CacheFor(options, absl::StrCat("text", options.columns.empty() ? "" : " ", options.columns)),
      [&] { return EncodeText(files, *options.tokenizer, columns); });
}

absl::StatusOr<std::shared_ptr<const TokenSource>> OpenExamples(
    const std::vector<DataFile>& files, const std::vector<RecordKind>& kinds,
    const ColumnNames& columns, const DataOptions& options) {
  std::optional<ChatTemplate> chat;
  if (std::any_of(kinds.begin(), kinds.end(), UsesTemplate)) {
    absl::StatusOr<ChatTemplate> opened = OpenChatTemplate(
        options.chat_template, options.tokenizer_path, *options.tokenizer, options.tokenizer_owner);
    const bool can_do_without = std::none_of(kinds.begin(), kinds.end(), NeedsTemplate);
    if (opened.ok()) {
      chat = *std::move(opened);
    } else if (!can_do_without || options.chat_template != "auto" ||
               !absl::IsNotFound(opened.status())) {
      return opened.status();
    }
  }
  const std::string recipe =
      absl::StrCat("conversations ", chat.has_value() ? chat->Identity() : "none", " ",
                   options.seq_len, options.loss_on_all, static_cast<int>(options.on_long),
                   options.judgements ? " judgements "
                   : options.scores   ? " scored pairs "
                   : options.pairs    ? " pairs "
                                      : "",
                   options.columns);
  return CachedTokens(files, CacheFor(options, recipe), [&] {
    return EncodeConversations(files, chat.has_value() ? &*chat : nullptr, *options.tokenizer,
                               {options.seq_len, options.loss_on_all, columns, options.on_long,
                                options.pairs, options.judgements, options.scores});
  });
}

// The kinds of the records that the files hold, each once, in order; empty for plain text.
std::string NamesOfKinds(const std::vector<DataFile>& files, const std::vector<RecordKind>& kinds) {
  std::vector<absl::string_view> names;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!IsRecords(files[i].kind)) continue;
    const absl::string_view name = NameOf(kinds[i]);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return absl::StrJoin(names, ", ");
}

absl::StatusOr<std::shared_ptr<const TokenSource>> OpenText(const std::vector<DataFile>& all,
                                                            const DataOptions& options) {
  if (options.tokenizer == nullptr) {
    return InvalidArgument(all[0].path,
                           " is text, and no tokenizer is given; give one by --tokenizer");
  }
  const Tokenizer& tokenizer = *options.tokenizer;
  if (const int32_t last = tokenizer.text_vocab_size() - 1; last >= options.vocab_size) {
    return InvalidArgument(
        "the ", tokenizer.name(), " tokenizer makes ids up to ", last, ", ",
        Excerpt(tokenizer.Decode({last}).value_or("")), ", but the model's vocabulary has only ",
        options.vocab_size,
        "; use the tokenizer of this model, name tokens that it lacks by --new_tokens, leave "
        "--parse_special out, or take them out of the files beside a tokenizer.model");
  }
  ZEROTH_ASSIGN_OR_RETURN(const ColumnNames columns, ColumnNames::Parse(options.columns));
  std::vector<DataFile> files;
  std::vector<RecordKind> kinds;
  for (const DataFile& file : all) {
    ZEROTH_ASSIGN_OR_RETURN(const std::optional<RecordKind> kind,
                            KindOfFirstRecord(file, columns, options.pairs));
    // An empty part of an export adds nothing.
    if (!kind.has_value()) continue;
    files.push_back(file);
    kinds.push_back(*kind);
    const bool is_text = kinds.back() == RecordKind::kText;
    if (is_text == (kinds[0] == RecordKind::kText)) continue;
    return InvalidArgument(
        "text and other records cannot be mixed: ", is_text ? files[0].path : file.path, " holds ",
        NameOf(is_text ? kinds[0] : kinds.back()), " records, ",
        is_text ? file.path : files[0].path,
        " text; give each a weight, as in a.jsonl:1,b.jsonl:1, to mix their sequences");
  }
  if (files.empty()) {
    return InvalidArgument(all[0].path, ": holds no record",
                           all.size() > 1 ? ", nor do the other files" : "",
                           "; expected at least one");
  }
  if (options.pairs && kinds[0] == RecordKind::kText) {
    return ExpectedPairsError(files[0].path, "text", options.judgements);
  }
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<const TokenSource> source,
                          kinds[0] == RecordKind::kText
                              ? OpenDocuments(files, columns, options)
                              : OpenExamples(files, kinds, columns, options));
  const std::string names = NamesOfKinds(files, kinds);
  if (names.empty()) return source;
  TokenSource::Facts facts = source->facts();
  if (kinds[0] != RecordKind::kText) {
    ZEROTH_ASSIGN_OR_RETURN(const ExampleCounts counts, CountExamples(*source));
    if (counts.largest >= options.vocab_size) {
      return InvalidArgument("the chat template writes the token ", counts.largest, ", ",
                             Excerpt(tokenizer.Decode({counts.largest}).value_or("")),
                             ", but the model's vocabulary has only ", options.vocab_size,
                             "; use the tokenizer of this model, another --chat_template, or "
                             "--new_tokens with a tokenizer.json");
    }
    const double padding =
        1 - static_cast<double>(counts.tokens) / static_cast<double>(source->size());
    const std::string what =
        options.judgements
            ? absl::StrCat(" judged answers, ", counts.desirable,
                           " of them desirable, and as many mismatched ones, of ", counts.tokens,
                           " tokens")
            : absl::StrCat(options.pairs ? " pairs of " : " examples of ", counts.tokens,
                           " tokens, ", counts.learned, " of them in the loss");
    facts.notes.push_back(
        absl::StrFormat("data      %s: %d%s; packed into %d tokens, %.1f%% of them padding",
                        facts.description, counts.examples, what, source->size(), 100 * padding));
  }
  absl::StrAppend(&facts.description, " (", names, ")");
  return ViewTokens(std::move(source), 0, std::move(facts));
}

absl::StatusOr<std::shared_ptr<const TokenSource>> OpenTokens(const DataFile& file,
                                                              int32_t vocab_size) {
  if (file.kind == DataFileKind::kNpy) return OpenNpyFile(file.path, vocab_size);
  if (file.kind == DataFileKind::kMegatron) return OpenMegatronFile(file.path, vocab_size);
  return OpenLlmcFile(file.path, vocab_size);
}

absl::StatusOr<std::shared_ptr<const TokenSource>> OpenFiles(const std::vector<DataFile>& files,
                                                             const DataOptions& options) {
  if (IsText(files[0].kind)) return OpenText(files, options);
  if (options.pairs) return ExpectedPairsError(files[0].path, "tokens", options.judgements);
  if (!options.columns.empty()) {
    return InvalidArgument(files[0].path, " holds tokens, so --data_columns=", options.columns,
                           " has no columns to read");
  }
  std::vector<std::shared_ptr<const TokenSource>> sources;
  for (const DataFile& file : files) {
    ZEROTH_ASSIGN_OR_RETURN(sources.emplace_back(), OpenTokens(file, options.vocab_size));
  }
  return Concatenate(std::move(sources));
}

absl::StatusOr<std::vector<WeightedSource>> OpenSources(const std::string& spec,
                                                        const DataOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<WeightedSpec> parts, SplitWeights(spec));
  std::vector<WeightedSource> sources;
  for (const WeightedSpec& part : parts) {
    ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<const TokenSource> source,
                            OpenData(part.spec, options));
    sources.push_back({std::move(source), part.weight});
  }
  return sources;
}

}  // namespace

absl::StatusOr<SplitSource> SplitHeldOut(std::shared_ptr<const TokenSource> source, double fraction,
                                         int32_t end_of_text) {
  ZEROTH_CHECK(source != nullptr && fraction > 0 && fraction < 1);
  const int64_t row = std::max<int64_t>(source->row_length(), 1);
  const int64_t units = source->size() / row;
  if (units < 2) {
    return InvalidArgument(source->description(), ": has ", units, row > 1 ? " row" : " token",
                           ", of which no part can be held out; expected 2 at least");
  }
  const auto wanted = static_cast<int64_t>(std::llround(fraction * static_cast<double>(units)));
  int64_t begin = (units - std::clamp<int64_t>(wanted, 1, units - 1)) * row;
  // Without a tokenizer, the ends of documents are unknown.
  if (source->row_length() == 0 && end_of_text >= 0) {
    ZEROTH_ASSIGN_OR_RETURN(begin, DocumentAt(*source, begin, end_of_text));
  }
  TokenSource::Facts train = source->facts();
  train.size = begin;
  TokenSource::Facts held_out = source->facts();
  held_out.size = source->size() - begin;
  absl::StrAppend(&held_out.description, " (held out)");
  held_out.notes = {absl::StrCat("data      ", source->description(), ": the last ", held_out.size,
                                 " of ", source->size(), " tokens are held out, and evaluated on")};
  return SplitSource{ViewTokens(source, 0, std::move(train)),
                     ViewTokens(source, begin, std::move(held_out))};
}

absl::StatusOr<std::shared_ptr<const TokenSource>> OpenData(const std::string& spec,
                                                            const DataOptions& options) {
  if (spec.empty())
    return absl::InvalidArgumentError(
        "no data: name a text file, a directory, a pattern or token files");
  if (options.vocab_size < 1) {
    return InvalidArgument("vocabulary of ", options.vocab_size, ", expected at least 1");
  }
  std::vector<std::string> left_out;
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<DataFile> files, FindDataFiles(spec, &left_out));
  ZEROTH_ASSIGN_OR_RETURN(std::shared_ptr<const TokenSource> source, OpenFiles(files, options));
  if (left_out.empty()) return source;
  TokenSource::Facts facts = source->facts();
  facts.notes.push_back(absl::StrCat("data      ", DescribeLeftOut(left_out)));
  return ViewTokens(std::move(source), 0, std::move(facts));
}

absl::StatusOr<std::shared_ptr<const Mixture>> OpenMixture(const std::string& spec,
                                                           const DataOptions& options) {
  ZEROTH_ASSIGN_OR_RETURN(std::vector<WeightedSource> sources, OpenSources(spec, options));
  return Mixture::Create(std::move(sources));
}

absl::StatusOr<SplitMixture> OpenSplitMixture(const std::string& spec, const DataOptions& options,
                                              double fraction) {
  ZEROTH_ASSIGN_OR_RETURN(std::vector<WeightedSource> train, OpenSources(spec, options));
  std::vector<WeightedSource> held_out;
  const int32_t end = options.tokenizer == nullptr ? -1 : options.tokenizer->end_of_text();
  for (WeightedSource& source : train) {
    ZEROTH_ASSIGN_OR_RETURN(SplitSource split,
                            SplitHeldOut(std::move(source.source), fraction, end));
    source.source = std::move(split.train);
    held_out.push_back({std::move(split.held_out), source.weight});
  }
  SplitMixture result;
  ZEROTH_ASSIGN_OR_RETURN(result.train, Mixture::Create(std::move(train)));
  ZEROTH_ASSIGN_OR_RETURN(result.held_out, Mixture::Create(std::move(held_out)));
  return result;
}

}  // namespace zeroth
