#include <algorithm>

#include "host/ops/attention.h"
#include "host/ops/dense.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

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

std::vector<int64_t> units_of_products(const Graph& graph) {
  std::vector<int64_t> units;
  for (const Node* node : graph.main.nodes()) {
    if (const auto* dense = node->match(nn::dense)) units.push_back(dense->units);
  }
  return units;
}

const Node& attention_of(const Graph& graph) {
  return **std::ranges::find_if(graph.main.nodes(), [](const Node* node) { return node->is(nn::attention); });
}

/// Where the attention reads queries, keys and values, and writes its result: offset and strides.
std::vector<std::string> places_of_attention(const Graph& graph) {
  const auto& attrs = *attention_of(graph).match(nn::attention);
  std::vector<std::string> places;
  for (const Shape& place : {attrs.query, attrs.key, attrs.value, attrs.result}) {
    std::string text;
    for (const Dim& dim : place) text += (text.empty() ? "" : ", ") + dim.str();
    places.push_back(text);
  }
  return places;
}

TEST(CombineProjections, QueriesKeysAndValuesOfTheSameDataAreOneProduct) {
  const Graph graph = parse_graph(combined(attention("x")), table());
  EXPECT_THAT(units_of_products(graph), ElementsAre(80)) << "32 queries, 32 keys, 16 values";
  EXPECT_EQ(places_of_attention(graph), (std::vector<std::string>{"0, 80*R, 16, 80", "32, 80*R, 16, 80",
                                                                  "64, 80*R, 8, 80", "0, 16*R, 8, 16"}));
  EXPECT_EQ(attention_of(graph).inputs[0], attention_of(graph).inputs[1]) << "read from one product";
}

TEST(CombineProjections, KeysAndValuesOfOtherDataAreAProductOfTheirOwn) {
  const Graph graph = parse_graph(combined(attention("z")), table());
  EXPECT_THAT(units_of_products(graph), UnorderedElementsAre(32, 48));
  EXPECT_EQ(places_of_attention(graph), (std::vector<std::string>{"0, 32*R, 16, 32", "0, 48*R, 16, 48",
                                                                  "32, 48*R, 8, 48", "0, 16*R, 8, 16"}));
}

TEST(CombineProjections, WhatSomethingElseReadsStaysApart) {
  EXPECT_THAT(units_of_products(parse_graph(combined(attention("x", true)), table())), UnorderedElementsAre(32, 48));
}

TEST(CombineProjections, OperandsThatDoNotStayInTheirRowsStayApart) {
  // Heads of 24 columns: the second reads into the next row.
  const std::string text = attention("z", false, "(0, 32*R, 24, 32)");
  EXPECT_THAT(combined(text), IsGraph(text));
}

}  // namespace
}  // namespace gantry
