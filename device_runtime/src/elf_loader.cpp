#include "device_runtime/src/elf_loader.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "device_runtime/src/gdb_symbols.h"
#include "device_runtime/src/perf_map.h"

namespace gantry::runtime {
namespace {

uint64_t page_size() {
  return static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}
uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

Status protect(std::byte* address, uint64_t size, int protection) {
  if (size == 0 || mprotect(address, size, protection) == 0) return Status();
  return failure(GANTRY_INTERNAL, "code image: cannot protect its memory: %s", strerror(errno));
}

Status protect_all(std::byte* base, const ElfLayout& layout, uint64_t page) {
  uint64_t done = 0;  // bytes from the base that have their protection; gaps become inaccessible
  for (const ElfLayout::Segment& segment : layout.segments) {
    const uint64_t begin = segment.address / page * page;
    const uint64_t end = round_up(segment.address + segment.memory_size, page);
    GANTRY_TRY(protect(base + done, begin - done, PROT_NONE));
    const int protection =
        PROT_READ | (segment.writable ? PROT_WRITE : 0) | (segment.executable ? PROT_EXEC : 0);
    GANTRY_TRY(protect(base + begin, end - begin, protection));
    done = end;
  }
  // Whole pages only: a page that also holds ordinary data stays writable. Code is never among them, since a
  // page belongs to one segment.
  const uint64_t begin = round_up(layout.relro_address, page);
  const uint64_t end = (layout.relro_address + layout.relro_size) / page * page;
  for (const ElfLayout::Segment& segment : layout.segments) {
    if (!segment.writable) continue;
    const uint64_t from = std::max(begin, segment.address / page * page);
    const uint64_t to = std::min(end, round_up(segment.address + segment.memory_size, page));
    if (from < to) GANTRY_TRY(protect(base + from, to - from, PROT_READ));
  }
  return Status();
}

}  // namespace

ElfMachine running_machine() {
#if defined(__x86_64__)
  return ElfMachine::kX86_64;
#elif defined(__aarch64__)
  return ElfMachine::kAArch64;
#else
#error "gantry runs on x86-64 and AArch64"
#endif
}

CodeImage::CodeImage() = default;

CodeImage::CodeImage(CodeImage&& other) noexcept {
  *this = static_cast<CodeImage&&>(other);
}

CodeImage& CodeImage::operator=(CodeImage&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(layout_, other.layout_);
  std::swap(gdb_symbols_, other.gdb_symbols_);
  return *this;
}

CodeImage::~CodeImage() {
  gdb_symbols_.reset();
  if (base_ != nullptr) munmap(base_, round_up(layout_.memory_size, page_size()));
}

Result<CodeImage> CodeImage::load(std::span<const std::byte> bytes) {
  const uint64_t page = page_size();
  Result<ElfLayout> layout = parse_elf(bytes, running_machine(), page);
  if (!layout.ok()) return layout.status();
  CodeImage image;
  image.layout_ = std::move(*layout);
  const uint64_t size = round_up(image.layout_.memory_size, page);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return failure(GANTRY_OUT_OF_MEMORY, "code image: no memory for its %s",
                   byte_text(static_cast<double>(size)).c_str());
  }
  image.base_ = static_cast<std::byte*>(memory);
  for (const ElfLayout::Segment& segment : image.layout_.segments) {
    if (segment.file_size == 0) continue;
    memcpy(image.base_ + segment.address, bytes.data() + segment.file_offset, segment.file_size);
  }
  const auto base_address = reinterpret_cast<uint64_t>(memory);
  for (const ElfLayout::Relocation& relocation : image.layout_.relocations) {
    const uint64_t value = base_address + relocation.value;
    memcpy(image.base_ + relocation.address, &value, sizeof value);
  }
  // On AArch64 the instruction cache does not see what was written until it is told; on x86-64 this is
  // nothing.
  __builtin___clear_cache(reinterpret_cast<char*>(memory), reinterpret_cast<char*>(memory) + size);
  if (Status status = protect_all(image.base_, image.layout_, page); !status.ok()) return status;
  const std::vector<CodeRange> ranges = image.code_ranges();
  add_to_perf_map(ranges);
  image.gdb_symbols_ = GdbSymbols::announce(ranges);
  return image;
}

void* CodeImage::find(std::string_view symbol) const {
  const auto& functions = layout_.functions;
  const auto found =
      std::lower_bound(layout_.by_name.begin(), layout_.by_name.end(), symbol,
                       [&](uint32_t i, std::string_view name) { return functions[i].name < name; });
  if (found == layout_.by_name.end() || functions[*found].name != symbol) return nullptr;
  return base_ + functions[*found].address;
}

std::vector<CodeRange> CodeImage::code_ranges() const {
  std::vector<CodeRange> ranges;
  const auto base = reinterpret_cast<uint64_t>(base_);
  const auto& functions = layout_.functions;
  for (size_t i = 0; i < functions.size(); ++i) {
    const uint64_t begin = functions[i].address;
    uint64_t end = begin + functions[i].size;
    for (const ElfLayout::Segment& segment : layout_.segments) {
      if (begin >= segment.address && begin < segment.address + segment.file_size)
        end = segment.address + segment.file_size;
    }
    if (i + 1 < functions.size()) end = std::min(end, functions[i + 1].address);
    ranges.push_back({functions[i].name.c_str(), base + begin, end - begin});
  }
  return ranges;
}

const char* CodeImage::symbol_at(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  if (base_ == nullptr || at < base_ || at >= base_ + layout_.memory_size) return nullptr;
  const auto offset = static_cast<uint64_t>(at - base_);
  for (const ElfLayout::Symbol& function : layout_.functions) {
    if (offset >= function.address && offset - function.address < function.size) return function.name.c_str();
  }
  return nullptr;
}

}  // namespace gantry::runtime
