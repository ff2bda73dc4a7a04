// What a plan's steps call beside kernels: functions of an optional part of the runtime, which programs link
// that run such models (device_runtime/builtins) or leave out (builtins_left_out.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "device_runtime/src/data_type.h"
#include "device_runtime/src/status.h"
#include "module_generated.h"

namespace gantry::runtime {

/// A dense tensor that a builtin reads or writes.
struct BuiltinTensor {
  ElementType type = ElementType::kF32;
  std::span<const int64_t> shape;
  std::byte* data = nullptr;
  uint64_t elements = 0;

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

/// The strings of a session, each with a number; equal ones have equal numbers, and the empty one has 0. They
/// are the module's, which are numbered as it has them, those of the inputs, and what builtins make, which a
/// new run forgets. Belongs to one thread at a time.
class SessionStrings {
 public:
  virtual ~SessionStrings() = default;
  /// The elements of an input from the next run on, as packed_strings.h has them; copied. INVALID_ARGUMENT
  /// where the bytes are no such.
  virtual Status set_input(uint32_t input, uint64_t elements, std::span<const std::byte> packed) = 0;
  /// Forgets what the run before has made. `limit`: bytes that all strings may have, beyond the module's; 0:
  /// a GiB.
  virtual Status begin_run(uint64_t limit) = 0;
  /// Writes the numbers of an input's elements; `elements`: how many fit. OUT_OF_MEMORY.
  virtual Status write_input(uint32_t input, uint64_t* numbers, uint64_t elements) = 0;
  /// OUT_OF_MEMORY beyond the limit.
  virtual Result<uint64_t> intern(std::string_view text) = 0;
  /// Valid until the next run. INVALID_ARGUMENT where there is none of that number.
  virtual Result<std::string_view> text(uint64_t number) const = 0;
  /// Bytes of all strings but the module's.
  virtual uint64_t bytes() const = 0;
};

/// A call. Inputs and outputs lie in memory of their own size; what they hold is not checked: numbers may be
/// of no string.
struct BuiltinCall {
  std::string_view function;
  std::span<const BuiltinTensor> inputs, outputs;
  std::span<const int64_t> integers;
  std::string_view text;
  SessionStrings* strings = nullptr;  ///< null: the module does not require them
};

class BuiltinPart {
 public:
  virtual ~BuiltinPart() = default;
  /// What modules that call the function must require (module_format.h); empty: there is no such function.
  virtual std::string_view feature_of(std::string_view function) const = 0;
  /// INVALID_MODULE where tensors or attributes are not those of the function; INVALID_ARGUMENT,
  /// OUT_OF_MEMORY.
  virtual Status call(const BuiltinCall& call) const = 0;
  /// For a session of the module, which stays as long. Null where the module requires none.
  virtual std::unique_ptr<SessionStrings> make_strings(const module_format::Manifest& manifest) const = 0;
};

/// The part that this program has; null: none.
const BuiltinPart* builtin_part();

}  // namespace gantry::runtime
