// Names of loaded kernels for perf and gdb.
#include <elf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <functional>

#include "device_runtime/src/gdb_symbols.h"
#include "device_runtime/src/perf_map.h"
#include "tests/device_runtime/module_builder.h"

// What gdb reads, as it finds it: by its name.
extern "C" {
struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  uint64_t symfile_size;
};
struct jit_descriptor {
  uint32_t version;
  uint32_t action_flag;
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};
extern jit_descriptor __jit_debug_descriptor;
}

namespace gantry::runtime {
namespace {

using ::testing::HasSubstr;
using testing::read_image;

std::string map_path() {
  return "/tmp/perf-" + std::to_string(getpid()) + ".map";
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs in a process of its own, whose map is its own too; what it returns is true if all is well.
bool in_child(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("GANTRY_PERF_MAP", "1", 1);
    const bool fine = body();
    unlink(map_path().c_str());
    _exit(fine ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(PerfMap, NamesTheKernelsOfEveryImageAtTheirAddresses) {
  EXPECT_TRUE(in_child([] {
    auto first = CodeImage::load(read_image("kernels"));
    auto second = CodeImage::load(read_image("kernels"));
    if (!first.ok() || !second.ok()) return false;
    std::string expected;
    for (const auto* image : {&*first, &*second}) {
      for (const CodeRange& range : image->code_ranges())
        expected += format_text("%lx %lx %s\n", range.address, range.bytes, range.name);
    }
    struct stat status {};
    stat(map_path().c_str(), &status);
    return contents(map_path()) == expected && (status.st_mode & 0777) == 0600;
  }));
}

TEST(PerfMap, IsNotWrittenUnlessAskedFor) {
  EXPECT_TRUE(in_child([] {
    setenv("GANTRY_PERF_MAP", "0", 1);
    return CodeImage::load(read_image("kernels")).ok() && access(map_path().c_str(), F_OK) != 0;
  }));
}

TEST(PerfMap, FollowsNoLinkAndTouchesNoFileOfSeveralNames) {
  EXPECT_TRUE(in_child([] {
    const std::string victim = map_path() + ".victim";
    std::ofstream(victim) << "precious\n";
    const CodeRange range{"k", 0x1000, 16};
    bool fine = symlink(victim.c_str(), map_path().c_str()) == 0;
    add_to_perf_map({&range, 1});
    fine = fine && contents(victim) == "precious\n";
    unlink(map_path().c_str());
    fine = fine && link(victim.c_str(), map_path().c_str()) == 0;
    add_to_perf_map({&range, 1});
    fine = fine && contents(victim) == "precious\n";
    unlink(victim.c_str());
    return fine;
  }));
}

TEST(PerfMap, WhatADeadProcessOfTheSameNumberLeftGoes) {
  EXPECT_TRUE(in_child([] {
    std::ofstream(map_path()) << "10 10 stale\n";
    chmod(map_path().c_str(), 0600);
    const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
    utimensat(AT_FDCWD, map_path().c_str(), long_ago, 0);
    const CodeRange range{"k", 0x1000, 16};
    add_to_perf_map({&range, 1});
    const bool replaced = contents(map_path()) == "1000 10 k\n";
    add_to_perf_map({&range, 1});
    return replaced && contents(map_path()) == "1000 10 k\n1000 10 k\n";
  }));
}

TEST(PerfMap, NamesStayOnTheirLine) {
  EXPECT_TRUE(in_child([] {
    const CodeRange range{"a b\n0 1 c", 0x1000, 16};
    add_to_perf_map({&range, 1});
    return contents(map_path()) == "1000 10 a_b_0_1_c\n";
  }));
}

template <typename T>
T read_at(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

TEST(GdbSymbols, TheFileHasAFunctionARangeAtItsAddress) {
  const CodeRange ranges[] = {{"conv_1", 0x7000'0000'1000, 0x20}, {"relu_1", 0x7000'0000'1020, 0x8}};
  const std::vector<std::byte> file = symbol_file(ranges);
  const auto header = read_at<Elf64_Ehdr>(file, 0);
  const auto section = [&](unsigned i) {
    return read_at<Elf64_Shdr>(file, header.e_shoff + i * sizeof(Elf64_Shdr));
  };
  EXPECT_EQ(header.e_machine, static_cast<uint16_t>(running_machine()));
  EXPECT_EQ(section(1).sh_addr, ranges[0].address);
  EXPECT_EQ(section(1).sh_size, 0x28u);
  ASSERT_EQ(section(2).sh_type, SHT_SYMTAB);
  const auto names = section(section(2).sh_link);
  for (size_t i = 0; i < 2; ++i) {
    const auto symbol = read_at<Elf64_Sym>(file, section(2).sh_offset + (i + 1) * sizeof(Elf64_Sym));
    EXPECT_STREQ(reinterpret_cast<const char*>(file.data() + names.sh_offset + symbol.st_name),
                 ranges[i].name);
    EXPECT_EQ(symbol.st_value, ranges[i].address);
    EXPECT_EQ(symbol.st_size, ranges[i].bytes);
  }
  const auto section_names = section(header.e_shstrndx);
  const auto name_of = [&](unsigned i) {
    return std::string(
        reinterpret_cast<const char*>(file.data() + section_names.sh_offset + section(i).sh_name));
  };
  EXPECT_EQ(name_of(1), ".text");
  EXPECT_EQ(name_of(2), ".symtab");
  EXPECT_EQ(name_of(3), ".strtab");
  EXPECT_EQ(name_of(4), ".shstrtab");
}

TEST(GdbSymbols, ImagesAreListedWhileTheyAreLoaded) {
  EXPECT_TRUE(in_child([] {
    setenv("GANTRY_GDB", "1", 1);
    auto first = CodeImage::load(read_image("kernels"));
    auto second = std::make_unique<CodeImage>(std::move(*CodeImage::load(read_image("kernels"))));
    const jit_code_entry* last = __jit_debug_descriptor.first_entry;
    bool fine = last != nullptr && last->next_entry != nullptr && last->next_entry->next_entry == nullptr;
    fine = fine && memcmp(last->symfile_addr, ELFMAG, SELFMAG) == 0;
    second.reset();
    fine = fine && __jit_debug_descriptor.first_entry != nullptr &&
           __jit_debug_descriptor.first_entry->next_entry == nullptr;
    *first = CodeImage();
    return fine && __jit_debug_descriptor.first_entry == nullptr;
  }));
}

TEST(GdbSymbols, NothingIsListedUnlessAskedFor) {
  EXPECT_TRUE(in_child([] {
    const auto image = CodeImage::load(read_image("kernels"));
    return image.ok() && __jit_debug_descriptor.first_entry == nullptr;
  }));
}

}  // namespace
}  // namespace gantry::runtime
