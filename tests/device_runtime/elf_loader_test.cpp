#include "device_runtime/src/elf_loader.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <span>

#include "gantry/kernel_abi.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime {
namespace {

using ::testing::HasSubstr;
using testing::read_image;
using testing::read_testdata;

constexpr uint64_t kPage = 4096;

Status parse_status(std::span<const std::byte> bytes, ElfMachine machine, uint64_t page = kPage) {
  return parse_elf(bytes, machine, page).status();
}

/// Applies `change` to each program header of a type.
template <typename Change>
std::vector<std::byte> with_program_headers(std::vector<std::byte> image, uint32_t type, Change change) {
  Elf64_Ehdr header;
  std::memcpy(&header, image.data(), sizeof header);
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr program;
    std::byte* at = image.data() + header.e_phoff + i * sizeof program;
    std::memcpy(&program, at, sizeof program);
    if (program.p_type != type) continue;
    change(program);
    std::memcpy(at, &program, sizeof program);
  }
  return image;
}

TEST(ElfLoader, RunsAKernelOfTheRunningArchitecture) {
  Result<CodeImage> image = CodeImage::load(read_image("kernels"));
  ASSERT_TRUE(image.ok()) << image.status().message();
  auto* add_one = reinterpret_cast<GantryKernelFn>(image->find("add_one"));
  ASSERT_NE(add_one, nullptr);
  float in[3] = {1, 2, 3}, out[3] = {};
  void* buffers[] = {in, out};
  const int64_t dims[] = {3};
  EXPECT_EQ(add_one(nullptr, buffers, dims), 0);
  EXPECT_EQ(out[2], 4.0f);
}

TEST(ElfLoader, RelocatesTablesOfAddresses) {
  Result<CodeImage> image = CodeImage::load(read_image("kernels"));
  ASSERT_TRUE(image.ok()) << image.status().message();
  auto* scale = reinterpret_cast<GantryKernelFn>(image->find("scale"));
  ASSERT_NE(scale, nullptr);
  const float factors[] = {0.5f, 2.0f, 3.0f};
  for (int64_t i = 0; i < 3; ++i) {
    float in[1] = {8}, out[1] = {};
    void* buffers[] = {in, out};
    const int64_t dims[] = {1, i};
    EXPECT_EQ(scale(nullptr, buffers, dims), 0);
    EXPECT_EQ(out[0], 8 * factors[i]);
  }
}

TEST(ElfLoader, KnowsWhichKernelHoldsAnAddress) {
  Result<CodeImage> image = CodeImage::load(read_image("kernels"));
  ASSERT_TRUE(image.ok()) << image.status().message();
  auto* entry = static_cast<std::byte*>(image->find("multiply"));
  ASSERT_NE(entry, nullptr);
  EXPECT_STREQ(image->symbol_at(entry + 4), "multiply");
  EXPECT_EQ(image->symbol_at(&entry), nullptr);
  EXPECT_EQ(image->find("absent"), nullptr);
}

TEST(ElfLoader, EveryByteFromAKernelToTheNextIsOfThatKernel) {
  Result<CodeImage> image = CodeImage::load(read_image("kernels"));
  ASSERT_TRUE(image.ok()) << image.status().message();
  const std::vector<CodeRange> ranges = image->code_ranges();
  ASSERT_GT(ranges.size(), 2u);
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(ranges[i].address, reinterpret_cast<uint64_t>(image->find(ranges[i].name)));
    EXPECT_GT(ranges[i].bytes, 0u);
    if (i + 1 < ranges.size()) {
      EXPECT_EQ(ranges[i].address + ranges[i].bytes, ranges[i + 1].address);
    }
  }
}

TEST(ElfLoader, ReadsImagesOfBothArchitectures) {
  EXPECT_TRUE(parse_status(read_testdata("kernels_x86_64.so"), ElfMachine::kX86_64).ok());
  EXPECT_TRUE(parse_status(read_testdata("kernels_aarch64.so"), ElfMachine::kAArch64).ok());
}

TEST(ElfLoader, SaysThatAnImageIsForAnotherMachine) {
  const Status status = parse_status(read_testdata("kernels_aarch64.so"), ElfMachine::kX86_64);
  EXPECT_EQ(status.code(), GANTRY_INCOMPATIBLE);
  EXPECT_THAT(status.message(), HasSubstr("it is for AArch64, this board is x86-64"));
}

TEST(ElfLoader, RefusesImagesForSmallerPages) {
  const Status status = parse_status(read_testdata("kernels_aarch64.so"), ElfMachine::kAArch64, 65536);
  EXPECT_EQ(status.code(), GANTRY_INCOMPATIBLE);
  EXPECT_THAT(status.message(), HasSubstr("65536"));
}

TEST(ElfLoader, RefusesWhatWouldRunOrImportCode) {
  for (const char* suffix : {"x86_64", "aarch64"}) {
    const auto machine = suffix[0] == 'x' ? ElfMachine::kX86_64 : ElfMachine::kAArch64;
    const auto message = [&](const std::string& name) {
      return parse_status(read_testdata(name + "_" + suffix + ".so"), machine).message();
    };
    EXPECT_THAT(message("imports"), HasSubstr("imports 'elsewhere'"));
    EXPECT_THAT(message("thread_local"), HasSubstr("thread-local"));
    EXPECT_THAT(message("constructor"), HasSubstr("constructors"));
  }
}

TEST(ElfLoader, RefusesMemoryThatIsWritableAndExecutable) {
  const auto image = with_program_headers(read_testdata("kernels_x86_64.so"), PT_LOAD,
                                          [](Elf64_Phdr& header) { header.p_flags |= PF_W | PF_X; });
  EXPECT_THAT(parse_status(image, ElfMachine::kX86_64).message(), HasSubstr("writable and executable"));
}

TEST(ElfLoader, RefusesSegmentsOutsideTheFile) {
  const auto image = with_program_headers(read_testdata("kernels_x86_64.so"), PT_LOAD,
                                          [](Elf64_Phdr& header) { header.p_offset = ~uint64_t{0} - 8; });
  EXPECT_THAT(parse_status(image, ElfMachine::kX86_64).message(), HasSubstr("outside the file"));
}

TEST(ElfLoader, RefusesSegmentsLargerThanAnyImage) {
  const auto image = with_program_headers(read_testdata("kernels_x86_64.so"), PT_LOAD,
                                          [](Elf64_Phdr& header) { header.p_memsz = uint64_t{1} << 40; });
  EXPECT_THAT(parse_status(image, ElfMachine::kX86_64).message(), HasSubstr("beyond 1.0 GiB"));
}

/// An image without code whose symbols, all of data, share one name of 511 characters.
struct SharedNameImage {
  Elf64_Ehdr header{};
  Elf64_Phdr programs[2]{};
  Elf64_Dyn dynamic[5]{};
  uint32_t hash[2]{};  ///< buckets, symbols
  Elf64_Sym symbols[9]{};
  char names[513]{};

  /// `symbols`: with the first, which has no name.
  explicit SharedNameImage(uint32_t symbol_count) {
    const uint8_t identity[] = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
    std::memcpy(header.e_ident, identity, sizeof identity);
    header.e_type = ET_DYN;
    header.e_machine = EM_X86_64;
    header.e_version = EV_CURRENT;
    header.e_phoff = offsetof(SharedNameImage, programs);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 2;
    programs[0].p_type = PT_LOAD;
    programs[0].p_flags = PF_R;
    programs[0].p_filesz = programs[0].p_memsz = sizeof *this;
    programs[1].p_type = PT_DYNAMIC;
    programs[1].p_vaddr = programs[1].p_offset = offsetof(SharedNameImage, dynamic);
    programs[1].p_filesz = programs[1].p_memsz = sizeof dynamic;
    dynamic[0] = {DT_HASH, {offsetof(SharedNameImage, hash)}};
    dynamic[1] = {DT_SYMTAB, {offsetof(SharedNameImage, symbols)}};
    dynamic[2] = {DT_STRTAB, {offsetof(SharedNameImage, names)}};
    dynamic[3] = {DT_STRSZ, {sizeof names}};
    hash[1] = symbol_count;
    for (uint32_t i = 1; i < symbol_count; ++i) {
      symbols[i].st_name = 1;
      symbols[i].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
      symbols[i].st_shndx = SHN_ABS;
    }
    std::memset(names + 1, 'x', sizeof names - 2);
  }
};

TEST(ElfLoader, SharedNamesCannotAskForEndlessWork) {
  const SharedNameImage one(2), many(9);
  EXPECT_TRUE(parse_status(std::as_bytes(std::span(&one, 1)), ElfMachine::kX86_64).ok());
  const Status status = parse_status(std::as_bytes(std::span(&many, 1)), ElfMachine::kX86_64);
  EXPECT_EQ(status.code(), GANTRY_INVALID_MODULE);
  EXPECT_THAT(status.message(), HasSubstr("names overlap"));
}

TEST(ElfLoader, SurvivesEveryTruncation) {
  const auto image = read_testdata("kernels_x86_64.so");
  for (size_t size = 0; size < image.size(); ++size) {
    // Only the section headers may be missing.
    const Status status = parse_status(std::span(image).first(size), ElfMachine::kX86_64);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), GANTRY_INVALID_MODULE) << size;
    }
  }
}

}  // namespace
}  // namespace gantry::runtime
