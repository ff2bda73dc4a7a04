#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string combined(const std::string& text) {
  return after(text, [](Graph& graph) {
    combine_projections(graph, fresh_context());
    dead_code(graph, fresh_context());
  });
}

std::string product(const std::string& name, const std::string& data, int64_t units) {
  const std::string columns = std::to_string(units);
  return "  %" + name + "w = nn.tile_weight(@" + name + "c: Tensor[(32, " + columns +
         "), f32], parts=2, column_tiles=" + (units > 16 ? "2" : "1") + ", dense=true)\n  %" + name +
         " = nn.dense(%" + data + ", %" + name + "w, units=" + columns + ", tile_parts=2)\n";
}

/// Two heads of 16 features (values: of 8) of the rows of %x; keys and values of those of `data`.
std::string attention(const std::string& data, bool returns_query = false,
                      const std::string& key_places = "(0, 32*R, 16, 32)") {
  const std::string type = "Tensor[(B, R, 32), f32]", query = returns_query ? ", " + type : "";
  const std::string result = "Tensor[(B, R, 16), f32]";
  return "fn @main(%x: " + type + ", %z: " + type + ") -> " +
         (query.empty() ? result : "(" + result + query + ")") + " {\n" + product("q", "x", 32) +
         product("k", data, 32) + product("v", data, 16) +
         "  %kb = add(%k, @bias: Tensor[(32), f32])\n"
         "  %y = nn.attention(%q, %kb, %v, batch=(B, 2), queries=R, keys=R, depth=16, width=8, scale=1, "
         "query=(0, 32*R, 16, 32), key=" +
         key_places +
         ", value=(0, 16*R, 8, 16), result=(0, 16*R, 8, 16), bias=(), bias2=(), shape=(B, R, 16), lanes=16, "
         "registers=32)\n  return " +
         (returns_query ? "%y, %q" : "%y") + "\n}";
}

TEST(CombineProjections, QueriesKeysAndValuesOfTheSameDataAreOneProduct) {
  const std::string text = combined(attention("x"));
  EXPECT_THAT(text, AllOf(HasSubstr("units=80"), Not(HasSubstr("units=32")),
                          HasSubstr("query=(0, 80*R, 16, 80), key=(32, 80*R, 16, 80), "
                                    "value=(64, 80*R, 8, 80), result=(0, 16*R, 8, 16)")))
      << text;
}

TEST(CombineProjections, KeysAndValuesOfOtherDataAreAProductOfTheirOwn) {
  const std::string text = combined(attention("z"));
  EXPECT_THAT(text, AllOf(HasSubstr("units=48"), HasSubstr("units=32"),
                          HasSubstr("query=(0, 32*R, 16, 32), key=(0, 48*R, 16, 48), "
                                    "value=(32, 48*R, 8, 48)")))
      << text;
}

TEST(CombineProjections, WhatSomethingElseReadsStaysApart) {
  const std::string text = combined(attention("x", true));
  EXPECT_THAT(text, AllOf(HasSubstr("units=32"), HasSubstr("units=48"))) << text;
}

TEST(CombineProjections, OperandsThatDoNotStayInTheirRowsStayApart) {
  // Heads of 24 columns: the second reads into the next row.
  const std::string text = combined(attention("z", false, "(0, 32*R, 24, 32)"));
  EXPECT_THAT(text, Not(HasSubstr("units=48"))) << text;
}

}  // namespace
}  // namespace gantry
