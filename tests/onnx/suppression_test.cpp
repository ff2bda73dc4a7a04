// NonMaxSuppression of more boxes than a block of them, against the definition in double.
#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/onnx/one_node.h"

namespace gantry {
namespace {

using testing::OneNode;

struct Boxes {
  int64_t batches, classes, count;
  std::vector<float> corners;  ///< y0, x0, y1, x1, or centre x, centre y, width, height
  std::vector<float> scores;   ///< all different
};

/// Of sides up to `size` in a square of 100. One in ten has no area.
Boxes random_boxes(int64_t batches, int64_t classes, int64_t count, double size, bool centred) {
  std::mt19937 random(7);
  const auto below = [&](double limit) {
    return static_cast<float>(std::uniform_real_distribution<double>(0, limit)(random));
  };
  Boxes boxes{batches, classes, count, {}, {}};
  for (int64_t i = 0; i < batches * count; ++i) {
    const float y = below(100), x = below(100), height = i % 10 == 3 ? 0 : below(size), width = below(size);
    if (centred)
      boxes.corners.insert(boxes.corners.end(), {x, y, width, height});
    else if (i % 2 == 0)
      boxes.corners.insert(boxes.corners.end(), {y, x, y + height, x + width});
    else
      boxes.corners.insert(boxes.corners.end(), {y + height, x + width, y, x});
  }
  boxes.scores.resize(static_cast<size_t>(batches * classes * count));
  std::iota(boxes.scores.begin(), boxes.scores.end(), 0.0F);
  std::shuffle(boxes.scores.begin(), boxes.scores.end(), random);
  return boxes;
}

double overlap_of(const float* a, const float* b, bool centred) {
  double both = 1, areas[2] = {1, 1};
  for (int axis = 0; axis < 2; ++axis) {
    double low[2], high[2];
    for (int i = 0; i < 2; ++i) {
      const float* box = i == 0 ? a : b;
      const double first = centred ? box[axis] - box[axis + 2] * 0.5 : box[axis];
      const double second = centred ? box[axis] + box[axis + 2] * 0.5 : box[axis + 2];
      low[i] = std::min(first, second);
      high[i] = std::max(first, second);
      areas[i] *= high[i] - low[i];
    }
    both *= std::max(std::min(high[0], high[1]) - std::max(low[0], low[1]), 0.0);
  }
  return both > 0 ? both / (areas[0] + areas[1] - both) : 0;
}

std::vector<int64_t> expected(const Boxes& boxes, int64_t most, double limit, double least, bool centred) {
  std::vector<int64_t> result;
  for (int64_t batch = 0; batch < boxes.batches; ++batch) {
    for (int64_t kind = 0; kind < boxes.classes; ++kind) {
      const float* scores = &boxes.scores[static_cast<size_t>((batch * boxes.classes + kind) * boxes.count)];
      const float* corners = &boxes.corners[static_cast<size_t>(batch * boxes.count * 4)];
      std::vector<int64_t> order(static_cast<size_t>(boxes.count)), taken;
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, std::greater(), [&](int64_t box) { return scores[box]; });
      for (const int64_t box : order) {
        if (!(scores[box] > least) || static_cast<int64_t>(taken.size()) == most) break;
        const auto hits = [&](int64_t other) {
          return overlap_of(corners + box * 4, corners + other * 4, centred) > limit;
        };
        if (std::ranges::none_of(taken, hits)) taken.push_back(box);
      }
      for (const int64_t box : taken) result.insert(result.end(), {batch, kind, box});
    }
  }
  return result;
}

std::vector<int64_t> chosen(const Boxes& boxes, int64_t most, float limit, float least, bool centred) {
  OneNode node("", "NonMaxSuppression", 11);
  node.input<float>(DType::kF32, {boxes.batches, boxes.count, 4}, boxes.corners)
      .input<float>(DType::kF32, {boxes.batches, boxes.classes, boxes.count}, boxes.scores)
      .input<int64_t>(DType::kI64, {1}, {most})
      .input<float>(DType::kF32, {1}, {limit})
      .input<float>(DType::kF32, {1}, {least});
  if (centred) node.with("center_point_box", int64_t{1});
  return node.run<int64_t>(DType::kI64);
}

TEST(NonMaxSuppression, ComparesWithAllThatWereTakenBefore) {
  for (const bool centred : {false, true}) {
    // Small boxes, most of which are taken; and large ones, of which few are.
    for (const double size : {5.0, 60.0}) {
      const Boxes boxes = random_boxes(2, 2, 150, size, centred);
      const std::vector<int64_t> all = expected(boxes, 1000, 0.25, -1, centred);
      EXPECT_EQ(chosen(boxes, 1000, 0.25F, -1, centred), all) << size;
      if (size == 5.0) {
        EXPECT_GT(all.size(), 4 * 3 * 64U) << "several blocks of each class are wanted";
      }
    }
  }
}

TEST(NonMaxSuppression, EndsBlocksAtTheMostBoxes) {
  const Boxes boxes = random_boxes(1, 3, 80, 10, false);
  for (const int64_t most : {0, 1, 15, 16, 17, 33})
    EXPECT_EQ(chosen(boxes, most, 0.1F, 20, false), expected(boxes, most, 0.1, 20, false)) << most;
}

}  // namespace
}  // namespace gantry
