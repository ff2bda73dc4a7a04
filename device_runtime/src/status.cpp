#include "device_runtime/src/status.h"

#include <cstdarg>
#include <cstdio>

namespace gantry::runtime {
namespace {

std::string format_list(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(nullptr, 0, format, again);
  va_end(again);
  if (length < 0) return format;
  std::string text(static_cast<size_t>(length), '\0');
  vsnprintf(text.data(), text.size() + 1, format, arguments);
  return text;
}

}  // namespace

Status failure(GantryStatus code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  Status status(code, format_list(format, arguments));
  va_end(arguments);
  return status;
}

std::string format_text(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::string text = format_list(format, arguments);
  va_end(arguments);
  return text;
}

std::string byte_text(double bytes) {
  static const char* const kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return format_text("%.0f bytes", bytes);
  int unit = -1;
  while (bytes >= 1024 && unit < 5) {
    bytes /= 1024;
    ++unit;
  }
  return format_text("%.1f %s", bytes, kUnits[unit]);
}

}  // namespace gantry::runtime
