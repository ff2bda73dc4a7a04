// Loads a code image: an ELF64 shared object that imports nothing, into memory that is never writable and
// executable at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device_runtime/src/status.h"

namespace gantry::runtime {

enum class ElfMachine : uint16_t { kX86_64 = 62, kAArch64 = 183 };
/// The machine that this program was built for.
ElfMachine running_machine();
/// "x86-64", "AArch64"
const char* machine_name(ElfMachine machine);

/// What an image asks of its loader; offsets are from the image's base.
struct ElfLayout {
  struct Segment {
    uint64_t address = 0, memory_size = 0;
    uint64_t file_offset = 0, file_size = 0;
    bool writable = false, executable = false;
  };
  struct Relocation {
    uint64_t address = 0;  ///< of 8 bytes that receive the base plus…
    uint64_t value = 0;    ///< …this
  };
  struct Symbol {
    std::string name;
    uint64_t address = 0, size = 0;
  };
  uint64_t memory_size = 0;  ///< from the base to the end of the last segment
  std::vector<Segment> segments;
  std::vector<Relocation> relocations;
  std::vector<Symbol> functions;               ///< exported, ascending addresses
  std::vector<uint32_t> by_name;               ///< indices into `functions`, ascending names
  uint64_t relro_address = 0, relro_size = 0;  ///< read-only once relocated
};

/// Reads and checks an image; touches nothing but its bytes. INVALID_MODULE says what is wrong, INCOMPATIBLE
/// that the image is for another machine or for smaller pages than `page_size`.
Result<ElfLayout> parse_elf(std::span<const std::byte> bytes, ElfMachine machine, uint64_t page_size);

/// A function of a loaded image with what belongs to it alone: it ends where the next one begins.
struct CodeRange {
  const char* name = nullptr;  ///< lives as long as the image
  uint64_t address = 0;        ///< in this process
  uint64_t bytes = 0;
};

class GdbSymbols;

/// A loaded image; unloads itself. Movable; safe to read from several threads.
class CodeImage {
 public:
  CodeImage();
  CodeImage(CodeImage&& other) noexcept;
  CodeImage& operator=(CodeImage&& other) noexcept;
  ~CodeImage();

  /// Loads an image for the running machine; `bytes` are not needed afterwards. perf and gdb hear of it where
  /// the environment asks for that (perf_map.h, gdb_symbols.h). Errors: as parse_elf, and OUT_OF_MEMORY.
  static Result<CodeImage> load(std::span<const std::byte> bytes);

  /// Entry of an exported function, null if there is none of that name.
  void* find(std::string_view symbol) const;
  /// Name of the exported function that holds this address, null if none does. Safe in a signal handler.
  const char* symbol_at(const void* address) const;
  /// Ascending. The parts of a kernel that its threads run have no symbols of their own, and follow it.
  std::vector<CodeRange> code_ranges() const;
  uint64_t memory_size() const { return layout_.memory_size; }

 private:
  std::byte* base_ = nullptr;
  ElfLayout layout_;
  std::unique_ptr<GdbSymbols> gdb_symbols_;
};

}  // namespace gantry::runtime
