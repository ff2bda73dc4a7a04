#include "tests/cases/case_pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "host/support/error.h"

namespace gantry::conformance {
namespace {

using ::testing::HasSubstr;

template <typename T>
ConstantPtr tensor(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  return make_constant({dtype, Shape(shape.begin(), shape.end())}, values.data());
}

PackedCase example(const std::string& name) {
  return {name,
          "Add",
          false,
          std::string("model\0bytes", 11),
          {tensor<float>(DType::kF32, {2, 2}, {1, 2, 3, 4}), tensor<int64_t>(DType::kI64, {}, {-7})},
          {tensor<uint8_t>(DType::kBool, {0}, {})},
          {1e-2, 1e-5}};
}

void expect_same(const ConstantPtr& a, const ConstantPtr& b) {
  EXPECT_EQ(a->type, b->type);
  ASSERT_EQ(a->size, b->size);
  EXPECT_EQ(std::memcmp(a->bytes, b->bytes, a->size), 0);
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(CasePack, GivesBackWhatWasPacked) {
  const CasePack pack = CasePack::parse(write_pack({example("a"), example("b")}), "cases.pack");
  ASSERT_EQ(pack.entries().size(), 2u);
  EXPECT_EQ(pack.entries()[1].name, "b");
  EXPECT_EQ(pack.entries()[1].op, "Add");
  const PackedCase loaded = pack.load("b"), original = example("b");
  EXPECT_EQ(loaded.program, original.program);
  EXPECT_EQ(loaded.is_module, false);
  EXPECT_EQ(loaded.tolerance.relative, 1e-2);
  EXPECT_EQ(loaded.tolerance.absolute, 1e-5);
  ASSERT_EQ(loaded.inputs.size(), 2u);
  ASSERT_EQ(loaded.outputs.size(), 1u);
  for (size_t i = 0; i < 2; ++i) expect_same(loaded.inputs[i], original.inputs[i]);
  expect_same(loaded.outputs[0], original.outputs[0]);
}

TEST(CasePack, RefusesEveryCutOfAPack) {
  const std::string whole = write_pack({example("a")});
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string text =
        error_of([&] { CasePack::parse(whole.substr(0, size), "cases.pack").load("a"); });
    ASSERT_THAT(text, HasSubstr("cases.pack: ")) << size;
  }
}

TEST(CasePack, NamesACaseThatItDoesNotHave) {
  const CasePack pack = CasePack::parse(write_pack({example("a")}), "cases.pack");
  EXPECT_EQ(error_of([&] { pack.load("c"); }), "cases.pack: has no case 'c'");
}

TEST(CasePack, RefusesATensorWhoseShapeIsNotItsData) {
  std::string pack = write_pack({example("a")});
  const size_t at = pack.find("[2,2]");
  ASSERT_NE(at, std::string::npos);
  for (const char* shape : {"[2,3]", "[9,9]", "[0,0]", " [-2]"}) {
    std::string changed = pack;
    changed.replace(at, 5, shape);
    EXPECT_THAT(error_of([&] { CasePack::parse(changed, "p").load("a"); }),
                HasSubstr("p: case a is damaged"));
  }
}

TEST(Comparison, FindsTheElementThatIsFarthestOutside) {
  const auto expected = tensor<float>(DType::kF32, {4}, {1, 100, 0, NAN});
  EXPECT_FALSE(worst_element(*tensor<float>(DType::kF32, {4}, {1.0005f, 100.05f, 0, NAN}), *expected));
  const auto worst = worst_element(*tensor<float>(DType::kF32, {4}, {1.01f, 100.2f, 0, NAN}), *expected);
  ASSERT_TRUE(worst);
  EXPECT_EQ(worst->index, 0u);  // ten times what is allowed there, twice at the other
  EXPECT_EQ(worst->expected, 1);
  EXPECT_FLOAT_EQ(static_cast<float>(worst->actual), 1.01f);
  EXPECT_NEAR(worst->allowed, 1e-3, 1e-6);
  EXPECT_EQ(worst_element(*tensor<float>(DType::kF32, {4}, {2, 100, 0, 5}), *expected)->index, 3u);
  EXPECT_EQ(difference(*tensor<float>(DType::kF32, {4}, {1, 100, 3, NAN}), *expected),
            "element 2 is 3 instead of 0");
}

TEST(Comparison, ComparesTypesFirst) {
  EXPECT_THAT(difference(*tensor<float>(DType::kF32, {1}, {1}), *tensor<double>(DType::kF64, {1}, {1})),
              HasSubstr("instead of"));
}

}  // namespace
}  // namespace gantry::conformance
