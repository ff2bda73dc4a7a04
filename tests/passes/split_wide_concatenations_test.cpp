#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

std::string split(const std::string& text, bool for_gpu = false) {
  return after(text, [&](Graph& graph) {
    PassContext context;
    context.for_gpu = for_gpu;
    find_pass("split_wide_concatenations")->run(graph, context);
    dead_code(graph, fresh_context());
  });
}

using Extent = std::function<Dim(size_t)>;

/// %first, …, %(end - 1)
std::string values(size_t first, size_t end) {
  std::string text;
  for (size_t i = first; i < end; ++i) text += fmt::format("{}%p{}", i == first ? "" : ", ", i);
  return text;
}

std::string vector_of(DType dtype, const Dim& extent) {
  return TensorType{dtype, {extent}}.str();
}

/// A function of so many vectors, of which each has the extent that `extent` names.
std::string function_of(size_t parts, const Extent& extent, const std::string& lines,
                        DType dtype = DType::kF32) {
  std::string inputs;
  Dim total = 0;
  for (size_t i = 0; i < parts; ++i) {
    inputs += fmt::format("{}%p{}: {}", i == 0 ? "" : ", ", i, vector_of(dtype, extent(i)));
    total = total + extent(i);
  }
  return fmt::format("fn @main({}) -> {} {{\n{}  return %0\n}}", inputs, vector_of(dtype, total), lines);
}

Dim open(size_t i) {
  return Dim::symbol(fmt::format("D{}", i));
}

Dim known(size_t) {
  return 3;
}

std::string concatenation_of(size_t parts, const Extent& extent, DType dtype = DType::kF32) {
  return function_of(parts, extent, "  %0 = concatenate(" + values(0, parts) + ", axis=0)\n", dtype);
}

TEST(SplitWideConcatenations, ManyPartsOfUnknownExtentsBecomeGroups) {
  const std::string groups = "  %1 = concatenate(" + values(0, 16) + ", axis=0)\n  %2 = concatenate(" +
                             values(16, 32) + ", axis=0)\n  %0 = concatenate(%1, %2, %p32, axis=0)\n";
  EXPECT_THAT(split(concatenation_of(33, open)), IsGraph(function_of(33, open, groups)));
}

TEST(SplitWideConcatenations, FewPartsStay) {
  EXPECT_THAT(split(concatenation_of(16, open)), IsGraph(concatenation_of(16, open)));
}

TEST(SplitWideConcatenations, PartsOfKnownExtentsStay) {
  EXPECT_THAT(split(concatenation_of(40, known)), IsGraph(concatenation_of(40, known)));
}

TEST(SplitWideConcatenations, OnAGpuMorePartsThanAKernelTakesBecomeGroups) {
  const std::string groups = "  %1 = concatenate(" + values(0, 256) + ", axis=0)\n  %2 = concatenate(" +
                             values(256, 512) + ", axis=0)\n  %0 = concatenate(%1, %2, %p512, axis=0)\n";
  EXPECT_THAT(split(concatenation_of(513, known), /*for_gpu=*/true), IsGraph(function_of(513, known, groups)));
  EXPECT_THAT(split(concatenation_of(256, known), /*for_gpu=*/true), IsGraph(concatenation_of(256, known)));
}

TEST(SplitWideConcatenations, StringsStayWhereTheCpuBesideAGpuMovesThem) {
  const std::string strings = concatenation_of(257, known, DType::kString);
  EXPECT_THAT(split(strings, /*for_gpu=*/true), IsGraph(strings));
}

}  // namespace
}  // namespace gantry
