// The strings of tensors: a string element of a constant is its number here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host/graph/graph.h"

namespace gantry {

/// The number of a string in this process: equal strings have equal numbers, and the empty one has 0. Numbers
/// stay valid until the process ends, which holds every string once. From any thread.
uint64_t intern(std::string_view text);
/// The string of a number that intern() gave; an internal error for others. From any thread.
std::string_view string_of(uint64_t number);

/// A constant of strings, in row-major order, as many as the shape has elements.
ConstantPtr make_strings(const Shape& shape, const std::vector<std::string>& texts);
/// Element `index` of a constant of strings.
std::string_view string_at(const ConstantData& constant, size_t index);
/// All of them, in row-major order.
std::vector<std::string> strings_of(const ConstantData& constant);

}  // namespace gantry
