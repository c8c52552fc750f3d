// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/examples.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/chat/conversations.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSeq = 127;

class ExamplesTest : public testing::Test {
 protected:
  ExamplesTest()
      : tokenizer_(*OpenTokenizer("tests/testdata/tokenizers/qwen2")),
        chat_(*ChatTemplate::Named("chatml", *tokenizer_)) {}

  absl::StatusOr<std::shared_ptr<const TokenSource>> Encode(const std::string& lines,
                                                            const ChatTemplate* chat,
                                                            ConversationOptions options = {kSeq}) {
    return EncodeConversations({{dir_.Write("c.jsonl", lines), DataFileKind::kJsonLines}}, chat,
                               *tokenizer_, options);
  }

  // The text of the only example, and its targets' text, in brackets.
  std::string Spelled(const std::string& line, const ChatTemplate* chat,
                      const ConversationOptions& options = {kSeq}) {
    const auto source = Encode(line, chat, options);
    if (!source.ok()) return std::string(source.status().message());
    std::vector<int32_t> ids(kSeq + 1);
    std::vector<uint8_t> marks(kSeq + 1);
    EXPECT_TRUE((*source)->Read(0, absl::MakeSpan(ids)).ok());
    EXPECT_TRUE((*source)->ReadMarks(0, absl::MakeSpan(marks)).ok());
    std::string text;
    bool inside = false;
    for (size_t i = 0; i < ids.size(); ++i) {
      const bool is_target = (marks[i] & kNoTarget) == 0;
      if (is_target != inside) text += inside ? "]" : "[";
      inside = is_target;
      if (i > 0 && (marks[i] & kBeginsDocument) != 0) break;  // padding
      text += *tokenizer_->Decode({ids[i]});
    }
    return text;
  }

  const TemporaryDirectory dir_;
  std::unique_ptr<Tokenizer> tokenizer_;
  ChatTemplate chat_;
};

constexpr char kTalk[] =
    "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n[Me.<|im_end|>]\n";

TEST_F(ExamplesTest, OfEachKindAreWritten) {
  EXPECT_EQ(Spelled(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "Wh"}, )"
                    R"({"type": "text", "text": "o?"}]}, {"role": "assistant", )"
                    R"("content": [{"type": "text", "text": "Me."}]}]})",
                    &chat_),
            kTalk);
  for (const auto& [user, assistant] :
       std::vector<std::pair<std::string, std::string>>{{"human", "gpt"}, {"user", "assistant"}}) {
    EXPECT_EQ(Spelled(absl::StrCat(R"({"id": "7", "conversations": [{"from": ")", user,
                                   R"(", "value": "Who?"}, {"from": ")", assistant,
                                   R"(", "value": "Me."}]})"),
                      &chat_),
              kTalk);
  }
  EXPECT_EQ(Spelled(R"({"conversations": [{"from": "system", "value": "Be."}, )"
                    R"({"from": "human", "value": "Who?"}, {"from": "gpt", "value": "Me."}]})",
                    &chat_),
            absl::StrCat("<|im_start|>system\nBe.<|im_end|>\n", kTalk));
  EXPECT_EQ(Spelled(R"({"instruction": "Who?", "input": "", "output": "Me."})", &chat_), kTalk);
  EXPECT_EQ(Spelled(R"({"instruction": "Who?", "output": "Me."})", &chat_), kTalk);
  EXPECT_EQ(Spelled(R"({"instruction": "Who", "input": "is it?", "output": "Me."})", &chat_),
            "<|im_start|>user\nWho\n\nis it?<|im_end|>\n<|im_start|>assistant\n[Me.<|im_end|>]\n");
  EXPECT_EQ(Spelled(R"({"prompt": [{"role": "user", "content": "Who?"}], )"
                    R"("completion": [{"role": "assistant", "content": "Me."}]})",
                    &chat_),
            kTalk);
  // Text needs no template, and does not use one.
  for (const ChatTemplate* const chat :
       {static_cast<const ChatTemplate*>(&chat_), static_cast<const ChatTemplate*>(nullptr)}) {
    EXPECT_EQ(Spelled(R"({"prompt": "Who?", "completion": " Me."})", chat),
              "Who?[ Me.<|endoftext|>]");
    EXPECT_EQ(Spelled(R"({"prompt": "Who?", "completion": " Me."})", chat, {kSeq, true}),
              "W[ho? Me.<|endoftext|>]");
  }
}

TEST_F(ExamplesTest, AlpacaRecordsAreTextWithoutATemplate) {
  EXPECT_EQ(Spelled(R"({"instruction": "Who?", "input": "", "output": "Me."})", nullptr),
            "Below is an instruction that describes a task. Write a response that appropriately "
            "completes the request.\n\n### Instruction:\nWho?\n\n### Response:\n"
            "[Me.<|endoftext|>]");
  EXPECT_EQ(Spelled(R"({"instruction": "Who?", "input": "He.", "output": "Me."})", nullptr),
            "Below is an instruction that describes a task, paired with an input that provides "
            "further context. Write a response that appropriately completes the request.\n\n### "
            "Instruction:\nWho?\n\n### Input:\nHe.\n\n### Response:\n[Me.<|endoftext|>]");
  EXPECT_THAT(Spelled(R"({"conversations": []})", nullptr),
              HasSubstr("c.jsonl: holds ShareGPT records, which need a chat template"));
}

// Replies in a prompt are not learned, unless everything is.
TEST_F(ExamplesTest, OnlyTheCompletionIsLearned) {
  const std::string line =
      R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, )"
      R"({"role": "user", "content": "Who?"}], )"
      R"("completion": [{"role": "assistant", "content": "Me."}]})";
  const std::string before = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n";
  EXPECT_EQ(Spelled(line, &chat_), before + kTalk);
  EXPECT_THAT(Spelled(line, &chat_, {kSeq, true}), HasSubstr("assistant\nb<|im_end|>"));
}

TEST_F(ExamplesTest, ColumnsMayHaveOtherNames) {
  const std::string line = R"({"question": "Who?", "answer": " Me.", "text": "else"})";
  ConversationOptions options = {kSeq};
  options.columns = *ColumnNames::Parse("prompt=question,completion=answer");
  EXPECT_EQ(Spelled(line, nullptr, options), "Who?[ Me.<|endoftext|>]");
  options.columns = *ColumnNames::Parse("prompt=question,completion=answer,messages=talk");
  EXPECT_EQ(Spelled(line, nullptr, options),
            absl::StrCat(dir_.File("c.jsonl"),
                         ": --data_columns=messages=talk: no record has "
                         "\"talk\"; the first has \"question\", \"answer\", \"text\""));
  options.columns = *ColumnNames::Parse("instruction=question,output=answer");
  EXPECT_THAT(Spelled(line, nullptr, options), HasSubstr("### Instruction:\nWho?\n\n"));
}

struct Malformed {
  std::string record;
  std::string message;
};

// Each bad record follows a good one of the kind.
TEST_F(ExamplesTest, MalformedRecordsAreNamed) {
  const std::string messages =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
  const std::string share_gpt =
      R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})";
  const std::string alpaca = R"({"instruction": "a", "input": "", "output": "b"})";
  const std::string prompt = R"({"prompt": "a", "completion": "b"})";
  const std::string prompt_messages = R"({"prompt": [{"role": "user", "content": "a"}], )"
                                      R"("completion": [{"role": "assistant", "content": "b"}]})";
  const auto content = [](const std::string& parts) {
    return absl::StrCat(R"({"messages": [{"role": "user", "content": )", parts, "}]}");
  };
  const auto turn = [](const std::string& members) {
    return absl::StrCat(R"({"conversations": [{"from": "human", "value": "a"}, {)", members, "}]}");
  };
  const auto completion = [](const std::string& list) {
    return absl::StrCat(R"({"prompt": [{"role": "user", "content": "a"}], "completion": )", list,
                        "}");
  };
  const std::vector<std::pair<std::string, std::vector<Malformed>>> kinds = {
      {messages,
       {{content("7"), "message 1 expected \"content\", a string or a list of parts of text"},
        {content("null"), "message 1 expected \"content\""},
        {content(R"([{"type": "image_url", "image_url": {"url": "x"}}])"),
         "message 1 has part 1 of \"content\": {\"type\":\"image_url\""},
        {content(R"([{"type": "text", "text": "a"}, {"type": "image"}])"), "has part 2 of"},
        {content(R"([{"type": "text"}])"), "expected {\"type\": \"text\", \"text\": \"...\"}"},
        {content(R"([{"type": "text", "text": 7}])"), "has part 1 of"},
        {content(R"([{"text": "a"}])"), "has part 1 of"},
        {content(R"(["a"])"), "has part 1 of"},
        {content(R"([{"type": "text", "text": "a", "cache_control": {}}])"), "has part 1 of"},
        {R"({"messages": [{"from": "human", "value": "a"}]})",
         "message 1 has \"from\" and \"value\", expected \"role\" (system, user, assistant or "
         "tool) and \"content\"; read it by --data_columns=conversations=messages"},
        {share_gpt, "is a record of the kind ShareGPT, expected messages"}}},
      {share_gpt,
       {{R"({"conversations": [{"from": "human", "value": "a"}, {"from": "tool", "value": "b"}, )"
         R"({"from": "gpt", "value": "c"}]})",
         "message 2 is of \"tool\", expected assistant: messages of tools directly follow the "
         "assistant's \"tool_calls\""},
        {turn(R"("from": "function_call", "value": "b")"),
         "conversations: message 2 of function_call is \"b\", expected the JSON of {\"name\""},
        {turn(R"("from": "gpt")"), "message 2 expected \"value\", a string"},
        {turn(R"("value": "b")"), "message 2 expected \"from\", a string"},
        {turn(R"("from": 7, "value": "b")"), "message 2 expected \"from\", a string"},
        {turn(R"("from": "gpt", "value": [{"type": "text", "text": "b"}])"),
         "message 2 expected \"value\", a string"},
        {turn(R"("from": "gpt", "value": "b", "images": ["x"])"), "message 2 has \"images\""},
        {turn(R"("from": "gpt", "value": " ")"), "without text of the assistant"},
        {turn(R"("role": "assistant", "content": "b")"),
         "message 2 has \"role\" and \"content\", expected \"from\" (system, human, user, gpt, "
         "assistant, function_call, observation or tool) and \"value\"; read it by "
         "--data_columns=messages=conversations"},
        {R"({"conversations": {"from": "gpt", "value": "b"}})",
         "\"conversations\" is object, expected a list"},
        {R"({"conversations": [{"from": "gpt", "value": "b"}]})", "message 1 is of \"assistant\""},
        {R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], )"
         R"("tools": "[x]"})",
         "\"tools\": bad JSON (column "},
        {turn(R"("from": "bot", "value": "b")"),
         "has the role \"bot\", expected system, human, user, gpt, assistant, function_call, "
         "observation or tool"},
        {messages, "is a record of the kind messages, expected ShareGPT"}}},
      {alpaca,
       {{R"({"instruction": 7, "input": "", "output": "b"})",
         "\"instruction\" is number, expected a string"},
        {R"({"instruction": null, "input": "", "output": "b"})", "\"instruction\" is null"},
        {R"({"instruction": "a", "input": ["x"], "output": "b"})", "\"input\" is array"},
        {R"({"instruction": "a", "input": "", "output": null})", "\"output\" is null"},
        {R"({"instruction": "a", "input": "", "output": ["b"]})", "\"output\" is array"},
        {R"({"instruction": "a", "input": "", "output": " \n"})", "\"output\" has no text"},
        {R"({"instruction": "", "input": "x", "output": "b"})", "\"instruction\" has no text"},
        {R"({"instruction": "a", "input": "", "output": "b", "system": "Be."})", "has \"system\""},
        {R"({"instruction": "a", "output": "b", "history": [["a", "b"]]})", "has \"history\""},
        {R"({"instruction": "a", "output": "b", "tools": [{"name": "f"}]})",
         "has \"tools\", which only conversations have"},
        {R"({"instruction": "a", "output": "b", "weight": 0})", "has \"weight\""},
        {R"({"instruction": "a", "input": "b"})", "expected one of {\"text\""},
        {R"({"text": "a"})", "is a record of the kind text, expected Alpaca"},
        {R"(["a"])", "found [\"a\"]"}}},
      {prompt,
       {{R"({"prompt": 7, "completion": "b"})", "\"prompt\" is number, expected a string"},
        {R"({"prompt": null, "completion": "b"})", "\"prompt\" is null"},
        {R"({"prompt": {}, "completion": "b"})", "\"prompt\" is object"},
        {R"({"prompt": "a", "completion": 7})", "\"completion\" is number"},
        {R"({"prompt": "a", "completion": null})", "\"completion\" is null"},
        {R"({"prompt": "a", "completion": ""})", "\"completion\" has no text"},
        {R"({"prompt": "a", "completion": "b", "loss": false})", "has \"loss\""},
        {R"({"prompt": "a", "completion": "b", "images": ["x"]})", "has \"images\""},
        {R"({"prompt": "a"})", "expected one of {\"text\""},
        {R"({"prompt": "a", "chosen": "b"})", "found {\"prompt\":\"a\",\"chosen\""},
        {prompt_messages, "is a record of the kind prompt/completion of messages, expected"}}},
      {prompt_messages,
       {{R"({"prompt": "a", "completion": [{"role": "assistant", "content": "b"}]})",
         "\"prompt\" is string, expected a list of messages"},
        {completion(R"("b")"), "\"completion\" is string, expected a list of messages"},
        {completion("[]"), "\"completion\" has 0 messages, expected one"},
        {completion(R"([{"role": "user", "content": "b"}])"), "expected one, of the assistant"},
        {completion(R"([{"role": "assistant", "content": " "}])"), "and with text"},
        {completion(R"([{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}])"),
         "\"completion\" has 2 messages"},
        {completion(R"([{"role": "tool", "content": "b"}])"),
         "\"completion\" has 1 messages, expected one, of the assistant"},
        {completion(R"(["b"])"), "completion: message 1 is not an object"},
        {completion(R"([{"role": "assistant", "content": "b", "weight": 0}])"),
         "no message of the assistant is learned"},
        {R"({"prompt": [], "completion": [{"role": "assistant", "content": "b"}]})",
         "message 1 is of \"assistant\""},
        {prompt, "is a record of the kind prompt/completion, expected prompt/completion of"}}}};
  for (const auto& [good, malformed] : kinds) {
    EXPECT_GE(malformed.size(), 10u);
    ASSERT_TRUE(Encode(good + "\n", &chat_).ok()) << Encode(good + "\n", &chat_).status();
    for (const auto& [record, message] : malformed) {
      const auto source = Encode(absl::StrCat(good, "\n", record, "\n"), &chat_);
      EXPECT_EQ(source.status().code(), absl::StatusCode::kInvalidArgument) << record;
      EXPECT_THAT(source.status().message(), HasSubstr("c.jsonl line 2: ")) << record;
      EXPECT_THAT(source.status().message(), HasSubstr(message)) << record;
      EXPECT_LT(source.status().message().size(), 1000u);
    }
  }
}

}  // namespace
}  // namespace zeroth
