// The planned memory as a map, beside examples worked out by hand.
#include "host/cli/memory_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "host/cli/explanation.h"
#include "host/codegen/find_target.h"
#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

/// Four kernels one after another; three values between them, each read by the next kernel.
MemoryMap chain(const std::string& rows) {
  const std::string type = "Tensor[(" + rows + ", 8), f32]";
  const Graph graph = parse_graph("fn @main(%x: " + type + ") -> " + type +
                                      " {\n  %0 = exp(%x)\n  %1 = tanh(%0)\n  %2 = exp(%1)\n  %3 = tanh(%2)\n"
                                      "  return %3\n}",
                                  op_set());
  CompileOptions options;
  options.opt_level = 0;  // every op is a kernel
  const Explanations all = explain_program(graph, find_target("x86-64-v3"), options);
  if (all.memories.size() != 1) internal_error("{} memories", all.memories.size());
  return all.memories[0];
}

TEST(MemoryMap, ShowsWhatLiesWhereAndWhen) {
  EXPECT_EQ(to_text(chain("128"), 0), R"(workspace: 8192 bytes (8.0 KiB)
  at least 8192 bytes (8.0 KiB): what lives at once
  the plan takes 1.000 times that
  offset  bytes  steps  #0 to #3  value
       0   4096  #0-#1  ##..      %0
       0   4096  #2-#3  ..##      %2
    4096   4096  #1-#2  .##.      %1
)");
}

TEST(MemoryMap, SaysSymbolicSizesAsExpressions) {
  const MemoryMap map = chain("N");
  EXPECT_EQ(map.values.at(0).bytes.str(), "32*N");
  EXPECT_EQ(map.ratio(), 0) << "nobody knows";
  for (const int64_t n : {0, 1, 2, 3, 100}) {
    const int64_t place = (32 * n + 63) / 64 * 64;
    EXPECT_EQ(map.bound->evaluate({{"N", n}}), 2 * place);
    EXPECT_EQ(map.bytes.evaluate({{"N", n}}), 2 * place);
  }
  const std::string text = to_text(map, 0);
  EXPECT_NE(text.find(map.bound->str() + " bytes: what lives at once"), std::string::npos) << text;
  EXPECT_EQ(text.find("times that"), std::string::npos) << text;
  EXPECT_EQ(to_json(map)["values"][0]["bytes"], "32*N");
  EXPECT_TRUE(to_json(map)["ratio"].is_null());
}

size_t columns_of(std::string_view utf8) {
  const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  return static_cast<size_t>(std::ranges::count_if(utf8, begins));
}

TEST(MemoryMap, FitsTheTerminal) {
  MemoryMap map;
  map.steps = 1000;
  map.bytes = Dim(640);
  map.bound = map.bytes;
  for (size_t i = 0; i < 10; ++i)
    map.values.push_back(
        {"%a_value_with_a_long_name_" + std::to_string(i), static_cast<int64_t>(64 * i), 64, 100 * i, 100 * i + 99});
  for (const size_t width : {60, 80, 120}) {
    std::string text = to_text(map, width);
    for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
      EXPECT_LE(columns_of(text.substr(0, end)), width) << text.substr(0, end);
  }
}

TEST(MemoryMap, ABarCoversTheStepsOfItsValue) {
  MemoryMap map;
  map.steps = 640;  // ten a character
  map.bytes = Dim(64);
  map.bound = map.bytes;
  map.values.push_back({"%0", 0, 64, 0, 0});
  map.values.push_back({"%1", 0, 64, 9, 10});
  map.values.push_back({"%2", 0, 64, 639, 639});
  const std::string text = to_text(map, 0);
  const std::string dots(62, '.');
  EXPECT_NE(text.find("#0      #." + dots + "  %0"), std::string::npos) << text;
  EXPECT_NE(text.find("#9-#10  ##" + dots + "  %1"), std::string::npos) << text;
  EXPECT_NE(text.find("#639    ." + dots + "#  %2"), std::string::npos) << text;
}

}  // namespace
}  // namespace gantry::cli
