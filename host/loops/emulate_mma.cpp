#include "host/loops/emulate_mma.h"

#include "host/tensor/fold.h"

namespace gantry {
namespace {

constexpr int64_t kM = kMmaRows, kN = kMmaColumns, kLanes = kMmaThreads;

struct Place {
  Expr row, column;
};

// Lane l is number l / 4 among the groups of four lanes and number l % 4 in its group.
Expr group(const Expr& lane) {
  return floordiv(lane, 4);
}
Expr member(const Expr& lane) {
  return mod(lane, 4);
}

/// Row m and column k of an element of A.
Place place_in_a(MmaShape shape, const Expr& lane, int64_t e) {
  if (shape == MmaShape::kM16N8K8Tf32) return {group(lane) + Expr(e % 2 * 8), member(lane) + Expr(e / 2 * 4)};
  return {group(lane) + Expr(e / 2 % 2 * 8), member(lane) * 2 + Expr(e % 2 + e / 4 * 8)};
}
/// Row k and column n of an element of B.
Place place_in_b(MmaShape shape, const Expr& lane, int64_t e) {
  if (shape == MmaShape::kM16N8K8Tf32) return {member(lane) + Expr(e * 4), group(lane)};
  return {member(lane) * 2 + Expr(e % 2 + e / 2 * 8), group(lane)};
}
Place place_in_d(const Expr& lane, int64_t e) {
  return {group(lane) + Expr(e / 2 * 8), member(lane) * 2 + Expr(e % 2)};
}

Buffer make_tile(const char* name, int64_t elements) {
  auto node = std::make_shared<BufferNode>();
  node->name = name;
  node->dtype = DType::kF32;
  node->element_count = Expr(elements);
  node->scope = BufferScope::kLocal;
  return node;
}

Expr row_of(int64_t elements, const Expr& first) {
  return std::make_shared<RampNode>(first, Expr(1), static_cast<int>(elements));
}
Expr in_all_lanes(Expr value, int64_t lanes) {
  return std::make_shared<BroadcastNode>(std::move(value), static_cast<int>(lanes));
}

}  // namespace

// The fragments are gathered into plain row-major tiles and multiplied there, a row of 8 columns at a time.
Stmt mma_loops(MmaShape shape, const FragmentElement& d, const FragmentElement& a, const FragmentElement& b) {
  const MmaGeometry& geometry = geometry_of(shape);
  const int64_t depth = geometry.depth;
  const Buffer a_tile = make_tile("mma.a", kM * depth), b_tile = make_tile("mma.b", depth * kN),
               d_tile = make_tile("mma.d", kM * kN);
  auto gather = [&](const Buffer& tile, int64_t columns, const FragmentElement& fragment, int64_t elements,
                    auto place) {
    const Expr lane = make_var("lane");
    std::vector<Stmt> copies;
    for (int64_t e = 0; e < elements; ++e) {
      auto [buffer, index] = fragment(lane, e);
      const Place at = place(lane, e);
      copies.push_back(
          store(tile, at.row * Expr(columns) + at.column, cast(DType::kF32, load(buffer, index))));
    }
    return for_loop(lane, 0, Expr(kLanes), LoopKind::kSerial, block(std::move(copies)));
  };
  const Expr m = make_var("m"), k = make_var("k");
  const Expr d_row = row_of(kN, m * Expr(kN));
  const Expr a_value = in_all_lanes(load(a_tile, m * Expr(depth) + k), kN);
  const Expr b_row = load(b_tile, row_of(kN, k * Expr(kN)));
  Stmt multiply = store(d_tile, d_row, load(d_tile, d_row) + a_value * b_row);
  multiply = for_loop(k, 0, Expr(depth), LoopKind::kSerial, multiply);
  multiply = for_loop(m, 0, Expr(kM), LoopKind::kSerial, multiply);

  const Expr lane = make_var("lane");
  std::vector<Stmt> scatter;
  for (int64_t e = 0; e < kMmaResults; ++e) {
    auto [buffer, index] = d(lane, e);
    const Place at = place_in_d(lane, e);
    scatter.push_back(store(buffer, index, load(d_tile, at.row * Expr(kN) + at.column)));
  }
  Stmt body = block({
      gather(a_tile, depth, a, geometry.a_elements(),
             [&](const Expr& l, int64_t e) { return place_in_a(shape, l, e); }),
      gather(b_tile, kN, b, geometry.b_elements(),
             [&](const Expr& l, int64_t e) { return place_in_b(shape, l, e); }),
      gather(d_tile, kN, d, kMmaResults, place_in_d),
      multiply,
      for_loop(lane, 0, Expr(kLanes), LoopKind::kSerial, block(std::move(scatter))),
  });
  return allocate(a_tile, allocate(b_tile, allocate(d_tile, body)));
}

}  // namespace gantry
