// Checks GPU schedules: after every loop pass, the kernel computes what its tensor expression says.
#pragma once

#include "host/tensor/element.h"
#include "host/tensor/fold.h"
#include "host/tensor/interpret.h"
#include "tests/loops/run_schedule.h"

namespace gantry::test {

inline int64_t elements_of(const Tensor& t) {
  int64_t count = 1;
  for (const Expr& extent : t.shape()) count *= constant_of(extent).value();
  return count;
}

inline TensorType constant_type(const Tensor& t) {
  Shape shape;
  for (const Expr& extent : t.shape()) shape.push_back(Dim(constant_of(extent).value()));
  return {t.dtype(), shape};
}

/// Small whole numbers, of which any dtype and any order of summation make the same.
inline std::vector<std::byte> random_bytes(const Tensor& t, unsigned seed) {
  std::mt19937 generator(seed);
  auto width = static_cast<size_t>(byte_width(t.dtype()));
  std::vector<std::byte> bytes(static_cast<size_t>(elements_of(t)) * width);
  for (size_t at = 0; at < bytes.size(); at += width) {
    int value = std::uniform_int_distribution<int>(-3, 3)(generator);
    if (is_float(t.dtype())) {
      write_float(t.dtype(), &bytes[at], value);
    } else {
      write_integer(t.dtype(), &bytes[at], t.dtype() == DType::kBool ? value > 1 : value);
    }
  }
  return bytes;
}

inline double element_at(DType dtype, const std::byte* bytes, int64_t i) {
  const std::byte* at = bytes + i * byte_width(dtype);
  return is_float(dtype) ? read_float(dtype, at) : static_cast<double>(read_integer(dtype, at));
}

/// Lowers and runs `schedule` on random inputs after every pass. `text`: the last kernel.
inline void check_against_expression(const Schedule& schedule, const std::vector<Tensor>& inputs,
                                     const Tensor& output, std::string* text = nullptr,
                                     double tolerance = 1e-5) {
  std::vector<std::vector<std::byte>> data;
  std::map<const OperationNode*, ConstantPtr> constants;
  for (const Tensor& input : inputs) {
    data.push_back(random_bytes(input, static_cast<unsigned>(data.size() + 1)));
    constants[input.op().get()] = make_constant(constant_type(input), data.back().data());
  }
  ConstantPtr expected = interpret({output}, constants)[0];
  int64_t count = elements_of(output);
  auto check = [&](std::string_view step, const LoopKernel& kernel) {
    if (text) *text = to_string(kernel);
    if (testing::Test::HasFailure()) return;
    std::vector<std::byte> out(static_cast<size_t>(count * byte_width(output.dtype())));
    std::vector<std::span<std::byte>> arguments;
    for (std::vector<std::byte>& input : data) arguments.emplace_back(input);
    arguments.emplace_back(out);
    try {
      evaluate(kernel, arguments);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "after " << step << ": " << error.what() << "\n" << to_string(kernel);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      double got = element_at(output.dtype(), out.data(), i);
      double want = element_at(output.dtype(), expected->bytes, i);
      if (std::abs(got - want) <= tolerance * std::max(1.0, std::abs(want))) continue;
      ADD_FAILURE() << "after " << step << ": element " << i << " is " << got << ", not " << want << "\n"
                    << to_string(kernel);
      return;
    }
  };
  run_loop_passes(lower_schedule(schedule, inputs, "k"), check);
}

}  // namespace gantry::test
