// Runs schedules through every loop pass on the reference executor.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "host/loops/evaluate.h"
#include "host/loops/lower.h"

namespace gantry::test {

using Floats = std::vector<float>;

inline Floats random_floats(size_t count, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int> values(-8, 8);  // small integers: sums are exact in any order
  Floats data(count);
  for (float& x : data) x = static_cast<float>(values(generator));
  return data;
}

inline std::span<std::byte> bytes_of(Floats& data) {
  return std::as_writable_bytes(std::span<float>(data));
}

/// Lowers, then evaluates the kernel after every pass; all must give the same. Returns the (single) output.
inline Floats run_schedule(const Schedule& schedule, const std::vector<Tensor>& inputs,
                           std::vector<Floats> data, size_t output_count,
                           const std::map<std::string, int64_t>& symbols = {}, std::string* text = nullptr) {
  Floats first;
  auto check = [&](std::string_view step, const LoopKernel& kernel) {
    if (text) *text += std::string(step) + ":\n" + to_string(kernel) + "\n";
    Floats out(output_count, NAN);
    std::vector<std::span<std::byte>> arguments;
    for (Floats& input : data) arguments.push_back(bytes_of(input));
    arguments.push_back(bytes_of(out));
    try {
      evaluate(kernel, arguments, symbols);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "after " << step << ": " << error.what() << "\n" << to_string(kernel);
    }
    if (first.empty()) first = out;
    EXPECT_THAT(out, testing::Pointwise(testing::Eq(), first)) << "after " << step << "\n"
                                                               << to_string(kernel);
  };
  run_loop_passes(lower_schedule(schedule, inputs, "k"), check);
  return first;
}

}  // namespace gantry::test
