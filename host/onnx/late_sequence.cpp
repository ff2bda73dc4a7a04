#include "host/onnx/late_sequence.h"

#include <algorithm>

#include "host/graph/strings.h"
#include "host/onnx/required_dims.h"
#include "host/ops/bind_dims.h"
#include "host/ops/builder.h"
#include "host/ops/reduce.h"

namespace gantry {
namespace {

Dim volume(const Term& x) {
  return element_count(x.shape());
}

/// The number under the node's name, which is what errors show.
Dim bound_position(NodeImport& n, const Term& number) {
  const Value* value = number;
  if (value->is_constant()) return *value->constant->as<int64_t>();
  auto attrs = std::make_shared<BindDimsAttrs>();
  attrs->symbols = {n.new_symbol(n.name() + ".position")};
  attrs->negatives = {n.new_symbol(n.name() + ".position_from_end")};
  Builder(n.function(), {n.name()})(op::bind_dims, {number}, attrs);
  return attrs->symbols[0] - attrs->negatives[0];
}

/// The row of a tensor in a table of that many columns.
Term row_of(NodeImport& n, const Shape& shape, int rank) {
  Shape row{static_cast<int64_t>(shape.size())};
  row.insert(row.end(), shape.begin(), shape.end());
  row.resize(static_cast<size_t>(rank) + 1, 1);
  return Term::dimensions(n, row).unsqueezed(0);
}

Term joined_rows(const std::vector<Term>& parts) {
  return parts.size() == 1 ? parts[0] : concatenated(parts, 0);
}

/// Column i of a table as a vector.
Term column(const Term& dims, int64_t i) {
  return dims.sliced(1, i, i + 1).reshaped({dims.dim(0)});
}

/// How many elements each tensor has.
Term sizes_of(NodeImport& n, const Term& dims) {
  const int64_t columns = dims.dim(1).value();
  if (columns == 1) return Term::filled(n, DType::kI64, 1, {dims.dim(0)});
  Term sizes = column(dims, 1);
  for (int64_t i = 2; i < columns; ++i) sizes = sizes * column(dims, i);
  return sizes;
}

/// The sum of the numbers in front of a position: of rank 0.
Term sum_before(NodeImport& n, const Term& numbers, const Term& position) {
  return sum(where(less(Term::range(n, numbers.dim(0)), position), numbers, 0), {0});
}

/// What is in front of each number, added up.
Term sums_before(NodeImport& n, const Term& numbers) {
  auto attrs = std::make_shared<CumsumAttrs>();
  attrs->exclusive = true;
  return {n, n.add(op::cumsum, {numbers}, attrs)};
}

/// A tensor of a sequence: i64 of rank 0.
struct Found {
  Term at;     ///< its position
  Term begin;  ///< how many elements are in front of its own
};
Found find(NodeImport& n, const LateSequence& sequence, const Term& position, bool behind) {
  const Term at = checked_position(n, position, length_of(sequence), behind);
  return {at, sum_before(n, sizes_of(n, Term(n, sequence.dims)), at)};
}

/// The row of a table at a position, all 0 where there is none.
Term row_at(NodeImport& n, const Term& dims, const Term& at) {
  const Term is_there = equal(Term::range(n, dims.dim(0)), at);
  return sum(where(is_there.unsqueezed(1), dims, 0), {0});
}

Shape bound(NodeImport& n, const std::vector<Term>& numbers, const char* what) {
  std::vector<Term> vectors;
  for (const Term& number : numbers) vectors.push_back(number.rank() == 1 ? number : number.reshaped({1}));
  return n.bind(joined_rows(vectors), what);
}

/// The rows of x with others in place of those from `begin` to `end`, which are at most as many as there are:
/// they are of a position that was brought into the sequence (checked_position).
Term spliced(const Term& x, const Dim& begin, const Dim& end, const std::optional<Term>& middle) {
  const Dim extent = x.dim(0);
  std::vector<Term> parts{x.sliced_inside(0, 0, begin)};
  if (middle) parts.push_back(*middle);
  parts.push_back(x.sliced_inside(0, end, extent));
  Shape shape = x.shape();
  shape[0] = extent - (end - begin) + (middle ? middle->dim(0) : Dim(0));
  // Of the sum of the parts it is not known to be that.
  return concatenated(parts, 0).reshaped(std::move(shape));
}

/// As a sequence of tensors of that kind, which its own are.
LateSequence widened(NodeImport& n, const LateSequence& sequence, const ElementKind& kind) {
  LateSequence wide = sequence;
  if (!(kind == kind_of(sequence))) wide.common.clear();
  wide.ranks_differ = kind.ranks_differ;
  const Term dims(n, sequence.dims);
  const int64_t more = kind.rank + 1 - dims.dim(1).value();
  if (more > 0) wide.dims = concatenated({dims, Term::filled(n, DType::kI64, 1, {dims.dim(0), more})}, 1);
  return wide;
}

}  // namespace

ElementKind joined(NodeImport& n, const ElementKind& a, const ElementKind& b) {
  if (a.dtype != b.dtype)
    n.unsupported(UnsupportedKind::kElementType, "tensors of {} and {} in one sequence", name_of(a.dtype),
                  name_of(b.dtype));
  return {a.dtype, std::max(a.rank, b.rank), a.ranks_differ || b.ranks_differ || a.rank != b.rank};
}

ElementKind kind_of(const LateSequence& sequence) {
  return {sequence.elements->type.dtype, static_cast<int>(sequence.dims->type.shape[1].value()) - 1,
          sequence.ranks_differ};
}

std::optional<ElementKind> kind_of_elements(NodeImport& n, const Binding& sequence) {
  if (sequence.late) return kind_of(*sequence.late);
  std::optional<ElementKind> kind;
  for (const Binding& element : *sequence.sequence) {
    const TensorType type = n.type_of(element);
    const ElementKind own{type.dtype, type.rank(), false};
    kind = kind ? joined(n, *kind, own) : own;
  }
  return kind;
}

Dim length_of(const LateSequence& sequence) {
  return sequence.dims->type.shape[0];
}

Term nothing(NodeImport& n, DType dtype, int rank) {
  const Shape shape(static_cast<size_t>(rank), 0);
  if (dtype == DType::kString)
    return {n, n.constant_value(make_strings(shape, std::vector<std::string>(rank == 0 ? 1 : 0)), "nothing")};
  if (rank == 0) return Term::number(n, dtype, 0);
  const int64_t unread = 0;
  return {n, n.constant_value(make_constant({dtype, shape}, &unread), "nothing")};
}

LateSequence late_sequence(NodeImport& n, const Binding& sequence, const ElementKind& kind) {
  if (sequence.late) return widened(n, *sequence.late, kind);
  LateSequence late;
  late.ranks_differ = kind.ranks_differ;
  std::vector<Term> elements, rows;
  for (const Binding& element : *sequence.sequence) {
    const Term x(n, n.data_of(element));
    elements.push_back(x.reshaped({volume(x)}));
    rows.push_back(row_of(n, x.shape(), kind.rank));
  }
  const int64_t unread = 0;
  const TensorType no_rows{DType::kI64, {0, kind.rank + 1}};
  late.elements = elements.empty() ? nothing(n, kind.dtype, 1) : joined_rows(elements);
  late.dims = rows.empty() ? n.constant_value(make_constant(no_rows, &unread), "dims") : joined_rows(rows);
  return late;
}

namespace {

/// Of each row whether it is not of a tensor of these dimensions that has at most `most` elements.
Term wrong_rows(NodeImport& n, const Term& dims, const std::vector<std::optional<Dim>>& declared,
                const Dim& most) {
  const auto rank = static_cast<double>(declared.size());
  Term wrong = not_equal(column(dims, 0), Term::number(n, DType::kI64, rank));
  Term size = Term::filled(n, DType::kF64, 1, {dims.dim(0)});  // products of i64 would wrap
  for (size_t i = 0; i < declared.size(); ++i) {
    const Term extent = column(dims, static_cast<int64_t>(i) + 1);
    wrong = either(wrong, less(extent, extent.number_like(0)));
    if (declared[i]) wrong = either(wrong, not_equal(extent, Term::dimensions(n, {*declared[i]})));
    size = size * extent.cast(DType::kF64);
  }
  return either(wrong, less(Term::dimensions(n, {most}).cast(DType::kF64), size));
}

}  // namespace

LateSequence given_sequence(NodeImport& n, Value* elements, Value* dims,
                            const std::vector<std::optional<Dim>>& declared) {
  LateSequence sequence;
  sequence.elements = elements;
  sequence.dims = dims;
  const Term table(n, dims);
  const Dim total = element_count(elements->type.shape);
  const Term wrong = sum(wrong_rows(n, table, declared, total).cast(DType::kI64), {0});
  auto attrs = std::make_shared<BindDimsAttrs>();
  attrs->symbols = {n.new_symbol(n.name() + ".rows_of_no_such_tensor"),
                    n.new_symbol(n.name() + ".elements_of_all_rows")};
  const Term described = sum(sizes_of(n, table), {0});
  const Term found = joined_rows({wrong.reshaped({1}), described.reshaped({1})});
  Builder(n.function(), {n.name()})(op::bind_dims, {found}, attrs);
  require_equal(n, attrs->symbols[0], 0);
  require_equal(n, attrs->symbols[1], total);
  return sequence;
}

Term checked_position(NodeImport& n, const Term& position, const Dim& count, bool behind) {
  const Term number = position.cast(DType::kI64).reshaped({});
  const Dim asked = bound_position(n, number), first = Dim(0) - count, last = behind ? count : count - 1;
  if (asked.is_constant() && count.is_constant() &&
      (asked.value() > last.value() || asked.value() < first.value()))
    n.fail("its position is {} in a sequence of {}", asked.str(), count.str());
  require_at_most(n, asked, last);
  require_at_least(n, asked, first);
  const Term length = Term::dimensions(n, {count}).reshaped({});
  const Term from_front = where(less(number, number.number_like(0)), number + length, number);
  return maximum(minimum(from_front, length - (behind ? 0 : 1)), 0);
}

LateSequence inserted(NodeImport& n, const LateSequence& sequence, const Term& x,
                      const std::optional<Term>& position) {
  const ElementKind kind = joined(n, kind_of(sequence), {x.dtype(), x.rank(), false});
  LateSequence result = widened(n, sequence, kind);
  const Term elements(n, result.elements), dims(n, result.dims);
  const Term flat = x.reshaped({volume(x)}), row = row_of(n, x.shape(), kind.rank);
  for (size_t i = 0; i < result.common.size(); ++i) {
    if (result.common[i] != x.shape()[i]) result.common[i].reset();
  }
  if (!position) {
    result.elements = concatenated({elements, flat}, 0);
    result.dims = concatenated({dims, row}, 0);
    return result;
  }
  const Found found = find(n, result, *position, true);
  const Shape cut = bound(n, {found.at, found.begin}, "place in a sequence");
  result.elements = spliced(elements, cut[1], cut[1], flat);
  result.dims = spliced(dims, cut[0], cut[0], row);
  return result;
}

LateSequence erased(NodeImport& n, const LateSequence& sequence, const std::optional<Term>& position) {
  if (length_of(sequence) == Dim(0)) n.fail("its sequence is empty");
  const Term elements(n, sequence.elements), dims(n, sequence.dims);
  const Found found = find(n, sequence, position.value_or(Term::number(n, DType::kI64, -1)), false);
  const Term size = sum_before(n, sizes_of(n, dims), found.at + 1) - found.begin;
  const Shape cut = bound(n, {found.at, found.begin, size}, "place in a sequence");
  LateSequence result = sequence;
  result.elements = spliced(elements, cut[1], cut[1] + cut[2], std::nullopt);
  result.dims = spliced(dims, cut[0], cut[0] + 1, std::nullopt);
  return result;
}

namespace {

/// Where a tensor begins among the elements, and its shape.
struct Place {
  Dim begin;
  Shape shape;
};
Place place_of(NodeImport& n, const LateSequence& sequence, const Term& begin, const Term& row, int rank) {
  std::vector<Term> unknown{begin};
  if (sequence.common.empty()) unknown.push_back(row.sliced(0, 1, 1 + rank));
  for (size_t i = 0; i < sequence.common.size(); ++i) {
    const auto column = static_cast<int64_t>(i) + 1;
    if (!sequence.common[i]) unknown.push_back(row.sliced(0, column, column + 1));
  }
  const Shape found = bound(n, unknown, "shape of a tensor");
  Place place{found[0], {found.begin() + 1, found.end()}};
  for (size_t i = 0; i < sequence.common.size(); ++i) {
    if (sequence.common[i])
      place.shape.insert(place.shape.begin() + static_cast<std::ptrdiff_t>(i), *sequence.common[i]);
  }
  return place;
}

}  // namespace

Term element_at(NodeImport& n, const LateSequence& sequence, const Term& position, std::optional<int> rank) {
  const ElementKind kind = kind_of(sequence);
  if (!kind.ranks_differ) rank = kind.rank;
  if (!rank)
    n.unsupported(UnsupportedKind::kRunTimeValue,
                  "tensor of a sequence of unlike ranks, of which the model says none");
  if (*rank > kind.rank) n.fail("its sequence has no tensor of {} dimensions", *rank);
  const Term elements(n, sequence.elements), dims(n, sequence.dims);
  const Found found = find(n, sequence, position, false);
  const Term row = row_at(n, dims, found.at);
  if (kind.ranks_differ) require_equal(n, n.bind(row.sliced(0, 0, 1), "rank of a tensor")[0], *rank);
  const auto [begin, shape] = place_of(n, sequence, found.begin, row, *rank);
  const Dim end = begin + element_count(shape);
  // Nothing may read beyond the data, whatever the running model computes.
  require_at_most(n, end, elements.dim(0));
  return elements.sliced(0, begin, end).reshaped(shape);
}

namespace {

/// The dimensions that all tensors have; the run ends with an error where one is unlike the first in a column
/// but `free`.
Shape common_shape(NodeImport& n, const Term& dims, int rank, std::optional<int64_t> free) {
  const Term first = dims.sliced(0, 0, 1);
  const Term unlike = not_equal(dims, first).cast(DType::kI64);
  std::vector<Term> counts;
  const int64_t split = free.value_or(rank + 1);
  counts.push_back(sum(unlike.sliced(1, 0, split), {0, 1}));
  if (split < rank) counts.push_back(sum(unlike.sliced(1, split + 1, rank + 1), {0, 1}));
  for (const Dim& count : bound(n, counts, "number of tensors of unlike shapes")) require_equal(n, count, 0);
  const Shape row = n.bind(first.reshaped({rank + 1}), "shape of a tensor");
  require_equal(n, row[0], rank);
  return {row.begin() + 1, row.end()};
}

/// Of each of some positions the part that it lies in: where that begins, and its length. Parts follow each
/// other.
struct PartOf {
  Term begin, length;
};
PartOf part_at(const Term& positions, const Term& begins, const Term& lengths, const Term& ends) {
  const Term at = positions.unsqueezed(1);
  const Term inside = both(less_equal(begins.unsqueezed(0), at), less(at, ends.unsqueezed(0)));
  return {sum(where(inside, begins.unsqueezed(0), 0), {1}),
          sum(where(inside, lengths.unsqueezed(0), 0), {1})};
}

/// Extents in front of an axis and behind it.
Dim outer(const Shape& shape, int64_t axis) {
  return element_count({shape.begin(), shape.begin() + axis});
}
Dim inner(const Shape& shape, int64_t axis) {
  return element_count({shape.begin() + axis + 1, shape.end()});
}
Term as_number(NodeImport& n, const Dim& dim) {
  return Term::dimensions(n, {dim}).reshaped({});
}

}  // namespace

Term concatenated(NodeImport& n, const LateSequence& sequence, int64_t axis, bool is_new,
                  std::optional<int> rank) {
  const ElementKind kind = kind_of(sequence);
  const std::optional<int> declared = rank ? std::optional(*rank - (is_new ? 1 : 0)) : std::nullopt;
  if (kind.ranks_differ && !declared)
    n.unsupported(UnsupportedKind::kRunTimeValue,
                  "sequence of tensors of unlike ranks, of which the model says none");
  const int own = kind.ranks_differ ? *declared : kind.rank;
  if (own < 0 || own > kind.rank) n.fail("its sequence has no tensors of {} dimensions", own);
  axis = n.axis(axis, own + (is_new ? 1 : 0));
  const Dim count = length_of(sequence);
  if (count == Dim(0)) n.fail("its sequence is empty");
  require_at_least(n, count, 1);
  const Term elements(n, sequence.elements), dims = Term(n, sequence.dims).sliced(1, 0, own + 1);
  Shape shape = common_shape(n, dims, own, is_new ? std::nullopt : std::optional(axis + 1));
  if (is_new) {
    std::vector<int64_t> axes;
    for (int64_t i = 1; i <= own; ++i) axes.push_back(i);
    axes.insert(axes.begin() + axis, 0);
    shape.insert(shape.begin(), count);
    const Term stacked = elements.reshaped(shape);
    return axis == 0 ? stacked : stacked.transposed(axes);
  }
  const Term lengths = column(dims, axis + 1);
  const Dim extent = bound(n, {sum(lengths, {0})}, "extent of tensors together")[0];
  shape[static_cast<size_t>(axis)] = extent;
  if (axis == 0) return elements.reshaped(shape);
  // Of each row of the result, from `axis` + 1 on, the row of the elements that it is.
  const Dim before = outer(shape, axis), behind = inner(shape, axis);
  const Term begins = sums_before(n, lengths), positions = Term::range(n, extent);
  const PartOf part = part_at(positions, begins, lengths, begins + lengths);
  const Term block = Term::range(n, before).unsqueezed(1);
  const Term rows = part.begin * as_number(n, before) + block * part.length + (positions - part.begin);
  const Term table = elements.reshaped({before * extent, behind});
  return gather(table, rows.reshaped({before * extent}), 0).reshaped(shape);
}

LateSequence parts_of(NodeImport& n, const Term& x, int64_t axis, const Term& lengths,
                      std::optional<Dim> each, bool squeezed) {
  const Dim count = lengths.dim(0), extent = x.dim(axis);
  const Dim before = outer(x.shape(), axis), behind = inner(x.shape(), axis);
  LateSequence parts;
  parts.elements = x.reshaped({volume(x)});
  if (!(before == Dim(1)) && !(volume(x) == Dim(0))) {
    // Of each row of the elements the row of x that it is: blocks of a part follow each other.
    const Term begins = sums_before(n, lengths), blocks = as_number(n, before);
    const Term positions = Term::range(n, before * extent);
    const PartOf part = part_at(positions, begins * blocks, lengths, (begins + lengths) * blocks);
    const Term inside = positions - part.begin;
    const Term block = inside / maximum(part.length, 1);
    const Term rows =
        block * as_number(n, extent) + part.begin / maximum(blocks, 1) + (inside - block * part.length);
    parts.elements = gather(x.reshaped({before * extent, behind}), rows, 0).reshaped({volume(x)});
  }
  std::vector<Term> columns{Term::filled(n, DType::kI64, x.rank() - (squeezed ? 1 : 0), {count, 1})};
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i == axis && squeezed) continue;
    parts.common.push_back(i == axis ? each : std::optional(x.dim(i)));
    columns.push_back(i == axis ? lengths.unsqueezed(1) : as_number(n, x.dim(i)).broadcast({count, 1}));
  }
  parts.dims = columns.size() == 1 ? columns[0] : concatenated(columns, 1);
  return parts;
}

}  // namespace gantry
