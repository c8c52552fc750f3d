// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/tokenizer/bpe_tokenizer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Symbols = std::vector<std::string>;
using Pair = std::pair<std::string, std::string>;

// A vocabulary of the 256 bytes (ids 0 to 255 by value), the results of `merges`, and last the end
// of text.
struct Files {
  std::string vocab;
  std::string merges = "#version: 0.2\n";
};

nlohmann::json VocabOf(const std::vector<Pair>& merges) {
  nlohmann::json vocab;
  for (int byte = 0; byte < 256; ++byte)
    vocab[BytesToAlphabet(std::string(1, static_cast<char>(byte)))] = byte;
  for (const Pair& merge : merges) {
    const std::string token = BytesToAlphabet(merge.first + merge.second);
    if (!vocab.contains(token)) vocab[token] = vocab.size();
  }
  vocab["<|endoftext|>"] = vocab.size();
  return vocab;
}

Files FilesOf(const std::vector<Pair>& merges) {
  Files files;
  files.vocab = VocabOf(merges).dump();
  for (const Pair& merge : merges) {
    absl::StrAppend(&files.merges, BytesToAlphabet(merge.first), " ", BytesToAlphabet(merge.second),
                    "\n");
  }
  return files;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadFiles(const Files& files,
                                                     bool parse_special = false) {
  const TemporaryDirectory dir;
  dir.Write("vocab.json", files.vocab);
  dir.Write("merges.txt", files.merges);
  return OpenTokenizer(dir.path(), {parse_special});
}

// The algorithm as in the papers: merge all occurrences of the pair of lowest rank, until there is
// none.
Symbols MergeSlowly(Symbols word, const std::map<Pair, int>& ranks) {
  while (true) {
    const Pair* best = nullptr;
    int best_rank = 0;
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      const auto found = ranks.find({word[i], word[i + 1]});
      if (found != ranks.end() && (best == nullptr || found->second < best_rank)) {
        best = &found->first;
        best_rank = found->second;
      }
    }
    if (best == nullptr) return word;
    Symbols merged;
    for (size_t i = 0; i < word.size(); ++i) {
      if (i + 1 < word.size() && word[i] == best->first && word[i + 1] == best->second) {
        merged.push_back(best->first + best->second);
        ++i;
      } else {
        merged.push_back(word[i]);
      }
    }
    word = std::move(merged);
  }
}

Symbols Bytes(absl::string_view word) {
  Symbols symbols;
  for (const char byte : word) symbols.emplace_back(1, byte);
  return symbols;
}

std::vector<Symbols> WordsOf(absl::string_view text) {
  std::vector<Symbols> words;
  // The tokenizer passes the words that the pattern finds, split at bytes that are not UTF-8.
  Regex::Scratch scratch;
  const auto gpt2 = PreTokenizer::FromJson({{"type", "ByteLevel"}, {"add_prefix_space", false}});
  const absl::Status status = gpt2->ForEachWord(text, PreTokenizer::Place::kStart, scratch,
                                                [&words](absl::string_view word) {
                                                  words.push_back(Bytes(word));
                                                  return absl::OkStatus();
                                                });
  EXPECT_TRUE(status.ok()) << status;
  return words;
}

// Byte-pair training: repeatedly, the most frequent pair of neighbours becomes a merge.
std::vector<Pair> Train(const std::string& text, int count) {
  std::vector<Symbols> words = WordsOf(text);
  std::vector<Pair> merges;
  for (int i = 0; i < count; ++i) {
    std::map<Pair, int> frequency;
    for (const Symbols& word : words) {
      for (size_t k = 0; k + 1 < word.size(); ++k) ++frequency[{word[k], word[k + 1]}];
    }
    if (frequency.empty()) break;
    const auto best =
        std::max_element(frequency.begin(), frequency.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    merges.push_back(best->first);
    for (Symbols& word : words) word = MergeSlowly(std::move(word), {{best->first, 0}});
  }
  return merges;
}

std::string RandomText(std::mt19937& random, size_t pieces) {
  static const char* const kPieces[] = {"the ", "then",   " there", "a",  "aa",         "banana",
                                        " an",  "\n",     "  ",     "12", "3",          "'s",
                                        "'t",   "\u00e9", "\u4e2d", "!",  "\U0001f600", "zq"};
  std::string text;
  for (size_t i = 0; i < pieces; ++i) text += kPieces[random() % std::size(kPieces)];
  return text;
}

TEST(BpeTokenizerTest, MergesByRankThenFromTheLeft) {
  const auto bpe = LoadFiles(FilesOf({{"a", "b"}, {"b", "c"}, {"ab", "c"}, {"a", "a"}}));
  ASSERT_TRUE(bpe.ok()) << bpe.status();
  EXPECT_EQ((*bpe)->vocab_size(), 261);
  EXPECT_EQ((*bpe)->end_of_text(), 260);
  EXPECT_THAT(*(*bpe)->Encode("abc"), ElementsAre(258));
  EXPECT_THAT(*(*bpe)->Encode("bc"), ElementsAre(257));
  EXPECT_THAT(*(*bpe)->Encode("aaa"), ElementsAre(259, 'a'));
  EXPECT_THAT(*(*bpe)->Encode("aab"), ElementsAre('a', 256));
  EXPECT_THAT(*(*bpe)->Encode(" abc"), ElementsAre(' ', 258));
  EXPECT_THAT(*(*bpe)->Encode("a bc"), ElementsAre('a', ' ', 257));
  EXPECT_TRUE((*bpe)->Encode("")->empty());
}

TEST(BpeTokenizerTest, AgreesWithTheSlowAlgorithm) {
  std::mt19937 random(13);
  const std::vector<Pair> merges = Train(RandomText(random, 2000), 120);
  ASSERT_GT(merges.size(), 60u);
  const Files files = FilesOf(merges);
  const auto bpe = LoadFiles(files);
  ASSERT_TRUE(bpe.ok()) << bpe.status();
  const nlohmann::json vocab = nlohmann::json::parse(files.vocab);
  std::map<Pair, int> ranks;
  for (const Pair& merge : merges) ranks.emplace(merge, static_cast<int>(ranks.size()));

  for (int trial = 0; trial < 200; ++trial) {
    std::string text = RandomText(random, random() % 40);
    // Words beyond the length where another algorithm takes over.
    if (trial % 4 == 0) {
      for (uint32_t i = 0; i < 40 + random() % 100; ++i) text += i % 3 == 0 ? "banana" : "the";
    }
    std::vector<int32_t> expected;
    for (const Symbols& word : WordsOf(text)) {
      for (const std::string& symbol : MergeSlowly(word, ranks)) {
        expected.push_back(vocab.at(BytesToAlphabet(symbol)).get<int32_t>());
      }
    }
    const std::vector<int32_t> ids = *(*bpe)->Encode(text);
    ASSERT_EQ(ids, expected) << text;
    ASSERT_EQ(*(*bpe)->Decode(ids), text);
  }
}

TEST(BpeTokenizerTest, EveryByteStringRoundTrips) {
  std::mt19937 random(17);
  const auto bpe = LoadFiles(FilesOf(Train(RandomText(random, 500), 40)));
  ASSERT_TRUE(bpe.ok()) << bpe.status();
  for (int trial = 0; trial < 300; ++trial) {
    std::string text;
    for (uint32_t i = random() % 300; i > 0; --i) text.push_back(static_cast<char>(random()));
    ASSERT_EQ(*(*bpe)->Decode(*(*bpe)->Encode(text)), text);
  }
  // Longer than a piece, and one word of 200,000 bytes.
  const std::string long_text = RandomText(random, 20'000);
  EXPECT_EQ(*(*bpe)->Decode(*(*bpe)->Encode(long_text)), long_text);
  std::string long_word;
  while (long_word.size() < 200'000) long_word += "thenbanana";
  EXPECT_EQ(*(*bpe)->Decode(*(*bpe)->Encode(long_word)), long_word);
}

TEST(BpeTokenizerTest, SpecialTokensAreTextUnlessAskedOtherwise) {
  const auto bpe = LoadFiles(FilesOf({{"h", "i"}}), true);
  ASSERT_TRUE(bpe.ok()) << bpe.status();
  const int32_t end = (*bpe)->end_of_text();
  EXPECT_THAT(*(*bpe)->Encode("hi<|endoftext|><|endoftext|>hi"), ElementsAre(256, end, end, 256));
  EXPECT_THAT(*(*bpe)->Encode("<|endoftext"), ::testing::Not(::testing::Contains(end)));
  EXPECT_EQ(*(*bpe)->Decode({256, end}), "hi<|endoftext|>");
  EXPECT_THAT(std::string((*bpe)->Decode({256, 258}).status().message()),
              HasSubstr("id 258 at position 1"));
  EXPECT_EQ((*bpe)->Decode({-1}).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*bpe)->Find("<|endoftext|>"), end);
  EXPECT_EQ((*bpe)->Find("no such token"), std::nullopt);

  const auto text = LoadFiles(FilesOf({{"h", "i"}}));
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(*(*text)->Encode("<|endoftext|>"), ::testing::SizeIs(13));
  EXPECT_EQ(*(*text)->Decode(*(*text)->Encode("<|endoftext|>")), "<|endoftext|>");
}

TEST(BpeTokenizerTest, AcceptsWindowsLinesAndNoVersion) {
  Files files = FilesOf({{"a", "b"}, {"#", "#"}});
  files.merges = "a b\r\n# #\r\n\r\n";
  const auto bpe = LoadFiles(files);
  ASSERT_TRUE(bpe.ok()) << bpe.status();
  EXPECT_THAT(*(*bpe)->Encode("ab##"), ElementsAre(256, 257));
}

TEST(BpeTokenizerTest, BadVocabulariesAreRefused) {
  const auto error = [](const nlohmann::json& vocab) {
    const auto bpe = LoadFiles({vocab.dump(), ""});
    EXPECT_EQ(bpe.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(bpe.status().message()), HasSubstr("vocab.json"));
    return std::string(bpe.status().message());
  };
  const nlohmann::json good = VocabOf({{"a", "b"}});
  const auto with = [&good](const char* token, const nlohmann::json& id) {
    nlohmann::json vocab = good;
    vocab[token] = id;
    return vocab;
  };
  EXPECT_THAT(error(with("ab", 0)), HasSubstr("which another token has too"));
  EXPECT_THAT(error(with("ab", 99'999)),
              HasSubstr("token \"ab\" has id 99999, expected 0 to 1539"));
  EXPECT_THAT(error(with("ab", -1)), HasSubstr("has id -1"));
  EXPECT_THAT(error(with("ab", "x")), HasSubstr("has id \"x\""));
  EXPECT_THAT(error(nlohmann::json::array()), HasSubstr("is not an object"));
  nlohmann::json no_z = good;
  no_z["zz"] = no_z["z"];
  no_z.erase("z");
  EXPECT_THAT(error(no_z), HasSubstr("no token for byte 122"));
  nlohmann::json no_end = good;
  no_end.erase("<|endoftext|>");
  EXPECT_THAT(error(no_end), HasSubstr("no token that ends a text"));
  EXPECT_THAT(std::string(LoadFiles({"{\"a\": 0, \"a\": 1}", ""}).status().message()),
              HasSubstr("appears twice"));
}

TEST(BpeTokenizerTest, BadMergesAreNamed) {
  const auto error = [](const std::string& merges) {
    const auto bpe = LoadFiles({VocabOf({{"a", "b"}, {"ab", "c"}}).dump(), merges});
    EXPECT_EQ(bpe.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(bpe.status().message());
  };
  EXPECT_THAT(error("#version: 0.2\na b\nab\n"),
              HasSubstr("merges.txt line 3: \"ab\": expected two tokens"));
  EXPECT_THAT(error("a b c\n"), HasSubstr("merges.txt line 1: \"a b c\": expected two tokens"));
  EXPECT_THAT(error("a  b\n"), HasSubstr("merges.txt line 1"));
  EXPECT_THAT(error("a b\na c\n"),
              HasSubstr("merge 2 (\"a\", \"c\"): \"ac\" is not in the vocabulary"));
  EXPECT_THAT(error("a xyz\n"), HasSubstr("\"xyz\" is not in the vocabulary"));
}

// transformers makes the same tokenizer of these files.
TEST(BpeTokenizerTest, TheConfigBesideAVocabularyCounts) {
  const Files files = FilesOf({{"h", "i"}});
  const auto open = [&files](const nlohmann::json& config, const char* added_tokens = nullptr) {
    const TemporaryDirectory dir;
    dir.Write("vocab.json", files.vocab);
    dir.Write("merges.txt", files.merges);
    dir.Write("tokenizer_config.json", config.dump());
    if (added_tokens != nullptr) dir.Write("added_tokens.json", added_tokens);
    return OpenTokenizer(dir.path(), {.parse_special = true});
  };
  // Without flags, the end is the one special token.
  const auto legacy = open(nlohmann::json::object(), R"({"<tool>": 258})");
  ASSERT_TRUE(legacy.ok()) << legacy.status();
  EXPECT_EQ((*legacy)->end_of_text(), 257);
  EXPECT_THAT(*(*legacy)->Encode("hi<tool>hi<|endoftext|>"), ElementsAre(256, 258, 256, 257));

  const nlohmann::json added = {{"tokenizer_class", "GPT2Tokenizer"},
                                {"eos_token", "<|im_end|>"},
                                {"added_tokens_decoder",
                                 {{"257", {{"content", "<|endoftext|>"}, {"special", true}}},
                                  {"258", {{"content", "<|im_end|>"}, {"special", true}}}}}};
  const auto two = open(added, R"({"<|im_end|>": 258})");
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ((*two)->end_of_text(), 258);
  EXPECT_THAT(*(*two)->Encode("hi<|im_end|>hi<|endoftext|>"), ElementsAre(256, 258, 256, 257));
  EXPECT_TRUE((*two)->prefix().empty());

  nlohmann::json begins = added;
  begins["bos_token"] = "<|endoftext|>";
  begins["add_bos_token"] = true;
  EXPECT_THAT((*open(begins))->prefix(), ElementsAre(257));
  const auto blank = open({{"add_prefix_space", true}});
  ASSERT_TRUE(blank.ok()) << blank.status();
  EXPECT_THAT(*(*blank)->Encode("hi"), ElementsAre(' ', 256));

  const auto refused = [&](const nlohmann::json& config, const char* added_tokens = nullptr) {
    return std::string(open(config, added_tokens).status().message());
  };
  EXPECT_THAT(refused(nlohmann::json::object(), R"({"<|im_end|>": 300})"),
              HasSubstr("give the token \"<|im_end|>\" the id 300, and transformers gives it 258"));
  EXPECT_THAT(refused(nlohmann::json::object(), R"({"<|im_end|>": "x"})"),
              AllOf(HasSubstr("added_tokens.json: token \"<|im_end|>\" has id \"x\""),
                    HasSubstr("expected a number")));
  EXPECT_THAT(refused({{"additional_special_tokens", "x"}}),
              HasSubstr("\"additional_special_tokens\" is \"x\", expected a list of tokens"));
  EXPECT_THAT(refused({{"tokenizer_class", "Qwen2Tokenizer"}}),
              HasSubstr("the tokenizer_class \"Qwen2Tokenizer\", expected GPT2Tokenizer"));
  EXPECT_THAT(refused({{"added_tokens_decoder", {{"x", {{"content", "y"}}}}}}),
              HasSubstr("has the key \"x\", expected an id"));
}

TEST(BpeTokenizerTest, MissingFilesAreNamed) {
  const TemporaryDirectory dir;
  const auto none = OpenTokenizer(dir.path());
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("neither tokenizer.json, nor tokenizer.model, nor vocab.json"));
  EXPECT_EQ(OpenTokenizer(dir.File("absent")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(OpenTokenizer(dir.Write("t.txt", "x")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A text that is one word, of bytes that all merge with each other, needs no quadratic time; and
// invalid bytes stay as they are.
TEST(BpeTokenizerTest, AMegabyteOfOneWordRoundTrips) {
  const auto bpe = LoadFiles(FilesOf({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}));
  ASSERT_TRUE(bpe.ok()) << bpe.status();
  const std::string word(3'000'001, 'a');
  const auto ids = (*bpe)->Encode(word);
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_LE(ids->size(), word.size() / 8 + 4);
  EXPECT_EQ(*(*bpe)->Decode(*ids), word);
  const std::string spaces = std::string(3'000'000, ' ') + "x" + std::string(3'000'000, '\n') + "x";
  EXPECT_EQ(*(*bpe)->Decode(*(*bpe)->Encode(spaces)), spaces);
}

}  // namespace
}  // namespace zeroth
