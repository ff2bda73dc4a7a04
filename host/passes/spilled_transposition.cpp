#include "host/passes/spilled_transposition.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "host/graph/spilled_constant.h"
#include "host/ops/movement.h"

namespace gantry {
namespace {

/// What is put together in memory at a time.
constexpr size_t kPart = size_t{8} << 20;

/// A constant of `rows` x `columns` chunks, of which the chunks change places.
struct Chunks {
  size_t rows = 0, columns = 0;
  size_t bytes = 0;  ///< of one
};

/// Neighbouring axes that stay neighbours are one.
std::optional<Chunks> chunks_of(const TensorType& type, const std::vector<int64_t>& axes) {
  std::vector<size_t> order;  // of the axes that are not 1
  for (const int64_t axis : axes) {
    if (!(type.shape[static_cast<size_t>(axis)] == Dim(1))) order.push_back(static_cast<size_t>(axis));
  }
  std::vector<std::pair<size_t, size_t>> groups;  // their first axis and how many elements they have
  size_t last = 0;
  for (const size_t axis : order) {
    const auto extent = static_cast<size_t>(type.shape[axis].value());
    const auto between = [&](size_t from, size_t to) {
      for (size_t i = from; i < to; ++i) {
        if (!(type.shape[i] == Dim(1))) return false;
      }
      return from <= to;
    };
    if (!groups.empty() && between(last + 1, axis)) {
      groups.back().second *= extent;
    } else {
      groups.emplace_back(axis, extent);
    }
    last = axis;
  }
  const bool swaps = (groups.size() == 2 || groups.size() == 3) && groups[0].first > groups[1].first &&
                     (groups.size() == 2 || groups[2].first > groups[0].first);
  if (!swaps) return std::nullopt;
  const auto width = static_cast<size_t>(byte_width(type.dtype));
  return Chunks{groups[1].second, groups[0].second, width * (groups.size() == 3 ? groups[2].second : 1)};
}

template <typename Copy>
void turn(const std::byte* from, const Chunks& chunks, size_t first_column, size_t count, std::byte* to,
          const Copy& copy) {
  constexpr size_t kTile = 16;  // rows and columns whose lines stay in the cache
  for (size_t row = 0; row < chunks.rows; row += kTile) {
    const size_t last = std::min(row + kTile, chunks.rows);
    for (size_t column = 0; column < count; ++column) {
      for (size_t r = row; r < last; ++r) {
        copy(to + (column * chunks.rows + r) * chunks.bytes,
             from + (r * chunks.columns + first_column + column) * chunks.bytes);
      }
    }
  }
}

using Fill = std::function<void(size_t offset, std::span<std::byte> part)>;

/// The node's result of that size, of which whole rows are put together at a time; null where the disk does
/// not take it.
ConstantPtr kept_rows(const Node& node, SpillFile& file, size_t size, size_t row, const Fill& fill) {
  auto kept = file.keep(size, std::max<size_t>(1, kPart / row) * row, fill);
  return kept == nullptr ? nullptr : constant_over(node.result()->type, std::move(kept));
}

}  // namespace

ConstantPtr spilled_transposition(const Node& node, SpillFile& file, size_t bytes) {
  const auto* attrs = node.match(op::transpose);
  if (attrs == nullptr || !node.inputs[0]->is_constant()) return nullptr;
  const ConstantData& from = *node.inputs[0]->constant;
  if (from.size < bytes || from.type.dtype == DType::kString) return nullptr;
  const auto chunks = chunks_of(from.type, attrs->axes);
  if (!chunks) return nullptr;
  const size_t row = chunks->rows * chunks->bytes;  // of the result
  const auto fill = [&](size_t offset, std::span<std::byte> part) {
    const size_t first = offset / row, count = part.size() / row;
    if (chunks->bytes == 4) {
      turn(from.bytes, *chunks, first, count, part.data(),
           [](std::byte* to, const std::byte* element) { std::memcpy(to, element, 4); });
    } else {
      turn(from.bytes, *chunks, first, count, part.data(),
           [&](std::byte* to, const std::byte* chunk) { std::memcpy(to, chunk, chunks->bytes); });
    }
  };
  return kept_rows(node, file, from.size, row, fill);
}

ConstantPtr spilled_padding(const Node& node, SpillFile& file, size_t bytes) {
  const auto* attrs = node.match(op::pad);
  if (attrs == nullptr || attrs->mode != PadMode::kConstant || attrs->value != 0 ||
      !node.inputs[0]->is_constant())
    return nullptr;
  const ConstantData& from = *node.inputs[0]->constant;
  if (from.size < bytes || from.type.dtype == DType::kString || from.type.rank() == 0) return nullptr;
  const size_t last = from.type.shape.size() - 1;
  for (size_t axis = 0; axis <= last; ++axis) {
    const bool stays = attrs->before[axis] == Dim(0) && (axis == last || attrs->after[axis] == Dim(0));
    if (!stays || !from.type.shape[axis].is_constant() || !attrs->after[axis].is_constant()) return nullptr;
  }
  const auto width = static_cast<size_t>(byte_width(from.type.dtype));
  const size_t own = width * static_cast<size_t>(from.type.shape[last].value());
  const size_t row = own + width * static_cast<size_t>(attrs->after[last].value());
  if (own == 0) return nullptr;
  const auto fill = [&](size_t offset, std::span<std::byte> part) {
    for (size_t at = 0; at < part.size(); at += row) {
      std::memcpy(part.data() + at, from.bytes + (offset + at) / row * own, own);
      std::memset(part.data() + at + own, 0, row - own);
    }
  };
  return kept_rows(node, file, from.size / own * row, row, fill);
}

}  // namespace gantry
