// Transpositions and paddings put together on the disk, against elements moved one by one.
#include "host/passes/spilled_transposition.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <numeric>
#include <utility>

#include "host/ops/builder.h"
#include "host/support/mapped_file.h"
#include "tests/passes/pass_test.h"

namespace gantry {
namespace {

std::filesystem::path folder() {
  return ::testing::TempDir();
}

/// transpose of a constant that counts its elements; null where it is left to others.
ConstantPtr transposed(const std::vector<int64_t>& shape, const std::vector<int64_t>& axes,
                       size_t least = 1) {
  Function function;
  std::vector<float> values(static_cast<size_t>(
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, [](int64_t a, int64_t b) { return a * b; })));
  std::iota(values.begin(), values.end(), 0.0F);
  Value* x = function.add_constant(
      "x", make_constant({DType::kF32, Shape(shape.begin(), shape.end())}, values.data()));
  TransposeAttrs attrs;
  attrs.axes = axes;
  Node* node = Builder(function).node(op::transpose, {x}, attrs);
  SpillFile file(folder());
  return spilled_transposition(*node, file, least);
}

/// numpy.arange(…).reshape(shape).transpose(axes).ravel()
std::vector<float> expected(const std::vector<int64_t>& shape, const std::vector<int64_t>& axes) {
  const size_t rank = shape.size();
  std::vector<int64_t> strides(rank, 1), position(rank, 0);
  for (size_t i = rank - 1; i-- > 0;) strides[i] = strides[i + 1] * shape[i + 1];
  std::vector<float> values;
  for (;;) {
    int64_t offset = 0;
    for (size_t i = 0; i < rank; ++i) offset += position[i] * strides[static_cast<size_t>(axes[i])];
    values.push_back(static_cast<float>(offset));
    size_t axis = rank;
    while (axis-- > 0) {
      if (++position[axis] < shape[static_cast<size_t>(axes[axis])]) break;
      position[axis] = 0;
    }
    if (axis == static_cast<size_t>(-1)) return values;
  }
}

void expect_turned(const std::vector<int64_t>& shape, const std::vector<int64_t>& axes) {
  SCOPED_TRACE(::testing::PrintToString(shape) + ::testing::PrintToString(axes));
  const ConstantPtr turned = transposed(shape, axes);
  ASSERT_TRUE(turned);
  EXPECT_TRUE(is_spilled(turned->owner));
  for (size_t i = 0; i < axes.size(); ++i)
    EXPECT_EQ(turned->type.shape[i], Dim(shape[static_cast<size_t>(axes[i])]));
  const std::vector<float> values(turned->as<float>(), turned->as<float>() + turned->size / sizeof(float));
  EXPECT_TRUE(values == expected(shape, axes));
  release_pages(turned->owner);
  EXPECT_TRUE(std::equal(values.begin(), values.end(), turned->as<float>())) << "read again";
}

TEST(SpilledTransposition, TurnsMatricesOfElementsAndOfChunks) {
  expect_turned({5, 7}, {1, 0});
  expect_turned({33, 3, 4}, {1, 0, 2});
  expect_turned({6, 2, 3, 5}, {1, 2, 0, 3});
  expect_turned({6, 2, 3, 5}, {2, 3, 0, 1});
  expect_turned({1, 17, 1, 9}, {0, 3, 2, 1});
  expect_turned({2049, 1536}, {1, 0});  // in several parts
}

TEST(SpilledTransposition, LeavesOtherOrdersAndSmallOnesAlone) {
  EXPECT_FALSE(transposed({5, 7}, {0, 1}));
  EXPECT_FALSE(transposed({2, 3, 4}, {2, 1, 0}));
  EXPECT_FALSE(transposed({2, 3, 4}, {0, 2, 1}));
  EXPECT_FALSE(transposed({5, 7}, {1, 0}, 5 * 7 * 4 + 1));
}

/// (rows, columns) of numbers from 1 on, padded.
ConstantPtr padded(int64_t rows, int64_t columns, const PadAttrs& attrs) {
  Function function;
  std::vector<float> values(static_cast<size_t>(rows * columns));
  std::iota(values.begin(), values.end(), 1.0F);
  Value* x = function.add_constant("x", make_constant({DType::kF32, {rows, columns}}, values.data()));
  SpillFile file(folder());
  return spilled_padding(*Builder(function).node(op::pad, {x}, attrs), file, 1);
}

PadAttrs pads(Shape before, Shape after) {
  PadAttrs attrs;
  attrs.before = std::move(before);
  attrs.after = std::move(after);
  return attrs;
}

TEST(SpilledPadding, PutsZerosBehindRows) {
  constexpr int64_t kRows = 2100, kColumns = 1000, kMore = 24;  // in several parts
  const ConstantPtr wide = padded(kRows, kColumns, pads({0, 0}, {0, kMore}));
  ASSERT_TRUE(wide);
  EXPECT_TRUE(is_spilled(wide->owner));
  ASSERT_EQ(wide->size, kRows * (kColumns + kMore) * sizeof(float));
  const float* values = wide->as<float>();
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kColumns + kMore; ++c, ++values)
      ASSERT_EQ(*values, c < kColumns ? static_cast<float>(r * kColumns + c + 1) : 0.0F) << r << ", " << c;
  }
}

TEST(SpilledPadding, LeavesOthersAlone) {
  EXPECT_FALSE(padded(2, 3, pads({0, 1}, {0, 1})));
  EXPECT_FALSE(padded(2, 3, pads({0, 0}, {1, 1})));
  PadAttrs ones = pads({0, 0}, {0, 1});
  ones.value = 1;
  EXPECT_FALSE(padded(2, 3, ones));
}

TEST(SpillFile, KeepsBytesUntilTheLastHolderLetsGo) {
  const std::vector<std::byte> one(5000, std::byte{1}), two(3, std::byte{2});
  std::shared_ptr<const std::byte> first, second;
  {
    SpillFile file(folder());
    first = file.keep(one);
    second = file.keep(two);
  }
  ASSERT_TRUE(first && second);
  release_pages(first);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), first.get()));
  EXPECT_TRUE(std::equal(two.begin(), two.end(), second.get()));
  EXPECT_TRUE(is_spilled(first));
  release_pages(second);
  first.reset();  // its room in the file is given back, and nothing beside it
  EXPECT_TRUE(std::equal(two.begin(), two.end(), second.get()));
}

size_t resident_bytes() {
  size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(PartOfFile, LeavesMemoryWithItsLastHolder) {
  constexpr size_t kSize = size_t{32} << 20, kBegin = 100;  // on no page's boundary
  const auto path = folder() / "part_of_file";
  std::ofstream(path, std::ios::binary) << std::string(kSize, 'a');
  auto file = std::make_shared<const MappedFile>(path);
  const std::span bytes(reinterpret_cast<const std::byte*>(file->data()) + kBegin, kSize - 2 * kBegin);
  auto part = part_of_file(file, bytes);
  EXPECT_TRUE(is_on_disk(part));
  EXPECT_FALSE(is_spilled(part));
  EXPECT_FALSE(is_on_disk(file));
  const auto all_a = [&] {
    return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{'a'}; });
  };
  const size_t before = resident_bytes();
  EXPECT_TRUE(all_a());
  EXPECT_GT(resident_bytes(), before + kSize / 2);
  release_pages(part);
  EXPECT_LT(resident_bytes(), before + kSize / 2);
  EXPECT_TRUE(all_a()) << "they come back";
  EXPECT_GT(resident_bytes(), before + kSize / 2);
  part.reset();
  EXPECT_LT(resident_bytes(), before + kSize / 2);
  EXPECT_TRUE(all_a()) << "the file is still mapped";
  part = part_of_file(std::exchange(file, nullptr), bytes);
  EXPECT_TRUE(all_a()) << "by its part alone";
}

TEST(SpillFile, TakesNothingWhereItCannotBe) {
  SpillFile file(folder() / "no" / "such" / "folder");
  EXPECT_FALSE(file.keep(std::vector<std::byte>(9)));
  EXPECT_FALSE(file.keep(9, 4, [](size_t, std::span<std::byte>) {}));
  const auto memory = std::make_shared<int>(7);
  release_pages(memory);
  EXPECT_FALSE(is_spilled(memory));
  EXPECT_EQ(*memory, 7);
}

}  // namespace
}  // namespace gantry
