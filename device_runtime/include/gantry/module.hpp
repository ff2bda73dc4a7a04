// Module files: what is in them, their inputs and outputs. A part of gantry/runtime.hpp; C++17.
#ifndef GANTRY_MODULE_HPP
#define GANTRY_MODULE_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "gantry/result.hpp"
#include "gantry/runtime.h"
#include "gantry/tensor.hpp"

namespace gantry {

/// An input or output, by its number or its name. A name must live until the call returns.
class Which {
 public:
  template <typename Index, std::enable_if_t<std::is_integral_v<Index>, int> = 0>
  Which(Index index) : index_(fits(index) ? static_cast<std::int32_t>(index) : kNone) {}
  template <typename Name, std::enable_if_t<std::is_convertible_v<const Name&, std::string_view>, int> = 0>
  Which(const Name& name) : name_(name), is_name_(true) {}

  bool is_name() const noexcept { return is_name_; }
  std::string_view name() const noexcept { return name_; }
  std::int32_t index() const noexcept { return index_; }

 private:
  /// What no module has, so that it is refused.
  static constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::max();
  template <typename Index>
  static constexpr bool fits(Index index) {
    return index >= 0 && static_cast<std::uintmax_t>(index) < static_cast<std::uintmax_t>(kNone);
  }
  std::string_view name_;
  std::int32_t index_ = 0;
  bool is_name_ = false;
};

/// What an input or output is.
struct TensorDescription {
  std::string name;
  DLDataType type{};
  Shape shape;  ///< -1: symbolic, known when inputs are set
};

namespace detail {

/// Inputs or outputs of a module: the C interface has a function for each.
struct Side {
  const char* word;
  std::int32_t (*count)(const GantryModule*);
  GantryStatus (*describe)(const GantryModule*, std::int32_t, GantryTensorDescription*);
};
inline constexpr Side kInputs{"input", gantry_input_count, gantry_describe_input};
inline constexpr Side kOutputs{"output", gantry_output_count, gantry_describe_output};

inline Result<GantryTensorDescription> describe(const GantryModule* module, const Side& side,
                                                std::int32_t index) {
  GantryTensorDescription description{};
  description.struct_size = sizeof description;
  const GantryStatus status = side.describe(module, index, &description);
  if (status != GANTRY_OK) return last_failure(status);
  return description;
}

/// The number of what was asked for; a number is taken as it is. Fails for a name that the module does not
/// have.
inline Result<std::int32_t> find(const GantryModule* module, const Side& side, const Which& which) {
  if (!which.is_name()) return which.index();
  std::string names;
  for (std::int32_t index = 0; index < side.count(module); ++index) {
    const auto description = describe(module, side, index);
    if (!description) return description.error();
    if (which.name() == description->name) return index;
    names.append(names.empty() ? "'" : ", '").append(description->name).append("'");
  }
  return invalid("there is no " + std::string(side.word) + " '" + std::string(which.name()) +
                 "'; the module has " + (names.empty() ? "none" : names));
}

inline Result<TensorDescription> describe(const GantryModule* module, const Side& side, const Which& which) {
  const auto index = find(module, side, which);
  if (!index) return index.error();
  const auto description = describe(module, side, *index);
  if (!description) return description.error();
  return TensorDescription{description->name, description->dtype,
                           Shape(description->shape, static_cast<std::size_t>(description->rank))};
}

/// "input 'image'", for messages.
inline std::string name_of(const GantryModule* module, const Side& side, std::int32_t index) {
  const auto description = describe(module, side, index);
  return side.word +
         (description ? " '" + std::string(description->name) + "'" : " " + std::to_string(index));
}

}  // namespace detail

/// A compiled network, loaded. Move-only; sessions made of it keep what they need of it.
class Module {
 public:
  /// Maps a module file and loads the best code for this CPU. Fails where the file cannot be read
  /// (GANTRY_IO_ERROR), is none or damaged (GANTRY_INVALID_MODULE), or has no code for this CPU and none for
  /// GPUs (GANTRY_INCOMPATIBLE).
  static Result<Module> try_load(const std::string& path) {
    GantryModule* module = nullptr;
    const GantryStatus status = gantry_module_load(path.c_str(), &module);
    return own(status, module);
  }
  /// As try_load, from memory: bytes of any type, which are copied.
  template <typename Byte>
  static Result<Module> try_load_memory(const Byte* bytes, std::size_t size) {
    static_assert(sizeof(Byte) == 1, "a module is given as bytes");
    GantryModule* module = nullptr;
    const GantryStatus status = gantry_module_load_memory(bytes, size, &module);
    return own(status, module);
  }
  /// As above, of a container, span or array of bytes.
  template <typename Bytes>
  static Result<Module> try_load_memory(const Bytes& bytes) {
    return try_load_memory(std::data(bytes), std::size(bytes));
  }

  Module(Module&&) noexcept = default;
  Module& operator=(Module&&) noexcept = default;

  /// The variant chosen for this CPU, such as "x86-64-v4"; of a module without code for it its first variant.
  /// Lives as long as the module.
  std::string_view target() const { return gantry_module_target(get()); }
  /// How many inputs and outputs there are; their numbers are those below.
  std::int32_t input_count() const { return gantry_input_count(get()); }
  std::int32_t output_count() const { return gantry_output_count(get()); }
  /// Name, element type and shape. Fail where there is no such input or output.
  Result<TensorDescription> try_input(const Which& which) const {
    return detail::describe(get(), detail::kInputs, which);
  }
  Result<TensorDescription> try_output(const Which& which) const {
    return detail::describe(get(), detail::kOutputs, which);
  }

#if GANTRY_HAS_EXCEPTIONS
  /// As try_load; throws Error.
  static Module load(const std::string& path) {
    return try_load(path).value();
  }
  /// As try_load_memory; throws Error.
  template <typename Byte>
  static Module load_memory(const Byte* bytes, std::size_t size) {
    return try_load_memory(bytes, size).value();
  }
  /// As try_load_memory; throws Error.
  template <typename Bytes>
  static Module load_memory(const Bytes& bytes) {
    return try_load_memory(bytes).value();
  }
  /// As try_input; throws Error.
  TensorDescription input(const Which& which) const {
    return try_input(which).value();
  }
  /// As try_output; throws Error.
  TensorDescription output(const Which& which) const {
    return try_output(which).value();
  }
#endif

  /// For the C interface; stays this object's.
  GantryModule* get() const noexcept {
    return module_.get();
  }

 private:
  friend class Session;
  static Result<Module> own(GantryStatus status, GantryModule* module) {
    if (status != GANTRY_OK) return detail::last_failure(status);
    return Module(module);
  }
  explicit Module(GantryModule* module) : module_(module, gantry_module_release) {}
  std::shared_ptr<GantryModule> module_;
};

}  // namespace gantry

#endif
