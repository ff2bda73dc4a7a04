#include "device_runtime/src/gdb_symbols.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <mutex>
#include <string>

// Layout and names are gdb's. It stops at the function, and reads the descriptor then, or when it is
// attached.
extern "C" {
struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  uint64_t symfile_size;
};
struct jit_descriptor {
  uint32_t version;
  uint32_t action_flag;  // 0: nothing, 1: an entry was added, 2: one goes
  jit_code_entry* relevant_entry;
  jit_code_entry* first_entry;
};
void __jit_debug_register_code();
extern jit_descriptor __jit_debug_descriptor;
__attribute__((noinline, used)) void __jit_debug_register_code() {
  asm volatile("" ::: "memory");
}
__attribute__((used)) jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
}

namespace gantry::runtime {
namespace {

// The list is one for the process; only this file changes it.
std::mutex& list_mutex() {
  static std::mutex mutex;
  return mutex;
}

template <typename T>
void append(std::vector<std::byte>& bytes, const T& value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof value);
}
void append_text(std::vector<std::byte>& bytes, const std::string& text) {
  const auto* from = reinterpret_cast<const std::byte*>(text.data());
  bytes.insert(bytes.end(), from, from + text.size());
}

enum Section : unsigned { kNone, kText, kSymbols, kNames, kSectionNames, kSectionCount };

Elf64_Shdr section(unsigned name, unsigned type, uint64_t offset, uint64_t size) {
  Elf64_Shdr header{};
  header.sh_name = name;
  header.sh_type = type;
  header.sh_offset = offset;
  header.sh_size = size;
  header.sh_addralign = 1;
  return header;
}

Elf64_Ehdr file_header() {
  Elf64_Ehdr header{};
  memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = static_cast<uint16_t>(running_machine());
  header.e_version = EV_CURRENT;
  header.e_shoff = sizeof header;
  header.e_ehsize = sizeof header;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = kSectionCount;
  header.e_shstrndx = kSectionNames;
  return header;
}

}  // namespace

std::vector<std::byte> symbol_file(std::span<const CodeRange> ranges) {
  const std::string section_names("\0.text\0.symtab\0.strtab\0.shstrtab\0", 33);
  std::string names(1, '\0');
  std::vector<Elf64_Sym> symbols(1);
  uint64_t begin = UINT64_MAX, end = 0;
  for (const CodeRange& range : ranges) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<uint32_t>(names.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_shndx = kText;
    symbol.st_value = range.address;
    symbol.st_size = range.bytes;
    symbols.push_back(symbol);
    names.append(range.name).push_back('\0');
    begin = std::min(begin, range.address);
    end = std::max(end, range.address + range.bytes);
  }
  const uint64_t symbols_at = sizeof(Elf64_Ehdr) + kSectionCount * sizeof(Elf64_Shdr);
  const uint64_t names_at = symbols_at + symbols.size() * sizeof(Elf64_Sym);
  Elf64_Shdr text = section(1, SHT_NOBITS, symbols_at, end - begin);
  text.sh_flags = SHF_ALLOC | SHF_EXECINSTR;
  text.sh_addr = begin;
  Elf64_Shdr table = section(7, SHT_SYMTAB, symbols_at, symbols.size() * sizeof(Elf64_Sym));
  table.sh_link = kNames;
  table.sh_info = 1;  // the first symbol that is not local
  table.sh_addralign = 8;
  table.sh_entsize = sizeof(Elf64_Sym);

  std::vector<std::byte> bytes;
  append(bytes, file_header());
  append(bytes, Elf64_Shdr{});
  append(bytes, text);
  append(bytes, table);
  append(bytes, section(15, SHT_STRTAB, names_at, names.size()));
  append(bytes, section(23, SHT_STRTAB, names_at + names.size(), section_names.size()));
  for (const Elf64_Sym& symbol : symbols) append(bytes, symbol);
  append_text(bytes, names);
  append_text(bytes, section_names);
  return bytes;
}

struct GdbSymbols::Entry {
  std::vector<std::byte> file;
  jit_code_entry listed{};
};

std::unique_ptr<GdbSymbols> GdbSymbols::announce(std::span<const CodeRange> ranges) {
  const char* value = secure_getenv("GANTRY_GDB");
  const bool wanted = value != nullptr && value[0] != 0 && strcmp(value, "0") != 0;
  if (!wanted || ranges.empty()) return nullptr;
  std::unique_ptr<GdbSymbols> symbols(new GdbSymbols);
  symbols->entry_ = std::make_unique<Entry>();
  Entry& entry = *symbols->entry_;
  entry.file = symbol_file(ranges);
  entry.listed.symfile_addr = reinterpret_cast<const char*>(entry.file.data());
  entry.listed.symfile_size = entry.file.size();
  const std::lock_guard lock(list_mutex());
  entry.listed.next_entry = __jit_debug_descriptor.first_entry;
  if (entry.listed.next_entry != nullptr) entry.listed.next_entry->prev_entry = &entry.listed;
  __jit_debug_descriptor.first_entry = &entry.listed;
  __jit_debug_descriptor.relevant_entry = &entry.listed;
  __jit_debug_descriptor.action_flag = 1;
  __jit_debug_register_code();
  return symbols;
}

GdbSymbols::~GdbSymbols() {
  if (entry_ == nullptr) return;
  jit_code_entry& listed = entry_->listed;
  const std::lock_guard lock(list_mutex());
  if (listed.prev_entry != nullptr)
    listed.prev_entry->next_entry = listed.next_entry;
  else
    __jit_debug_descriptor.first_entry = listed.next_entry;
  if (listed.next_entry != nullptr) listed.next_entry->prev_entry = listed.prev_entry;
  __jit_debug_descriptor.relevant_entry = &listed;
  __jit_debug_descriptor.action_flag = 2;
  __jit_debug_register_code();
}

}  // namespace gantry::runtime
