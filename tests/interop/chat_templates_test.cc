// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Published chat templates, as trl and axolotl ship them, applied by transformers and by Zeroth.

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"
#include "zeroth/tests/interop/python.h"

namespace zeroth {
namespace {

using Json = nlohmann::ordered_json;

std::vector<ChatMessage> MessagesOf(const Json& json) {
  std::vector<ChatMessage> messages;
  for (const Json& each : json) {
    ChatMessage message = {each["role"].get<std::string>(), ""};
    // Transformers leaves out what is null.
    message.has_content = each.contains("content") && !each["content"].is_null();
    if (message.has_content) message.content = each["content"].get<std::string>();
    if (each.contains("reasoning_content")) {
      message.thought = each["reasoning_content"].get<std::string>();
    }
    message.tool_calls = each.value("tool_calls", Json());
    message.name = each.value("name", "");
    message.tool_call_id = each.value("tool_call_id", "");
    messages.push_back(message);
  }
  return messages;
}

TEST(ChatTemplatesTest, PublishedTemplatesWriteTheSameTokens) {
  if (!PythonHas("transformers")) GTEST_SKIP() << HowToGetTransformers();
  const TemporaryDirectory dir;
  const PythonOutcome outcome =
      RunPython("chat_templates_with_transformers.py",
                {"tests/testdata/tokenizers/qwen2/tokenizer.json", dir.path()});
  ASSERT_TRUE(outcome.ok()) << outcome.errors;
  const std::string cases = ReadTestFile(dir.File("cases.jsonl"));
  if (cases.empty()) {
    GTEST_SKIP() << "Python lacks the packages that this test compares with, of which it reads "
                    "only templates: pip install --no-deps trl axolotl";
  }
  const auto tokenizer = OpenTokenizer(dir.path());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const ChatTemplate::SpecialTokens special = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  int opened = 0;
  int written = 0;
  int written_with_tools = 0;
  for (const absl::string_view line : absl::StrSplit(cases, '\n', absl::SkipEmpty())) {
    const Json published = Json::parse(line);
    const std::string name = published["name"].get<std::string>();
    const auto chat =
        ChatTemplate::FromJinja(published["jinja"].get<std::string>(), **tokenizer, special);
    if (!chat.ok()) {
      std::printf("%s: %s\n", name.c_str(), chat.status().ToString().c_str());
      continue;
    }
    ++opened;
    std::map<std::string, int> refused;
    for (const Json& item : published["cases"]) {
      SCOPED_TRACE(absl::StrCat(name, " ", item["messages"].dump()));
      const std::vector<ChatMessage> messages = MessagesOf(item["messages"]);
      const auto talk = chat->Render(messages, item["tools"]);
      if (!talk.ok()) {
        ++refused[std::string(talk.status().message())];
        continue;
      }
      ++written;
      written_with_tools += item["tools"].is_null() ? 0 : 1;
      ASSERT_TRUE(item.contains("ids"));
      const auto expected = item["ids"].get<std::vector<int32_t>>();
      EXPECT_EQ(*(*tokenizer)->Decode(talk->ids), item["text"].get<std::string>());
      EXPECT_EQ(talk->ids, expected);
      if (item.contains("mask")) {
        const std::vector<int> mask(talk->by_assistant.begin(), talk->by_assistant.end());
        EXPECT_EQ(mask, item["mask"].get<std::vector<int>>());
      }
    }
    for (const auto& [why, count] : refused) {
      std::printf("%s: %d of %zu: %s\n", name.c_str(), count, published["cases"].size(),
                  why.c_str());
    }
  }
  std::printf("%d templates, %d conversations, of which %d have tools\n", opened, written,
              written_with_tools);
  EXPECT_GT(opened, 0);
  EXPECT_GT(written, written_with_tools);
  EXPECT_GT(written_with_tools, 0);
}

}  // namespace
}  // namespace zeroth
