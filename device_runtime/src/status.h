// Errors of the runtime: values, never exceptions. A code says who can mend it, a message says what failed.
#pragma once

#include <string>
#include <utility>

#include "gantry/runtime.h"

namespace gantry::runtime {

/// Success, or a code and a message for the user. Converts to true on success where tested with ok().
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(GantryStatus code, std::string message) : code_(code), message_(std::move(message)) {}
  bool ok() const { return code_ == GANTRY_OK; }
  GantryStatus code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  GantryStatus code_ = GANTRY_OK;
  std::string message_;
};

/// A failed Status with a printf-formatted message.
[[gnu::format(printf, 2, 3)]] Status failure(GantryStatus code, const char* format, ...);
/// A printf-formatted string.
[[gnu::format(printf, 1, 2)]] std::string format_text(const char* format, ...);
/// "1.5 GiB", "12 bytes"
std::string byte_text(double bytes);

/// A value, or the Status that says why there is none. T is default-constructible.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit by design
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  T& value() { return value_; }
  const T& value() const { return value_; }
  T* operator->() { return &value_; }
  T& operator*() { return value_; }

 private:
  Status status_;
  T value_{};
};

}  // namespace gantry::runtime

/// Returns the Status of `expression` from the enclosing function if it failed.
#define GANTRY_TRY(expression)                                                   \
  do {                                                                           \
    if (::gantry::runtime::Status try_status = (expression); !try_status.ok()) { \
      return try_status;                                                         \
    }                                                                            \
  } while (false)
