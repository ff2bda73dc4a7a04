// Structs of gantry/runtime.h, which a program of another version passes in another size.
#pragma once

#include <stdint.h>
#include <string.h>

#include <algorithm>

#include "device_runtime/src/status.h"

namespace gantry::runtime {

/// Sizes that a struct can have: one that nobody set is 0 or anything.
inline bool is_struct_size(size_t size) {
  return size >= sizeof(uint64_t) && size <= 65536;
}

/// As much of `known` as the caller's struct holds; 0 behind it.
template <typename T>
void fill(void* out, size_t out_size, const T& known) {
  memcpy(out, &known, std::min(out_size, sizeof known));
  if (out_size > sizeof known) memset(static_cast<char*>(out) + sizeof known, 0, out_size - sizeof known);
}

/// fill() of a struct that begins with its size, which stays. INVALID_ARGUMENT names the function where that
/// is none.
template <typename T>
Status fill_sized(const char* function, T* out, T known) {
  if (!is_struct_size(out->struct_size)) {
    return failure(GANTRY_INVALID_ARGUMENT, "%s: set struct_size to the struct's size", function);
  }
  known.struct_size = out->struct_size;
  fill(out, out->struct_size, known);
  return Status();
}

/// A struct that the caller gives, with 0 for what it lacks. INVALID_ARGUMENT as fill_sized, and where it
/// sets what this version does not know.
template <typename T>
Status read_sized(const char* function, const T* given, T& known) {
  const size_t size = given->struct_size;
  if (!is_struct_size(size)) {
    return failure(GANTRY_INVALID_ARGUMENT, "%s: set struct_size to the struct's size", function);
  }
  memset(&known, 0, sizeof known);
  memcpy(&known, given, std::min(size, sizeof known));
  const char* bytes = reinterpret_cast<const char*>(given);
  if (size > sizeof known &&
      std::any_of(bytes + sizeof known, bytes + size, [](char byte) { return byte != 0; })) {
    return failure(GANTRY_INVALID_ARGUMENT,
                   "%s: the program sets an option that this version of the runtime does not know", function);
  }
  return Status();
}

}  // namespace gantry::runtime
