// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/testing/cubin.h"

#include <cxxabi.h>
#include <elf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "zeroth/core/base/status_macros.h"

namespace zeroth::cuda {
namespace {

constexpr uint16_t kMachine = 190;  // EM_CUDA
constexpr int kLeastCapability = 80;
constexpr int kGreatestCapability = 103;
// On newer devices shared memory begins with the system's own.
constexpr int kReservedSharedFrom = 90;
constexpr size_t kReservedSharedBytes = 1024;

absl::Status Damaged(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("no cubin, or a damaged one: ", what));
}

// The part of `bytes` that begins at `offset`; an error unless all of it is there.
absl::StatusOr<absl::string_view> Part(absl::string_view bytes, uint64_t offset, uint64_t size,
                                       absl::string_view what) {
  if (offset > bytes.size() || size > bytes.size() - offset) {
    return Damaged(absl::StrCat(what, " lies beyond the end"));
  }
  return bytes.substr(static_cast<size_t>(offset), static_cast<size_t>(size));
}

template <typename T>
absl::StatusOr<T> Read(absl::string_view bytes, uint64_t offset, absl::string_view what) {
  ZEROTH_ASSIGN_OR_RETURN(const absl::string_view part, Part(bytes, offset, sizeof(T), what));
  T value;
  std::memcpy(&value, part.data(), sizeof(T));
  return value;
}

struct Section {
  std::string name;
  Elf64_Shdr header = {};
  absl::string_view content;  // empty if it occupies no bytes of the file
};

absl::StatusOr<std::string> NameAt(absl::string_view names, uint64_t offset) {
  const size_t end = offset < names.size() ? names.find('\0', static_cast<size_t>(offset))
                                           : absl::string_view::npos;
  if (end == absl::string_view::npos) return Damaged("a name lies beyond the table of names");
  const auto begin = static_cast<size_t>(offset);
  return std::string(names.substr(begin, end - begin));
}

absl::StatusOr<std::vector<Section>> ReadSections(absl::string_view bytes,
                                                  const Elf64_Ehdr& header) {
  std::vector<Section> sections;
  for (uint16_t i = 0; i < header.e_shnum; ++i) {
    Section section;
    ZEROTH_ASSIGN_OR_RETURN(
        section.header,
        Read<Elf64_Shdr>(bytes, header.e_shoff + uint64_t{i} * sizeof(Elf64_Shdr), "a section"));
    if (section.header.sh_type != SHT_NOBITS && section.header.sh_type != SHT_NULL) {
      ZEROTH_ASSIGN_OR_RETURN(section.content, Part(bytes, section.header.sh_offset,
                                                    section.header.sh_size, "a section"));
    }
    sections.push_back(std::move(section));
  }
  if (header.e_shstrndx >= sections.size()) return Damaged("it has no names of sections");
  const absl::string_view names = sections[header.e_shstrndx].content;
  for (Section& section : sections) {
    ZEROTH_ASSIGN_OR_RETURN(section.name, NameAt(names, section.header.sh_name));
  }
  return sections;
}

// Attributes of a kernel or, in the section of the whole file, of one by its symbol.
enum Attribute : uint8_t {
  kMaxThreads = 0x05,
  kFrameSize = 0x11,
  kRegisterCount = 0x2f,
};
constexpr uint8_t kSizedValue = 0x04;  // the form of those that have a value of several bytes

struct AttributeValue {
  uint8_t attribute = 0;
  std::vector<uint32_t> words;
};

absl::StatusOr<std::vector<AttributeValue>> ReadAttributes(absl::string_view content) {
  std::vector<AttributeValue> values;
  for (uint64_t at = 0; at < content.size();) {
    ZEROTH_ASSIGN_OR_RETURN(const uint8_t form, Read<uint8_t>(content, at, "an attribute"));
    ZEROTH_ASSIGN_OR_RETURN(const uint8_t attribute,
                            Read<uint8_t>(content, at + 1, "an attribute"));
    ZEROTH_ASSIGN_OR_RETURN(const uint16_t size, Read<uint16_t>(content, at + 2, "an attribute"));
    at += 4;
    if (form != kSizedValue) continue;  // a value of two bytes, which `size` was
    AttributeValue value;
    value.attribute = attribute;
    for (uint16_t word = 0; word + sizeof(uint32_t) <= size; word += sizeof(uint32_t)) {
      ZEROTH_ASSIGN_OR_RETURN(const uint32_t read,
                              Read<uint32_t>(content, at + word, "an attribute's value"));
      value.words.push_back(read);
    }
    at += size;
    values.push_back(std::move(value));
  }
  return values;
}

const Section* Find(const std::vector<Section>& sections, absl::string_view name) {
  for (const Section& section : sections) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

// An attribute that the file has for each symbol, by the symbol's name.
absl::StatusOr<std::map<std::string, int>> BySymbol(const std::vector<Section>& sections,
                                                    Attribute attribute) {
  const Section* const info = Find(sections, ".nv.info");
  const Section* const symbols = Find(sections, ".symtab");
  const Section* const names = Find(sections, ".strtab");
  if (info == nullptr || symbols == nullptr || names == nullptr) {
    return Damaged("it lacks .nv.info, .symtab or .strtab");
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<AttributeValue> values, ReadAttributes(info->content));
  std::map<std::string, int> result;
  for (const AttributeValue& value : values) {
    if (value.attribute != attribute || value.words.size() < 2) continue;
    ZEROTH_ASSIGN_OR_RETURN(
        const Elf64_Sym symbol,
        Read<Elf64_Sym>(symbols->content, uint64_t{value.words[0]} * sizeof(Elf64_Sym),
                        "a symbol"));
    ZEROTH_ASSIGN_OR_RETURN(const std::string name, NameAt(names->content, symbol.st_name));
    result[name] = static_cast<int>(value.words[1]);
  }
  return result;
}

// Operation codes.
enum Operation : uint32_t {
  kDMul = 0x028,
  kDAdd = 0x029,
  kDSetP = 0x02a,
  kDFma = 0x02b,
  kLdsm = 0x03b,
  kHmma = 0x03c,
  kLdg = 0x181,
  kLdl = 0x183,
  kStg = 0x186,
  kStl = 0x187,
  kLdgsts = 0x1ae,
};

// The bytes that a load or store moves for each thread.
size_t WidthOf(uint64_t high) {
  constexpr size_t kWidths[] = {1, 1, 2, 2, 4, 8, 16, 4};
  return kWidths[(high >> 9) & 7];
}

absl::StatusOr<InstructionCounts> CountInstructions(absl::string_view code) {
  constexpr size_t kInstructionBytes = 16;
  if (code.size() % kInstructionBytes != 0) return Damaged("code of broken instructions");
  InstructionCounts counts;
  for (size_t at = 0; at < code.size(); at += kInstructionBytes) {
    uint64_t low;
    uint64_t high;
    std::memcpy(&low, code.data() + at, sizeof(low));
    std::memcpy(&high, code.data() + at + sizeof(low), sizeof(high));
    switch (static_cast<uint32_t>(low & 0x1ff)) {
      case kDMul:
      case kDAdd:
      case kDSetP:
      case kDFma:
        ++counts.double_operations;
        break;
      case kLdsm:
        ++counts.matrix_loads;
        break;
      case kHmma:
        ++counts.tensor_products;
        break;
      case kLdg:
        ++counts.global_loads[WidthOf(high)];
        break;
      case kStg:
        ++counts.global_stores[WidthOf(high)];
        break;
      case kLdl:
      case kStl:
        ++counts.local_accesses;
        break;
      case kLdgsts:
        ++counts.async_copies;
        break;
      default:
        break;
    }
  }
  return counts;
}

std::string Demangle(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? std::string(name.get()) : symbol;
}

// e_flags has the capability; in which byte, depends on the version of the format.
int CapabilityOf(const Elf64_Ehdr& header) {
  constexpr unsigned char kSecondByteFrom = 8;
  const int shift = header.e_ident[EI_ABIVERSION] >= kSecondByteFrom ? 8 : 0;
  return static_cast<int>(header.e_flags >> shift & 0xff);
}

absl::StatusOr<KernelCode> ReadKernel(const std::vector<Section>& sections, const Section& text,
                                      const std::string& symbol, int capability) {
  KernelCode kernel;
  kernel.name = ShortKernelName(Demangle(symbol));
  ZEROTH_ASSIGN_OR_RETURN(kernel.instructions, CountInstructions(text.content));
  if (const Section* const shared = Find(sections, absl::StrCat(".nv.shared.", symbol))) {
    const size_t reserved = capability >= kReservedSharedFrom ? kReservedSharedBytes : 0;
    kernel.shared_bytes =
        static_cast<int>(shared->header.sh_size - std::min(reserved, shared->header.sh_size));
  }
  if (const Section* const info = Find(sections, absl::StrCat(".nv.info.", symbol))) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<AttributeValue> values,
                            ReadAttributes(info->content));
    for (const AttributeValue& value : values) {
      if (value.attribute != kMaxThreads || value.words.size() < 3) continue;
      kernel.block_threads = static_cast<int>(value.words[0] * value.words[1] * value.words[2]);
    }
  }
  return kernel;
}

}  // namespace

std::string ShortKernelName(absl::string_view demangled) {
  absl::ConsumePrefix(&demangled, "void ");
  std::string name = absl::StrReplaceAll(
      demangled, {{"(anonymous namespace)::", ""}, {"zeroth::cuda::", ""}, {"zeroth::", ""}});
  // The parameters begin at the first parenthesis outside of the template's arguments, in which
  // casts of enumerators contain parentheses.
  int depth = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (name[i] == '(' && depth == 0) return name.substr(0, i);
  }
  return name;
}

absl::StatusOr<Cubin> ReadCubin(absl::string_view bytes) {
  ZEROTH_ASSIGN_OR_RETURN(const Elf64_Ehdr header, Read<Elf64_Ehdr>(bytes, 0, "the header"));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != kMachine || header.e_shentsize != sizeof(Elf64_Shdr)) {
    return Damaged("the header is another");
  }
  Cubin cubin;
  cubin.capability = CapabilityOf(header);
  if (cubin.capability < kLeastCapability || cubin.capability > kGreatestCapability) {
    return absl::UnimplementedError(absl::StrCat("the instructions of compute capability ",
                                                 cubin.capability / 10, ".", cubin.capability % 10,
                                                 " are not known here; expected 8.0 to 10.3"));
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<Section> sections, ReadSections(bytes, header));
  ZEROTH_ASSIGN_OR_RETURN(const auto registers, BySymbol(sections, kRegisterCount));
  ZEROTH_ASSIGN_OR_RETURN(const auto frames, BySymbol(sections, kFrameSize));
  for (const Section& text : sections) {
    absl::string_view symbol = text.name;
    if (!absl::ConsumePrefix(&symbol, ".text.")) continue;
    const std::string name(symbol);
    ZEROTH_ASSIGN_OR_RETURN(KernelCode kernel, ReadKernel(sections, text, name, cubin.capability));
    const auto known = registers.find(name);
    if (known == registers.end()) return Damaged("a kernel without a number of registers");
    kernel.registers = known->second;
    const auto frame = frames.find(name);
    if (frame != frames.end()) kernel.frame_bytes = frame->second;
    cubin.kernels.push_back(std::move(kernel));
  }
  return cubin;
}

}  // namespace zeroth::cuda
