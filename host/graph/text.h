// What printer and parser of the text form share.
#pragma once

#include <string>
#include <string_view>

namespace gantry {

/// The text in double quotes, with ", \, line ends and control characters escaped.
std::string quote(std::string_view text);

/// Constants with at most this many elements stand inline in the text form.
constexpr int kMaxInlineElements = 16;

}  // namespace gantry
