// Reading an image: every offset, size and index is checked against the bytes there are.
#include <elf.h>
#include <string.h>

#include <algorithm>
#include <optional>

#include "device_runtime/src/elf_loader.h"

namespace gantry::runtime {
namespace {

constexpr uint64_t kMaxImageBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxSymbols = 1u << 20;
constexpr size_t kMaxSegments = 64;

template <typename... Args>
Status damaged(const char* format, Args... arguments) {
  std::string text;
  if constexpr (sizeof...(arguments) == 0) {
    text = format;
  } else {
    text = format_text(format, arguments...);
  }
  return Status(GANTRY_INVALID_MODULE, "code image: " + text);
}

/// True where [offset, offset + size) lies in [0, limit).
bool fits(uint64_t offset, uint64_t size, uint64_t limit) {
  return offset <= limit && size <= limit - offset;
}

class ElfParser {
 public:
  ElfParser(std::span<const std::byte> bytes, ElfMachine machine, uint64_t page_size)
      : bytes_(bytes), machine_(machine), page_size_(page_size) {}

  Status parse() {
    GANTRY_TRY(read_header());
    GANTRY_TRY(read_program_headers());
    GANTRY_TRY(read_dynamic());
    GANTRY_TRY(read_symbols());
    GANTRY_TRY(read_relocations(rela_, rela_size_));
    return read_relocations(plt_rela_, plt_rela_size_);
  }
  ElfLayout take_layout() { return std::move(layout_); }

 private:
  template <typename T>
  T read(uint64_t offset) const {  // the caller has checked the bounds
    T value;
    memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  /// File offset of `size` bytes at an address, where a segment's file part holds all of them.
  std::optional<uint64_t> file_offset(uint64_t address, uint64_t size) const {
    for (const ElfLayout::Segment& segment : layout_.segments) {
      if (address < segment.address) continue;
      const uint64_t offset = address - segment.address;
      if (fits(offset, size, segment.file_size)) return segment.file_offset + offset;
    }
    return std::nullopt;
  }

  Status read_header();
  Status read_program_headers();
  Status add_load_segment(const Elf64_Phdr& header);
  Status read_dynamic();
  Status read_dynamic_entry(const Elf64_Dyn& entry);
  Result<uint64_t> symbol_count() const;
  Result<uint64_t> gnu_hash_symbol_count() const;
  Status read_symbols();
  Status read_relocations(uint64_t table, uint64_t size);
  Result<uint64_t> relocation_value(const Elf64_Rela& relocation) const;
  Result<std::string> symbol_name(const Elf64_Sym& symbol) const;

  std::span<const std::byte> bytes_;
  ElfMachine machine_;
  uint64_t page_size_;
  Elf64_Ehdr header_{};
  ElfLayout layout_;
  std::optional<Elf64_Phdr> dynamic_;
  // From the dynamic table; addresses, 0 where absent.
  uint64_t symbols_ = 0, strings_ = 0, strings_size_ = 0, hash_ = 0, gnu_hash_ = 0;
  uint64_t rela_ = 0, rela_size_ = 0, plt_rela_ = 0, plt_rela_size_ = 0;
  std::vector<Elf64_Sym> symbol_table_;
};

Status ElfParser::read_header() {
  if (bytes_.size() < sizeof(Elf64_Ehdr)) return damaged("shorter than an ELF header");
  header_ = read<Elf64_Ehdr>(0);
  if (memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) return damaged("not an ELF file");
  if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB) {
    return damaged("not a 64-bit little-endian ELF file");
  }
  if (header_.e_ident[EI_VERSION] != EV_CURRENT || header_.e_version != EV_CURRENT) {
    return damaged("unknown ELF version");
  }
  if (header_.e_type != ET_DYN) return damaged("not a shared object");
  if (header_.e_machine != static_cast<uint16_t>(machine_)) {
    const auto theirs = static_cast<ElfMachine>(header_.e_machine);
    return failure(GANTRY_INCOMPATIBLE, "code image: it is for %s, this board is %s: compile for this board",
                   machine_name(theirs), machine_name(machine_));
  }
  if (header_.e_phentsize != sizeof(Elf64_Phdr) || header_.e_phnum == 0 ||
      !fits(header_.e_phoff, uint64_t{header_.e_phnum} * sizeof(Elf64_Phdr), bytes_.size())) {
    return damaged("the program headers lie outside the file");
  }
  return Status();
}

Status ElfParser::add_load_segment(const Elf64_Phdr& header) {
  if (!fits(header.p_offset, header.p_filesz, bytes_.size()))
    return damaged("a segment lies outside the file");
  if (header.p_filesz > header.p_memsz) return damaged("a segment has more bytes in the file than in memory");
  if (!fits(header.p_vaddr, header.p_memsz, kMaxImageBytes)) {
    return damaged("a segment lies beyond %s", byte_text(static_cast<double>(kMaxImageBytes)).c_str());
  }
  if ((header.p_flags & PF_W) && (header.p_flags & PF_X))
    return damaged("a segment is writable and executable");
  if (header.p_memsz == 0) return Status();
  if (!layout_.segments.empty()) {
    const ElfLayout::Segment& last = layout_.segments.back();
    const uint64_t end = last.address + last.memory_size;
    if (header.p_vaddr < end) return damaged("segments overlap or are out of order");
    // Two segments on one page cannot have different protection.
    if ((end - 1) / page_size_ >= header.p_vaddr / page_size_) {
      return failure(GANTRY_INCOMPATIBLE,
                     "code image: its segments are not aligned to this board's pages of %llu bytes",
                     static_cast<unsigned long long>(page_size_));
    }
  }
  if (layout_.segments.size() == kMaxSegments) return damaged("too many segments");
  layout_.segments.push_back({header.p_vaddr, header.p_memsz, header.p_offset, header.p_filesz,
                              (header.p_flags & PF_W) != 0, (header.p_flags & PF_X) != 0});
  layout_.memory_size = header.p_vaddr + header.p_memsz;
  return Status();
}

Status ElfParser::read_program_headers() {
  std::optional<Elf64_Phdr> relro;
  for (unsigned i = 0; i < header_.e_phnum; ++i) {
    const auto header = read<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr));
    switch (header.p_type) {
      case PT_LOAD:
        GANTRY_TRY(add_load_segment(header));
        break;
      case PT_DYNAMIC:
        if (dynamic_) return damaged("two dynamic tables");
        dynamic_ = header;
        break;
      case PT_GNU_RELRO:
        relro = header;
        break;
      case PT_TLS:
        return damaged("it uses thread-local storage, which images must not");
      case PT_INTERP:
        return damaged("it asks for a program interpreter");
      case PT_GNU_STACK:
        if (header.p_flags & PF_X) return damaged("it asks for an executable stack");
        break;
      default:
        break;
    }
  }
  if (layout_.segments.empty()) return damaged("nothing to load");
  if (!dynamic_) return damaged("no dynamic table");
  if (relro) {
    if (!fits(relro->p_vaddr, relro->p_memsz, layout_.memory_size)) {
      return damaged("its read-only-after-relocation part lies outside the image");
    }
    layout_.relro_address = relro->p_vaddr;
    layout_.relro_size = relro->p_memsz;
  }
  return Status();
}

Status ElfParser::read_dynamic_entry(const Elf64_Dyn& entry) {
  const uint64_t value = entry.d_un.d_val;
  switch (entry.d_tag) {
    case DT_NEEDED:
      return damaged("it needs another library; images import nothing");
    case DT_SYMTAB:
      symbols_ = value;
      break;
    case DT_STRTAB:
      strings_ = value;
      break;
    case DT_STRSZ:
      strings_size_ = value;
      break;
    case DT_HASH:
      hash_ = value;
      break;
    case DT_GNU_HASH:
      gnu_hash_ = value;
      break;
    case DT_RELA:
      rela_ = value;
      break;
    case DT_RELASZ:
      rela_size_ = value;
      break;
    case DT_JMPREL:
      plt_rela_ = value;
      break;
    case DT_PLTRELSZ:
      plt_rela_size_ = value;
      break;
    case DT_SYMENT:
      if (value != sizeof(Elf64_Sym)) return damaged("unknown size of a symbol");
      break;
    case DT_RELAENT:
      if (value != sizeof(Elf64_Rela)) return damaged("unknown size of a relocation");
      break;
    case DT_PLTREL:
      if (value != DT_RELA) return damaged("relocations without addends");
      break;
    case DT_REL:
    case 36:  // DT_RELR, newer than some headers
      return damaged("relocations in a form that images must not use");
    case DT_TEXTREL:
      return damaged("relocations in read-only code");
    case DT_INIT:
    case DT_FINI:
    case DT_INIT_ARRAYSZ:
    case DT_FINI_ARRAYSZ:
    case DT_PREINIT_ARRAYSZ:
      if (value != 0) return damaged("it has constructors or destructors, which images must not");
      break;
    default:
      break;
  }
  return Status();
}

Status ElfParser::read_dynamic() {
  const auto offset = file_offset(dynamic_->p_vaddr, dynamic_->p_filesz);
  if (!offset) return damaged("the dynamic table lies outside the file");
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic_->p_filesz; at += sizeof(Elf64_Dyn)) {
    const auto entry = read<Elf64_Dyn>(*offset + at);
    if (entry.d_tag == DT_NULL) break;
    GANTRY_TRY(read_dynamic_entry(entry));
  }
  return symbols_ == 0 || strings_ == 0 ? damaged("no symbol table") : Status();
}

Result<uint64_t> ElfParser::gnu_hash_symbol_count() const {
  const auto start = file_offset(gnu_hash_, 16);
  if (!start) return damaged("the symbol hash table lies outside the file");
  const uint32_t buckets = read<uint32_t>(*start), first = read<uint32_t>(*start + 4);
  const uint64_t bloom = read<uint32_t>(*start + 8);
  const uint64_t buckets_at = gnu_hash_ + 16 + bloom * 8;
  const auto bucket_offset = file_offset(buckets_at, uint64_t{buckets} * 4);
  if (!bucket_offset) return damaged("the symbol hash table lies outside the file");
  uint64_t last = 0;
  for (uint32_t i = 0; i < buckets; ++i)
    last = std::max<uint64_t>(last, read<uint32_t>(*bucket_offset + 4ull * i));
  if (last < first) return uint64_t{first};  // nothing exported
  // The chain of the highest symbol ends where its lowest bit is set.
  const uint64_t chains_at = buckets_at + uint64_t{buckets} * 4;
  for (; last < kMaxSymbols; ++last) {
    const auto chain = file_offset(chains_at + (last - first) * 4, 4);
    if (!chain) return damaged("the symbol hash table lies outside the file");
    if (read<uint32_t>(*chain) & 1) return last + 1;
  }
  return damaged("too many symbols");
}

Result<uint64_t> ElfParser::symbol_count() const {
  if (hash_ != 0) {
    const auto start = file_offset(hash_, 8);
    if (!start) return damaged("the symbol hash table lies outside the file");
    return uint64_t{read<uint32_t>(*start + 4)};
  }
  if (gnu_hash_ != 0) return gnu_hash_symbol_count();
  return damaged("no symbol hash table");
}

Result<std::string> ElfParser::symbol_name(const Elf64_Sym& symbol) const {
  if (symbol.st_name >= strings_size_) return damaged("a symbol's name lies outside the string table");
  const auto offset = file_offset(strings_, strings_size_);
  if (!offset) return damaged("the string table lies outside the file");
  const char* text = reinterpret_cast<const char*>(bytes_.data() + *offset + symbol.st_name);
  const size_t limit = strings_size_ - symbol.st_name;
  const size_t length = strnlen(text, limit);
  if (length == limit) return damaged("a symbol's name has no end");
  return std::string(text, length);
}

Status ElfParser::read_symbols() {
  Result<uint64_t> count = symbol_count();
  if (!count.ok()) return count.status();
  if (*count > kMaxSymbols) return damaged("too many symbols");
  const auto offset = file_offset(symbols_, *count * sizeof(Elf64_Sym));
  if (!offset) return damaged("the symbol table lies outside the file");
  uint64_t text_bytes = 0;
  for (uint64_t i = 0; i < *count; ++i) {
    const auto symbol = read<Elf64_Sym>(*offset + i * sizeof(Elf64_Sym));
    symbol_table_.push_back(symbol);
    if (i == 0) continue;
    Result<std::string> name = symbol_name(symbol);
    if (!name.ok()) return name.status();
    text_bytes += name->size();
    if (text_bytes > bytes_.size()) return damaged("the symbols' names overlap");
    if (symbol.st_shndx == SHN_UNDEF) return damaged("it imports '%s'; images import nothing", name->c_str());
    const unsigned type = ELF64_ST_TYPE(symbol.st_info);
    if (type == STT_TLS || type == STT_GNU_IFUNC) {
      return damaged("symbol '%s' is of a kind that images must not use", name->c_str());
    }
    if (symbol.st_shndx != SHN_ABS && !fits(symbol.st_value, symbol.st_size, layout_.memory_size)) {
      return damaged("symbol '%s' lies outside the image", name->c_str());
    }
    if (type != STT_FUNC || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) continue;
    const bool in_code =
        std::any_of(layout_.segments.begin(), layout_.segments.end(), [&](const auto& segment) {
          return segment.executable && symbol.st_value >= segment.address &&
                 fits(symbol.st_value - segment.address, std::max<uint64_t>(symbol.st_size, 1),
                      segment.file_size);
        });
    if (!in_code) return damaged("function '%s' does not lie in code", name->c_str());
    layout_.functions.push_back({*name, symbol.st_value, symbol.st_size});
  }
  std::sort(layout_.functions.begin(), layout_.functions.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  for (uint32_t i = 0; i < layout_.functions.size(); ++i) layout_.by_name.push_back(i);
  std::sort(layout_.by_name.begin(), layout_.by_name.end(),
            [&](uint32_t a, uint32_t b) { return layout_.functions[a].name < layout_.functions[b].name; });
  return Status();
}

Result<uint64_t> ElfParser::relocation_value(const Elf64_Rela& relocation) const {
  const uint32_t type = ELF64_R_TYPE(relocation.r_info);
  const bool x86 = machine_ == ElfMachine::kX86_64;
  const auto addend = static_cast<uint64_t>(relocation.r_addend);
  const bool relative = type == (x86 ? R_X86_64_RELATIVE : R_AARCH64_RELATIVE);
  const bool absolute = type == (x86 ? R_X86_64_64 : R_AARCH64_ABS64);
  const bool table = type == (x86 ? R_X86_64_GLOB_DAT : R_AARCH64_GLOB_DAT) ||
                     type == (x86 ? R_X86_64_JUMP_SLOT : R_AARCH64_JUMP_SLOT);
  uint64_t value = addend;
  if (!relative) {
    if (!absolute && !table) return damaged("relocation type %u is not one that images may use", type);
    const uint64_t index = ELF64_R_SYM(relocation.r_info);
    if (index == 0 || index >= symbol_table_.size())
      return damaged("a relocation names no symbol of the image");
    if (symbol_table_[index].st_shndx == SHN_ABS) return damaged("a relocation names an absolute symbol");
    // x86-64 adds no addend in its tables; AArch64 does.
    value = symbol_table_[index].st_value + (absolute || !x86 ? addend : 0);
  }
  if (value > layout_.memory_size) return damaged("a relocation points outside the image");
  return value;
}

Status ElfParser::read_relocations(uint64_t table, uint64_t size) {
  if (table == 0 || size == 0) return Status();
  const auto offset = file_offset(table, size);
  if (!offset || size % sizeof(Elf64_Rela) != 0) return damaged("the relocations lie outside the file");
  for (uint64_t at = 0; at < size; at += sizeof(Elf64_Rela)) {
    const auto relocation = read<Elf64_Rela>(*offset + at);
    const uint64_t target = relocation.r_offset;
    const bool writable =
        std::any_of(layout_.segments.begin(), layout_.segments.end(), [&](const auto& segment) {
          return segment.writable && target >= segment.address &&
                 fits(target - segment.address, 8, segment.memory_size);
        });
    if (!writable) return damaged("a relocation writes outside the writable segments");
    Result<uint64_t> value = relocation_value(relocation);
    if (!value.ok()) return value.status();
    layout_.relocations.push_back({target, *value});
  }
  return Status();
}

}  // namespace

const char* machine_name(ElfMachine machine) {
  switch (machine) {
    case ElfMachine::kX86_64:
      return "x86-64";
    case ElfMachine::kAArch64:
      return "AArch64";
  }
  return "another machine";
}

Result<ElfLayout> parse_elf(std::span<const std::byte> bytes, ElfMachine machine, uint64_t page_size) {
  ElfParser parser(bytes, machine, page_size);
  if (Status status = parser.parse(); !status.ok()) return status;
  return parser.take_layout();
}

}  // namespace gantry::runtime
