// What can fail, as a value or as an exception. A part of gantry/runtime.hpp; C++17, with or without
// exceptions.
#ifndef GANTRY_RESULT_HPP
#define GANTRY_RESULT_HPP

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "gantry/runtime.h"

#if defined(__cpp_exceptions)
#define GANTRY_HAS_EXCEPTIONS 1
#include <stdexcept>
#else
#define GANTRY_HAS_EXCEPTIONS 0
#endif

namespace gantry {

/// Why something failed: the kind says what the caller should do, the message what failed and how to mend it.
struct Failure {
  GantryStatus code = GANTRY_INTERNAL;
  std::string message;
};

#if GANTRY_HAS_EXCEPTIONS
/// A failure as an exception: what() is its message.
class Error : public std::runtime_error {
 public:
  explicit Error(const Failure& failure) : std::runtime_error(failure.message), code_(failure.code) {}
  GantryStatus code() const noexcept { return code_; }

 private:
  GantryStatus code_;
};
#endif

namespace detail {

/// A result was used without a look at whether there is one: a bug of the caller, in release builds too.
[[noreturn]] inline void die(const char* what) {
  std::fprintf(stderr, "gantry: a result was used that failed with: %s\n", what);
  std::abort();
}

}  // namespace detail

/// A T, or why there is none; as std::expected<T, Failure> of C++23. It never throws but for value().
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  bool has_value() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// The value. Without one the program ends, after its message on stderr: look first.
  T& operator*() & { return *checked(); }
  const T& operator*() const& { return *checked(); }
  T&& operator*() && { return std::move(*checked()); }
  T* operator->() { return checked(); }
  const T* operator->() const { return checked(); }

  /// Why there is no value. With one the program ends: look first.
  const Failure& error() const {
    const Failure* failure = std::get_if<1>(&state_);
    if (failure == nullptr) detail::die("nothing: it has a value");
    return *failure;
  }

#if GANTRY_HAS_EXCEPTIONS
  /// The value. Throws Error where there is none.
  T& value() & {
    if (!has_value()) throw Error(error());
    return *checked();
  }
  const T& value() const& {
    if (!has_value()) throw Error(error());
    return *checked();
  }
  T&& value() && {
    return std::move(value());
  }
#endif

 private:
  T* checked() {
    return const_cast<T*>(std::as_const(*this).checked());
  }
  const T* checked() const {
    const T* value = std::get_if<0>(&state_);
    if (value == nullptr) detail::die(std::get_if<1>(&state_)->message.c_str());
    return value;
  }
  std::variant<T, Failure> state_;
};

/// Nothing, or why it failed.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failure failure) : failure_(std::move(failure)) {}

  bool has_value() const noexcept { return !failure_.has_value(); }
  explicit operator bool() const noexcept { return has_value(); }
  /// Why it failed. If it did not the program ends: look first.
  const Failure& error() const {
    if (!failure_) detail::die("nothing: it succeeded");
    return *failure_;
  }
#if GANTRY_HAS_EXCEPTIONS
  /// Throws Error if it failed.
  void value() const {
    if (failure_) throw Error(*failure_);
  }
#endif

 private:
  std::optional<Failure> failure_;
};

namespace detail {

/// The C interface's answer with this thread's message.
inline Failure last_failure(GantryStatus status) {
  return {status, gantry_last_error()};
}
inline Failure invalid(std::string message) {
  return {GANTRY_INVALID_ARGUMENT, std::move(message)};
}
inline Result<void> checked(GantryStatus status) {
  if (status == GANTRY_OK) return {};
  return last_failure(status);
}

}  // namespace detail
}  // namespace gantry

#endif
