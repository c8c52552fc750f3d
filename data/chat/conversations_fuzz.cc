// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <string>
#include <vector>

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"
#include "zeroth/data/chat/conversations.h"
#include "zeroth/data/chat/examples.h"

namespace zeroth {
namespace {

bool Run(absl::Span<const uint8_t> bytes) {
  const MemoryFile in_memory(bytes);
  const DataFile file = {in_memory.path(), DataFileKind::kJsonLines};
  const auto kind = KindOfFirstRecord(file);
  if (!kind.ok() || kind->value_or(RecordKind::kText) == RecordKind::kText) return false;
  auto reader = DocumentReader::Open(file, /*cuts_at_spaces=*/false);
  if (!reader.ok()) return false;
  for (JsonRecord record;;) {
    const auto more = reader->NextRecord(&record);
    if (!more.ok()) return false;
    if (!*more) return true;
    const auto example = ParseExample(**kind, record, {});
    if (!example.ok()) return false;
    if (example->messages.empty()) {
      ZEROTH_CHECK(!example->completion.empty());
      continue;
    }
    // Messages that pass have known roles, in turns.
    if (!CheckTurns(example->messages, "assistant").ok()) return false;
    ZEROTH_CHECK(example->messages.size() >= 2 && example->messages.back().role == "assistant");
  }
}

std::vector<std::string> Seeds() {
  return {
      "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
      "\"content\": \"b\\u00e9\"}]}\n",
      "\n{\"id\": 1, \"messages\": [{\"role\": \"system\", \"content\": \"\"}, {\"role\": "
      "\"user\", "
      "\"content\": \"a\"}, {\"role\": \"assistant\", \"content\": \"b\", \"name\": null}]}",
      "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", "
      "\"value\": \"b\"}]}",
      "{\"instruction\": \"a\", \"input\": \"b\", \"output\": \"c\"}",
      "{\"prompt\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}], "
      "\"completion\": [{\"role\": \"assistant\", \"content\": \"b\"}]}",
      "{\"tools\": \"[{\\\"name\\\": \\\"f\\\"}]\", \"messages\": [{\"role\": \"user\", "
      "\"content\": "
      "\"a\"}, {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\", "
      "\"type\": "
      "\"function\", \"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1.5, null]}}}]}, "
      "{\"role\": "
      "\"tool\", \"tool_call_id\": \"1\", \"name\": \"f\", \"content\": \"c\"}, {\"role\": "
      "\"assistant\", "
      "\"content\": \"b\"}]}",
      "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}], \"conversations\": "
      "[{"
      "\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"function_call\", \"value\": "
      "\"{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {}}\"}, {\"from\": \"observation\", "
      "\"value\": "
      "\"c\"}, {\"from\": \"gpt\", \"value\": \"b\"}]}"};
}

}  // namespace

ZEROTH_FUZZ_TARGET(Conversations) { return {Run, Seeds, nullptr, 64, 256}; }

}  // namespace zeroth
