#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string combined(const std::string& text) {
  return after(text, [](Graph& graph) {
    combine_products(graph, fresh_context());
    fold_constant(graph, fresh_context());
    dead_code(graph, fresh_context());
  });
}

std::string attention(const std::string& form, const std::string& between) {
  return "fn @main(%x: Tensor[(N, 8, 3), f32]) -> Tensor[(N, 8, 8), f32] {\n"
         "  %0 = nn.dense(%x, const(f32, [3, 1], [1, 2, 3]), units=1, gemm=" +
         form +
         ")\n"
         "  %1 = add(%0, const(f32, [1], [7]))\n"
         "  %2 = nn.dense(%x, const(f32, [3, 1], [4, 5, 6]), units=1, gemm=" +
         form + ")\n" + between + "  %4 = matmul(%1, %3, gemm=" + form + ")\n  return %4\n}";
}
const std::string kTransposition = "  %3 = transpose(%2, axes=[0, 2, 1])\n";

TEST(CombineProducts, QueriesAndKeysComeFromOneProduct) {
  const std::string text = combined(attention("true", kTransposition));
  EXPECT_THAT(text, AllOf(HasSubstr("nn.dense(%x, const(f32, [3, 2], [1, 4, 2, 5, 3, 6]), units=2"),
                          HasSubstr("const(f32, [2], [7, 0])"), HasSubstr("begin=(0, 0, 0), end=(N, 8, 1)"),
                          HasSubstr("begin=(0, 0, 1), end=(N, 8, 2)")));
}

TEST(CombineProducts, ProductsInOtherFormsStayApart) {
  EXPECT_THAT(combined(attention("false", kTransposition)), Not(HasSubstr("strided_slice")));
}

TEST(CombineProducts, ProductsThatArithmeticFollowsStayApart) {
  EXPECT_THAT(combined(attention("true", "  %r = nn.relu(%2)\n  %3 = transpose(%r, axes=[0, 2, 1])\n")),
              Not(HasSubstr("strided_slice")));
}

}  // namespace
}  // namespace gantry
