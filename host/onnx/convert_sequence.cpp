// Sequences and optionals. Where it is known when the model is read how many elements there are, and which tensor each
// is, they are gone once it is read; what indexes one by data becomes a gather. Others are late (late_sequence.h).
#include <onnx/onnx_pb.h>

#include "host/onnx/carried.h"
#include "host/onnx/chosen_tensor.h"
#include "host/onnx/converters.h"
#include "host/onnx/importer.h"
#include "host/onnx/late_sequence.h"
#include "host/onnx/loop_body.h"
#include "host/onnx/one_number.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/term.h"
#include "host/ops/bind_dims.h"
#include "host/ops/builder.h"

namespace gantry {
namespace {

using Parts = std::vector<Binding>;
constexpr int64_t kMostElements = 1024;
constexpr int64_t kMostParts = 256;  // whose sizes are data

/// A known position among `count`; negative ones count from the end.
size_t position(NodeImport& n, size_t input, int64_t count) {
  const int64_t given = one_integer(n, input, "position in a sequence");
  const int64_t at = given < 0 ? given + count : given;
  if (at < 0 || at >= count) n.fail("its position is {} in a sequence of {}", given, count);
  return static_cast<size_t>(at);
}

void convert_empty(NodeImport& n) {
  n.set_sequence(0, {});
}

void convert_construct(NodeImport& n) {
  Parts elements;
  for (size_t i = 0; i < n.input_count(); ++i) elements.push_back(n.binding(i));
  n.set_sequence(0, std::move(elements));
}

std::vector<Term> tensors_of(NodeImport& n, const Parts& elements) {
  std::vector<Term> tensors;
  for (const Binding& element : elements) tensors.emplace_back(n, n.data_of(element));
  return tensors;
}

/// An input that must be a sequence.
Binding sequence_of(NodeImport& n, size_t input) {
  const Binding& given = n.binding(input);
  if (given.has_value != nullptr) n.unsupported(UnsupportedKind::kValueKind, "optional that may have no value");
  if (!given.late && !given.sequence) n.fail("its input {} is no sequence", input);
  return given;
}
/// An input that may be left out.
std::optional<Term> optional_term(NodeImport& n, size_t input) {
  return n.has(input) ? std::optional(Term::input(n, input)) : std::nullopt;
}
/// A sequence as a late one; `x`: a tensor that it is to take.
LateSequence made_late(NodeImport& n, const Binding& sequence, const std::optional<Term>& x = std::nullopt) {
  std::optional<ElementKind> kind = kind_of_elements(n, sequence);
  if (!kind && !x) n.fail("its sequence is empty");
  if (!kind) kind = ElementKind{x->dtype(), x->rank(), false};
  return late_sequence(n, sequence, *kind);
}
/// Whether data can choose from tensors without knowing more of them.
bool are_alike(NodeImport& n, const Parts& elements) {
  const auto is_like = [&](const Binding& other) {
    const TensorType a = n.type_of(elements[0]), b = n.type_of(other);
    return a.dtype == b.dtype && a.rank() == b.rank();
  };
  return std::ranges::all_of(elements, is_like);
}

/// Each element is one of the old, or the new one, as the position says.
void insert_by_data(NodeImport& n, const Parts& elements) {
  std::vector<Term> tensors = tensors_of(n, elements);
  tensors.push_back(Term::input(n, 1));
  const Term at = checked_position(n, Term::input(n, 2), static_cast<int64_t>(elements.size()), true);
  Parts results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto place = static_cast<double>(i);
    const Term behind = where(equal(at, at.number_like(place)), static_cast<double>(elements.size()), at.number_like(place - 1));
    const Term number = where(less(at.number_like(place), at), at.number_like(place), behind);
    results.emplace_back().value = chosen_tensor(n, tensors, number);
  }
  n.set_sequence(0, std::move(results));
}

void convert_insert(NodeImport& n) {
  const Binding given = sequence_of(n, 0);
  Parts elements = given.late ? Parts() : *given.sequence;
  const bool by_data = n.has(2) && !n.contents(2);
  Parts all = elements;
  all.push_back(n.binding(1));
  if (given.late || (by_data && !are_alike(n, all))) {
    const Term x = Term::input(n, 1);
    return n.set_late(0, inserted(n, made_late(n, given, x), x, optional_term(n, 2)));
  }
  if (by_data) return insert_by_data(n, elements);
  const auto count = static_cast<int64_t>(elements.size());
  const int64_t asked =
      n.has(2) ? one_integer(n, 2, "position in a sequence") : count;  // it may go behind the last
  const int64_t at = asked < 0 ? asked + count : asked;
  if (at < 0 || at > count) n.fail("its position is {} in a sequence of {}", asked, count);
  elements.insert(elements.begin() + at, n.binding(1));
  n.set_sequence(0, std::move(elements));
}

void convert_erase(NodeImport& n) {
  const Binding given = sequence_of(n, 0);
  if (given.late || (n.has(1) && !n.contents(1)))
    return n.set_late(0, erased(n, made_late(n, given), optional_term(n, 1)));
  Parts elements = *given.sequence;
  if (elements.empty()) n.fail("its sequence is empty");
  const size_t at = n.has(1) ? position(n, 1, static_cast<int64_t>(elements.size())) : elements.size() - 1;
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at));
  n.set_sequence(0, std::move(elements));
}

void convert_at(NodeImport& n) {
  const Binding given = sequence_of(n, 0);
  if (given.late) return n.set(0, element_at(n, *given.late, Term::input(n, 1), n.declared_rank(0)));
  const Parts& elements = *given.sequence;
  const auto count = static_cast<int64_t>(elements.size());
  if (elements.empty()) n.fail("its sequence is empty");
  if (n.contents(1)) return n.set_binding(0, elements[position(n, 1, count)]);
  if (!are_alike(n, elements))
    return n.set(0, element_at(n, made_late(n, given), Term::input(n, 1), n.declared_rank(0)));
  n.set(0, chosen_tensor(n, tensors_of(n, elements), checked_position(n, Term::input(n, 1), count)));
}

void convert_length(NodeImport& n) {
  const Binding given = sequence_of(n, 0);
  const Dim length = given.late ? length_of(*given.late) : Dim(static_cast<int64_t>(given.sequence->size()));
  n.set_contents(0, Contents::scalar(length));
}

void convert_concat(NodeImport& n) {
  const Binding given = sequence_of(n, 0);
  const bool is_new = n.integer("new_axis", 0) != 0;
  const int64_t asked = n.integer("axis", 0);
  if (given.late) return n.set(0, concatenated(n, *given.late, asked, is_new, n.declared_rank(0)));
  const std::vector<Term> tensors = tensors_of(n, *given.sequence);
  if (tensors.empty()) n.fail("its sequence is empty");
  const int64_t axis = n.axis(asked, tensors[0].rank() + (is_new ? 1 : 0));
  n.set(0, is_new ? stacked(tensors, axis) : concatenated(tensors, axis));
}

/// The sizes of the parts, as many as are known: as given one by one, or all alike but the last; none where it is not
/// known how many they are, or they are very many.
std::optional<Shape> part_sizes(NodeImport& n, const Dim& extent) {
  if (n.has(1) && n.type(1).rank() == 1) {
    const auto count = element_count(n.type(1).shape).constant();
    if (!n.contents(1) && !(count && *count <= kMostParts)) return std::nullopt;
    return n.dims(1, "split");
  }
  if (n.has(1) && !n.contents(1)) return std::nullopt;
  const Dim size = n.has(1) ? one_dim(n, 1, "size of the parts") : Dim(1);
  if (size.is_constant() && size.value() < 1) n.fail("its parts cannot be of size {}", size.str());
  if (!size.is_constant() || !extent.is_constant() || extent.value() / size.value() >= kMostElements) return std::nullopt;
  Shape sizes;
  for (int64_t left = extent.value(); left > 0; left -= size.value()) sizes.push_back(std::min(size.value(), left));
  return sizes;
}

/// The sizes of parts as a vector, and checks that they make the extent.
Term late_part_sizes(NodeImport& n, const Dim& extent) {
  if (n.has(1) && n.type(1).rank() == 1) {
    const Term sizes = Term::input(n, 1).cast(DType::kI64);
    const Term are_negative = sum(less(sizes, sizes.number_like(0)).cast(DType::kI64), {0});
    const Dim negative = n.bind(are_negative, "number of parts of a negative size")[0];
    const Dim all = n.bind(sum(sizes, {0}), "extent of the parts", Elements::kSigned)[0];
    require_equal(n, negative, 0);
    require_equal(n, all, extent);
    return sizes;
  }
  const Dim size = n.has(1) ? one_dim(n, 1, "size of the parts") : Dim(1);
  require_at_least(n, size, 1);
  const Dim count = ceildiv(extent, max(size, 1));
  const Term whole = Term::dimensions(n, {size}).reshaped({}), all = Term::dimensions(n, {extent}).reshaped({});
  return minimum(whole, all - Term::range(n, count) * whole);
}

/// What all parts are long where no number of them changes that: ones, or a list that repeats one number.
std::optional<Dim> length_of_each(NodeImport& n, const Term& lengths) {
  if (!n.has(1)) return Dim(1);
  if (n.type(1).rank() != 1) {
    const auto size = n.contents(1);
    return size && size->dims.front() == Dim(1) ? std::optional(Dim(1)) : std::nullopt;
  }
  const Value* list = lengths;
  if (list->producer == nullptr || !list->producer->is(op::broadcast_to)) return std::nullopt;
  const Value* repeated = list->producer->inputs[0];
  if (!repeated->is_constant() || !(element_count(repeated->type.shape) == Dim(1))) return std::nullopt;
  const auto number = contents_of(*repeated->constant);
  return number ? std::optional(number->dims.front()) : std::nullopt;
}

void convert_split(NodeImport& n) {
  const Term x = Term::input(n, 0);
  const int64_t axis = n.axis(n.integer("axis", 0), x.rank());
  const bool squeezed = !n.has(1) && n.integer("keepdims", 1) == 0;
  const Dim extent = x.dim(axis);
  const std::optional<Shape> sizes = part_sizes(n, extent);
  if (!sizes) {
    const Term lengths = late_part_sizes(n, extent);
    return n.set_late(0, parts_of(n, x, axis, lengths, length_of_each(n, lengths), squeezed));
  }
  Shape ends{0};
  for (const Dim& size : *sizes) {
    if (size.is_constant() && size.value() < 0) n.fail("a part has a negative size");
    ends.push_back(ends.back() + size);
  }
  // Nothing may read beyond the data, whatever sizes the running model computes.
  require_equal(n, ends.back(), extent, "its parts make {}, not the {} of its axis", ends.back().str(),
                extent.str());
  Parts elements;
  for (size_t i = 0; i < sizes->size(); ++i) {
    const Term part = x.sliced(axis, ends[i], ends[i + 1]);
    elements.emplace_back().value = squeezed ? part.squeezed(axis) : part;
  }
  n.set_sequence(0, std::move(elements));
}

/// An input of SequenceMap as the turns of a loop get it.
struct MapInput {
  std::optional<LateSequence> sequence;  ///< of which each takes a tensor; its two are among what all turns read
  std::optional<Binding> known;          ///< a tensor whose value is known; others are among what all turns read
};

MapInput map_input(NodeImport& n, size_t i, std::vector<Value*>& read_by_turns) {
  MapInput input;
  if (const Binding given = n.binding(i); given.late || given.sequence) {
    input.sequence = made_late(n, sequence_of(n, i));
    read_by_turns.insert(read_by_turns.end(), {input.sequence->elements, input.sequence->dims});
  } else if (n.constant(i) || n.contents(i)) {
    input.known.emplace();
    input.known->constant = n.constant(i);
    if (!input.known->constant) input.known->contents = n.contents(i);
  } else {
    read_by_turns.push_back(n.input(i));
  }
  return input;
}

/// How many tensors all the sequences have.
Dim map_length(NodeImport& n, const std::vector<MapInput>& inputs) {
  std::optional<Dim> count;
  for (const MapInput& input : inputs) {
    if (!input.sequence) continue;
    const Dim own = length_of(*input.sequence);
    if (!count) count = own;
    require_equal(n, own, *count, "its sequences are of {} and {} elements", count->str(), own.str());
  }
  return *count;
}

std::vector<Binding> map_arguments(NodeImport& n, const std::vector<MapInput>& inputs, const TurnValues& turn) {
  std::vector<Binding> arguments(inputs.size());
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].sequence) {
      const LateSequence own{turn.others[next], turn.others[next + 1], inputs[i].sequence->ranks_differ};
      arguments[i].value = element_at(n, own, Term(n, turn.number), std::nullopt);
      next += 2;
    } else if (inputs[i].known) {
      arguments[i] = *inputs[i].known;
    } else {
      arguments[i].value = turn.others[next++];
    }
  }
  return arguments;
}

/// The body in a turn for each tensor of the sequences, of which at least one is late.
void map_late(NodeImport& n) {
  LoopParts parts;
  std::vector<MapInput> inputs;
  for (size_t i = 0; i < n.input_count(); ++i) inputs.push_back(map_input(n, i, parts.others));
  parts.turns = map_length(n, inputs);
  parts.count = n.dims_as_data({*parts.turns});
  parts.gives_condition = false;
  Binding no_tensors;
  no_tensors.sequence = std::make_shared<const Parts>();
  parts.states.assign(n.output_count(), no_tensors);
  parts.arguments = [&](const TurnValues& turn) { return map_arguments(n, inputs, turn); };
  parts.results = [&](const TurnValues& turn, const std::vector<Binding>& made) {
    if (made.size() != n.output_count()) n.fail("its body has {} outputs, not {}", made.size(), n.output_count());
    std::vector<Binding> longer(made.size());
    for (size_t i = 0; i < made.size(); ++i) {
      const Term x(n, n.data_of(made[i]));
      const LateSequence before = made_late(n, turn.states[i], x);
      longer[i].late = std::make_shared<const LateSequence>(inserted(n, before, x, std::nullopt));
    }
    return longer;
  };
  std::vector<Binding> results = add_loop(n, n.graph("body"), parts);
  for (size_t i = 0; i < results.size(); ++i) n.set_binding(i, std::move(results[i]));
}

/// The body once for each element; tensors are the same every time.
void convert_map(NodeImport& n) {
  for (size_t i = 0; i < n.input_count(); ++i) {
    if (n.binding(i).late) return map_late(n);
  }
  const size_t count = n.sequence(0).size();
  std::vector<Parts> results(n.output_count());
  for (size_t at = 0; at < count; ++at) {
    Parts arguments;
    for (size_t i = 0; i < n.input_count(); ++i) {
      const Binding& input = n.binding(i);
      if (input.sequence && input.sequence->size() != count)
        n.fail("its sequences are of {} and {} elements", count, input.sequence->size());
      arguments.push_back(input.sequence ? (*input.sequence)[at] : input);
    }
    const WrittenTurn written(n, static_cast<int64_t>(at));
    Parts made = n.call_with(n.graph("body"), std::move(arguments));
    if (made.size() != results.size()) n.fail("its body has {} outputs, not {}", made.size(), results.size());
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(std::move(made[i]));
  }
  for (size_t i = 0; i < results.size(); ++i) n.set_sequence(i, std::move(results[i]));
}

void convert_optional(NodeImport& n) {
  Binding absent;
  absent.absent = true;
  n.set_binding(0, n.has(0) ? n.binding(0) : absent);
}

void convert_has_element(NodeImport& n) {
  if (n.has(0) && n.binding(0).has_value != nullptr) return n.set(0, n.binding(0).has_value);
  n.set_contents(0, Contents::scalar(n.has(0) && !n.binding(0).absent ? 1 : 0, DType::kBool));
}

/// A run in which it has none ends with an error that names the node.
void require_value(NodeImport& n, Value* has_value) {
  const Term number = Term(n, has_value).cast(DType::kI64);
  auto attrs = std::make_shared<BindDimsAttrs>();
  attrs->symbols = {n.new_symbol(n.name() + ".has_value")};
  Builder(n.function(), {n.name()})(op::bind_dims, {number}, attrs);
  require_equal(n, attrs->symbols[0], 1);
}

void convert_get_element(NodeImport& n) {
  Binding given = n.binding(0);
  if (given.absent) n.fail("its optional has no value");
  if (given.has_value != nullptr) require_value(n, given.has_value);
  given.has_value = nullptr;
  n.set_binding(0, std::move(given));
}

}  // namespace

void add_sequence_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"SequenceEmpty", 11, convert_empty},
      {"SequenceConstruct", 11, convert_construct},
      {"SequenceInsert", 11, convert_insert},
      {"SequenceErase", 11, convert_erase},
      {"SequenceAt", 11, convert_at},
      {"SequenceLength", 11, convert_length},
      {"SequenceMap", 17, convert_map},
      {"ConcatFromSequence", 11, convert_concat},
      {"SplitToSequence", 11, convert_split},
      {"Optional", 15, convert_optional},
      {"OptionalHasElement", 15, convert_has_element},
      {"OptionalGetElement", 15, convert_get_element},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
