// A network with two products of the same data.
#pragma once

#include <fmt/format.h>

#include <string>

#include "host/graph/graph.h"
#include "host/graph/text.h"
#include "host/ops/op.h"
#include "tests/support/small_weights.h"

namespace gantry::test {

/// Two convolutions of the same image, of 16 and of 32 channels, each read by one of Winograd's algorithm
/// alone, which takes a cut of a wider result in; what these compute is added. Decisions stand in it.
inline Graph parallel_network() {
  const auto convolution = [](const char* result, const char* data, int weight, int inputs, int outputs,
                              int window, const char* form) {
    return fmt::format(
        "  %{0} = nn.conv(%{1}, @w{2}: Tensor[({4}, {3}, {5}, {5}), f32], channels={4}, kernel=[{5}, {5}], "
        "strides=[1, 1], dilations=[1, 1], padding=({6}, {6}, {6}, {6})) {{form={7}, block=16}}  // {0}\n",
        result, data, weight, inputs, outputs, window, window / 2, form);
  };
  std::string text = "fn @main(%x: Tensor[(1, 16, 12, 12), f32]) -> Tensor[(1, 16, 12, 12), f32] {\n";
  text += convolution("a", "x", 1, 16, 16, 1, "direct");
  text += convolution("b", "x", 2, 16, 32, 1, "direct");
  text += convolution("c", "a", 3, 16, 16, 3, "winograd2");
  text += convolution("d", "b", 4, 32, 16, 3, "winograd2");
  text += "  %y = add(%c, %d)  // sum\n  return %y\n}\n";
  return parse_graph(text, op_set(),
                     {{"w1", testing::small_weights({16, 16, 1, 1})},
                      {"w2", testing::small_weights({32, 16, 1, 1})},
                      {"w3", testing::small_weights({16, 16, 3, 3})},
                      {"w4", testing::small_weights({16, 32, 3, 3})}});
}

}  // namespace gantry::test
