// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/base/fuzz/fuzz_target.h"
#include "zeroth/data/documents.h"
#include "zeroth/data/sequential_file.h"

namespace zeroth {
namespace {

bool Run(absl::Span<const uint8_t> bytes) {
  const MemoryFile in_memory(bytes);
  const Compression compression =
      CompressionOf({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (compression == Compression::kNone) return false;
  auto reader =
      DocumentReader::Open({in_memory.path(), DataFileKind::kJsonLines, compression}, true);
  // Built without Arrow.
  if (absl::IsUnimplemented(reader.status())) return true;
  ZEROTH_CHECK(reader.ok());
  for (TextPart part;;) {
    const auto more = reader->Next(&part);
    if (!more.ok()) return false;
    ZEROTH_CHECK(reader->file_position() <= bytes.size());
    if (!*more) break;
    ZEROTH_CHECK(part.begins && part.ends && part.text.size() <= reader->position());
  }
  ZEROTH_CHECK(reader->file_position() == bytes.size());
  return true;
}

// The same records compressed by gzip, and by zstd without and with a checksum.
std::vector<std::string> Seeds() {
  return {absl::HexStringToBytes(
              "1f8b0800000000000203ab562a49ad2851b25250cacf4b55aae5aa56ca4c01f28c7514e01225"
              "e5f9317931a50606a99640054015483a1480920a3868a06200806775075e000000"),
          absl::HexStringToBytes(
              "28b52ffd0068cd010012030b11c06b0cde5a74cc3ae86f23175df287ac07d746558b77ed9121"
              "a4828aaa4520906cceecda897424efca9d0503002bb556d5a97231f1"),
          absl::HexStringToBytes(
              "28b52ffd04580d020054037b2274657874223a20226f6e65227d0a7b226964223a20332c2074"
              "776f5c6e5c7530306539227d0a0a7b6f6e652074776f20227d0a03002b95037ac9c51c03c561"
              "4ae9")};
}

}  // namespace

// A reader holds buffers of a mebibyte, whatever the size of the file.
ZEROTH_FUZZ_TARGET(CompressedLines) { return {Run, Seeds, nullptr, 1 << 19, 1 << 20}; }

}  // namespace zeroth
