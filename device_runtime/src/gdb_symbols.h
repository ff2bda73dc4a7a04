// Names of kernels for gdb, by its interface for code that is made while a program runs (GDB manual, "JIT
// Compilation Interface").
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device_runtime/src/elf_loader.h"

namespace gantry::runtime {

/// Symbols of an image, which gdb knows while this lives. Thread-safe.
class GdbSymbols {
 public:
  /// Null unless the environment has GANTRY_GDB (not empty, not 0).
  static std::unique_ptr<GdbSymbols> announce(std::span<const CodeRange> ranges);
  ~GdbSymbols();
  GdbSymbols(const GdbSymbols&) = delete;
  GdbSymbols& operator=(const GdbSymbols&) = delete;

 private:
  GdbSymbols() = default;
  struct Entry;
  std::unique_ptr<Entry> entry_;
};

/// An ELF file of symbols alone: a function a range, at the addresses that they have in this process.
std::vector<std::byte> symbol_file(std::span<const CodeRange> ranges);

}  // namespace gantry::runtime
