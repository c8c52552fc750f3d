// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/device/cuda/testing/cubin.h"

#include <elf.h>

#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace zeroth::cuda {
namespace {

template <typename T>
void Append(const T& value, std::string& to) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string Instruction(uint64_t operation, uint64_t width_code = 0) {
  std::string bytes;
  Append<uint64_t>(operation | uint64_t{0xabc} << 12, bytes);
  Append<uint64_t>(width_code << 9 | 0x1ff, bytes);
  return bytes;
}

std::string WordAttribute(uint8_t attribute, const std::vector<uint32_t>& words) {
  std::string bytes = {4, static_cast<char>(attribute)};
  Append(static_cast<uint16_t>(words.size() * sizeof(uint32_t)), bytes);
  for (const uint32_t word : words) Append(word, bytes);
  return bytes;
}

// Writes an ELF file: the empty section, the added ones, and the section names last.
class Writer {
 public:
  void Add(const std::string& name, uint32_t type, const std::string& content, uint64_t size) {
    Elf64_Shdr header = {};
    header.sh_name = static_cast<Elf64_Word>(names_.size());
    header.sh_type = type;
    header.sh_offset = sizeof(Elf64_Ehdr) + body_.size();
    header.sh_size = size;
    names_ += name + '\0';
    body_ += content;
    headers_.push_back(header);
  }
  void Add(const std::string& name, const std::string& content) {
    Add(name, SHT_PROGBITS, content, content.size());
  }

  std::string Finish(uint32_t flags, unsigned char abi, uint16_t machine = 190) {
    const std::string own = ".shstrtab";
    Add(own, SHT_STRTAB, names_ + own + '\0', names_.size() + own.size() + 1);
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_ABIVERSION] = abi;
    header.e_machine = machine;
    header.e_flags = flags;
    header.e_shoff = sizeof(header) + body_.size();
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<uint16_t>(headers_.size());
    header.e_shstrndx = static_cast<uint16_t>(headers_.size() - 1);
    std::string file;
    Append(header, file);
    file += body_;
    for (const Elf64_Shdr& each : headers_) Append(each, file);
    return file;
  }

 private:
  std::string names_ = std::string(1, '\0');
  std::string body_;
  std::vector<Elf64_Shdr> headers_ = {Elf64_Shdr{}};
};

// Returns a file with a kernel Spin(int) that has some instructions and attributes of every kind.
std::string File(uint32_t flags, unsigned char abi, uint16_t machine = 190) {
  const std::string symbol = "_ZN6zeroth4cuda4SpinEi";
  std::string symbols(sizeof(Elf64_Sym), '\0');
  Elf64_Sym kernel = {};
  kernel.st_name = 1;
  Append(kernel, symbols);
  const std::string code = Instruction(0x181, 6) + Instruction(0x981, 2) + Instruction(0x186, 5) +
                           Instruction(0x983, 4) + Instruction(0x187, 4) + Instruction(0x22b) +
                           Instruction(0x23c) + Instruction(0x23c) + Instruction(0x83b) +
                           Instruction(0xfae) + Instruction(0x984, 6);
  // Attributes of two bytes, which the reader must skip, and those that it reads.
  const std::string small = {3, 0x1b, 0x7f, 0};
  Writer writer;
  writer.Add(".strtab", '\0' + symbol + '\0');
  writer.Add(".symtab", symbols);
  writer.Add(".nv.info", small + WordAttribute(0x2f, {1, 77}) + WordAttribute(0x11, {1, 24}));
  writer.Add(".nv.info." + symbol, small + WordAttribute(0x05, {32, 4, 2}));
  writer.Add(".nv.shared." + symbol, SHT_NOBITS, "", 1024 + 160);
  writer.Add(".text." + symbol, code);
  return writer.Finish(flags, abi, machine);
}

TEST(CubinTest, TellsWhatAKernelNeedsAndDoes) {
  const absl::StatusOr<Cubin> cubin = ReadCubin(File(0x6005a04, 8));
  ASSERT_TRUE(cubin.ok()) << cubin.status();
  EXPECT_EQ(cubin->capability, 90);
  ASSERT_EQ(cubin->kernels.size(), 1u);
  const KernelCode& kernel = cubin->kernels[0];
  EXPECT_EQ(kernel.name, "Spin");
  EXPECT_EQ(kernel.registers, 77);
  EXPECT_EQ(kernel.frame_bytes, 24);
  EXPECT_EQ(kernel.shared_bytes, 160);
  EXPECT_EQ(kernel.block_threads, 256);
  const InstructionCounts& counts = kernel.instructions;
  EXPECT_EQ(counts.global_loads[16], 1);
  EXPECT_EQ(counts.global_loads[2], 1);
  EXPECT_EQ(counts.global_stores[8], 1);
  EXPECT_EQ(counts.local_accesses, 2);
  EXPECT_EQ(counts.double_operations, 1);
  EXPECT_EQ(counts.tensor_products, 2);
  EXPECT_EQ(counts.matrix_loads, 1);
  EXPECT_EQ(counts.async_copies, 1);
}

TEST(CubinTest, KnowsTheOlderFormatAndDevicesWithoutReservedSharedMemory) {
  const absl::StatusOr<Cubin> cubin = ReadCubin(File(0x500550, 7));
  ASSERT_TRUE(cubin.ok()) << cubin.status();
  EXPECT_EQ(cubin->capability, 80);
  EXPECT_EQ(cubin->kernels.at(0).shared_bytes, 1024 + 160);
}

TEST(CubinTest, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(ReadCubin(File(0x6004b04, 8)).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ReadCubin(File(0x6005a04, 8, EM_X86_64)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CubinTest, RefusesDamagedFilesOfEveryLength) {
  const std::string whole = File(0x6005a04, 8);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(ReadCubin(absl::string_view(whole).substr(0, size)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << size << " bytes";
  }
}

TEST(CubinTest, NamesAreShort) {
  EXPECT_EQ(ShortKernelName("zeroth::cuda::Spin(int)"), "Spin");
  EXPECT_EQ(ShortKernelName("void zeroth::cuda::(anonymous namespace)::Cast<float, "
                            "(zeroth::Fp8Format)1, true>(long, float const*)"),
            "Cast<float, (Fp8Format)1, true>");
  EXPECT_EQ(ShortKernelName("void zeroth::cuda::Sum<2, zeroth::cuda::(anonymous namespace)::Plain"
                            "<__half> >(long)"),
            "Sum<2, Plain<__half> >");
}

}  // namespace
}  // namespace zeroth::cuda
