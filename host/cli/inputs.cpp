#include "host/cli/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <tuple>

#include "host/cli/model_tensors.h"
#include "host/cli/sequence_inputs.h"
#include "host/cli/tensor_files.h"
#include "host/compiler/string_tensors.h"
#include "host/graph/small_float.h"
#include "host/onnx/import.h"
#include "host/support/error.h"
#include "host/support/random.h"
#include "host/support/suggest.h"

namespace gantry::cli {
namespace {

void check_shape_name(const std::vector<rpc::TensorDescription>& model, const std::string& name,
                      const std::vector<int64_t>& shape) {
  const std::vector<std::string> names = names_of(model);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::string hint = did_you_mean(name, names);
  user_error("--shape {}={}: the model has no such input{} Its inputs: {}", name, shape_text(shape),
             hint.empty() ? "." : hint, fmt::join(names, ", "));
}

/// The model's shape with its symbolic dimensions from --shape; -1 where both leave them open.
std::vector<int64_t> asked_shape(const rpc::TensorDescription& wanted, const InputChoice& choice) {
  const auto given = choice.shapes.find(wanted.name);
  if (given == choice.shapes.end()) return wanted.shape;
  std::vector<int64_t> shape = given->second;
  for (size_t i = 0; i < shape.size() && i < wanted.shape.size(); ++i)
    shape[i] = shape[i] < 0 ? wanted.shape[i] : shape[i];
  if (!shape_fits(wanted.shape, shape)) {
    user_error("--shape {}={}: input '{}' takes {}", wanted.name, shape_text(given->second), wanted.name,
               shape_text(wanted.shape));
  }
  return shape;
}

/// The shapes of all inputs, where nothing is left open. Those with a file have its shape.
std::vector<ChosenShape> complete_shapes(const std::vector<rpc::TensorDescription>& model,
                                         const std::vector<std::optional<FileTensor>>& given,
                                         const InputChoice& choice) {
  std::vector<std::vector<int64_t>> shapes;
  bool open = false;
  for (size_t i = 0; i < model.size(); ++i) {
    shapes.push_back(given[i] ? given[i]->tensor.shape : asked_shape(model[i], choice));
    open = open || std::ranges::any_of(shapes.back(), [](int64_t size) { return size < 0; });
  }
  if (open && choice.choose) return choice.choose(shapes);
  std::vector<ChosenShape> complete;
  for (std::vector<int64_t>& shape : shapes) {
    for (int64_t& size : shape) size = size < 0 ? 1 : size;
    complete.push_back({std::move(shape), {}});
  }
  return complete;
}

GivenInput made_up_input(const rpc::TensorDescription& wanted, ChosenShape shape, uint64_t seed) {
  std::string source = fmt::format("random, seed {}", seed);
  if (!shape.sizes.empty()) source += "; chosen: " + chosen_text(shape.sizes);
  return {random_tensor(wanted.type, shape.shape, seed, wanted.name), std::move(source),
          std::move(shape.sizes)};
}

template <typename T>
void fill(std::vector<std::byte>& bytes, size_t count, const auto& draw) {
  for (size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(draw());
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
}

/// The upper half of a float's bits: bfloat16, rounded towards zero.
uint16_t to_bfloat(double value) {
  const auto narrow = static_cast<float>(value);
  uint32_t bits = 0;
  std::memcpy(&bits, &narrow, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16);
}

/// IEEE half precision, rounded towards zero; for values of the normal generator, whose magnitude stays
/// below 5.
uint16_t to_half(double value) {
  const uint16_t sign = value < 0 ? 0x8000 : 0;
  int exponent = 0;
  const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
  if (fraction == 0 || exponent < -13) return sign;
  const auto mantissa = static_cast<uint16_t>(fraction * 2048);
  return static_cast<uint16_t>(sign | ((exponent + 14) << 10) | (mantissa & 1023));
}

/// The code of a float of 8 bits or less; of an exponent alone, which has neither sign nor zero, that of the
/// magnitude.
uint8_t to_small_float(DType dtype, double value) {
  constexpr double kLeast = 0x1p-8;
  if (dtype == DType::kF8E8M0FNU) value = std::max(std::fabs(value), kLeast);
  return small_float_code(dtype, value);
}

}  // namespace

NamedText split_named(const std::string& text) {
  std::error_code code;
  const size_t equals = text.find('=');
  if (equals == std::string::npos || std::filesystem::exists(text, code)) return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

NamedText split_output(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

namespace {

/// "3", "1..8", "1.." or "?" at the beginning of what is between `at` and `end`, and where it ends; nothing
/// where it is none of these.
std::optional<GivenSize> parse_size(const char*& at, const char* end) {
  if (at != end && *at == '?') {
    ++at;
    return GivenSize(kOpenSize);
  }
  DimRange range;
  const auto number = [&](int64_t& value) {
    const auto [stop, error] = std::from_chars(at, end, value);
    const bool good = error == std::errc() && value >= 0;
    if (good) at = stop;
    return good;
  };
  if (!number(range.low)) return std::nullopt;
  if (end - at < 2 || at[0] != '.' || at[1] != '.') return GivenSize(range.low);
  at += 2;
  if (at != end && *at >= '0' && *at <= '9' && !number(range.high)) return std::nullopt;
  return range.low <= range.high ? std::optional<GivenSize>(range) : std::nullopt;
}

}  // namespace

std::map<std::string, std::vector<GivenSize>> parse_shapes(const std::vector<std::string>& arguments) {
  std::map<std::string, std::vector<GivenSize>> shapes;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      user_error("--shape {}: write NAME=1x3x224x224, with ? for what is left open, 1..8 for a range",
                 argument);
    }
    std::vector<GivenSize> shape;
    const char* at = argument.data() + equals + 1;
    const char* end = argument.data() + argument.size();
    if (std::string_view(at, end) == "none") {
      shape = {kNoValue};
      at = end;
    }
    while (at != end) {
      const std::optional<GivenSize> size = parse_size(at, end);
      const bool separated = at == end || *at == 'x' || *at == ',';
      const bool last_is_separator = at != end && at + 1 == end;
      if (!size || !separated || last_is_separator) {
        const bool has_range = argument.find("..", equals) != std::string::npos;
        user_error(
            "--shape {}: '{}' is not a shape like 1x3x224x224 or 1..8x3x?x?{}", argument,
            argument.substr(equals + 1),
            has_range
                ? "; a range goes from the smallest size, which it names, to the largest, or to none: 1.."
                : "");
      }
      shape.push_back(*size);
      if (at != end) ++at;
    }
    if (!shapes.emplace(argument.substr(0, equals), shape).second) {
      user_error("--shape {}: '{}' has a shape already", argument, argument.substr(0, equals));
    }
  }
  return shapes;
}

std::map<std::string, GivenSize> parse_sizes(const std::vector<std::string>& arguments) {
  std::map<std::string, GivenSize> sizes;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.rfind('=');
    const char* end = argument.data() + argument.size();
    const char* at = equals == std::string::npos ? end : argument.data() + equals + 1;
    const std::optional<GivenSize> size = parse_size(at, end);
    if (equals == std::string::npos || equals == 0 || !size || at != end || size->open())
      user_error("--dim {}: write NAME=SIZE, like batch=4, or a range, batch=1..8", argument);
    if (!sizes.emplace(argument.substr(0, equals), *size).second)
      user_error("--dim {}: '{}' has a size already", argument, argument.substr(0, equals));
  }
  return sizes;
}

std::vector<std::map<std::string, int64_t>> parse_specializations(const std::vector<std::string>& arguments) {
  std::vector<std::map<std::string, int64_t>> all;
  for (const std::string& argument : arguments) {
    std::map<std::string, int64_t>& sizes = all.emplace_back();
    for (size_t start = 0; start <= argument.size();) {
      const size_t end = std::min(argument.find(',', start), argument.size());
      const std::string one = argument.substr(start, end - start);
      const size_t equals = one.rfind('=');
      const char* at = equals == std::string::npos ? one.data() + one.size() : one.data() + equals + 1;
      const std::optional<GivenSize> size = parse_size(at, one.data() + one.size());
      if (equals == std::string::npos || equals == 0 || !size || at != one.data() + one.size() ||
          !size->fixed() || size->open())
        user_error("--specialize {}: write NAME=SIZE, like batch=1, or several: batch=1,length=128",
                   argument);
      if (!sizes.emplace(one.substr(0, equals), size->range.low).second)
        user_error("--specialize {}: '{}' has a size already", argument, one.substr(0, equals));
      start = end + 1;
    }
    if (std::ranges::count(all, sizes) > 1) user_error("--specialize {}: is there already", argument);
  }
  return all;
}

std::vector<int> parse_cpus(const std::string& text) {
  constexpr int kMostCpus = 1024;
  std::vector<int> cpus;
  const char* at = text.data();
  const char* end = at + text.size();
  const auto number = [&]() {
    int value = 0;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0) user_error("--cpus {}: write CPU numbers like 0,2 or 0-3", text);
    at = stop;
    return value;
  };
  while (at != end) {
    const int first = number();
    int last = first;
    if (at != end && *at == '-') {
      ++at;
      last = number();
    }
    if (last < first || last - first >= kMostCpus)
      user_error("--cpus {}: {}-{} is no range", text, first, last);
    for (int cpu = first; cpu <= last; ++cpu) {
      if (std::ranges::find(cpus, cpu) != cpus.end())
        user_error("--cpus {}: CPU {} is named twice", text, cpu);
      cpus.push_back(cpu);
    }
    if (at == end) break;
    if (*at != ',' || at + 1 == end) user_error("--cpus {}: write CPU numbers like 0,2 or 0-3", text);
    ++at;
  }
  if (cpus.size() > kMostCpus) user_error("--cpus {}: more than {} CPUs", text, kMostCpus);
  return cpus;
}

namespace {

/// "word0" to "word63".
HostTensor random_words(const rpc::ElementType& type, const std::vector<int64_t>& shape, uint64_t seed,
                        const std::string& name) {
  Random random(seed, name);
  std::vector<std::string> words;
  for (int64_t i = 0; i < element_count(shape); ++i)
    words.push_back(fmt::format("word{}", random.next() >> 58));
  return {type, shape, packed_strings(std::vector<std::string_view>(words.begin(), words.end()))};
}

}  // namespace

HostTensor random_tensor(const rpc::ElementType& type, const std::vector<int64_t>& shape, uint64_t seed,
                         const std::string& name) {
  if (is_string(type)) return random_words(type, shape, seed, name);
  HostTensor tensor{type, shape, {}};
  tensor.bytes.resize(static_cast<size_t>(byte_count(type, shape)));
  const auto count = static_cast<size_t>(element_count(shape));
  Random random(seed, name);
  const std::string kind = type_name(type);
  const std::optional<DType> dtype = parse_dtype(kind);
  auto normal = [&] { return random.normal(); };
  auto bit = [&] { return random.next() >> 63; };
  if (kind == "f32") {
    fill<float>(tensor.bytes, count, normal);
  } else if (kind == "f64") {
    fill<double>(tensor.bytes, count, normal);
  } else if (kind == "f16") {
    fill<uint16_t>(tensor.bytes, count, [&] { return to_half(random.normal()); });
  } else if (kind == "bf16") {
    fill<uint16_t>(tensor.bytes, count, [&] { return to_bfloat(random.normal()); });
  } else if (dtype && is_small_float(*dtype)) {
    fill<uint8_t>(tensor.bytes, count, [&] { return to_small_float(*dtype, random.normal()); });
  } else if (type.bits <= 8) {  // of less than 8 in a byte each
    fill<uint8_t>(tensor.bytes, count, bit);
  } else if (type.bits == 16) {
    fill<uint16_t>(tensor.bytes, count, bit);
  } else if (type.bits == 32) {
    fill<uint32_t>(tensor.bytes, count, bit);
  } else {
    fill<uint64_t>(tensor.bytes, count, bit);
  }
  return tensor;
}

std::string chosen_text(const std::vector<ChosenSize>& sizes) {
  std::string text;
  for (const ChosenSize& size : sizes) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        size.meaning.empty() ? size.symbol : size.meaning, size.size);
  }
  return text;
}

std::vector<GivenInput> gather_inputs(const std::vector<rpc::TensorDescription>& model,
                                      const InputChoice& choice) {
  const FileOption option{.name = "--input",
                          .kind = "input",
                          .images = true,
                          .preprocess = choice.preprocess,
                          .advice = choice.advice};
  const std::vector<rpc::TensorDescription> tensors = tensors_of_sequences(model, choice);
  std::vector<rpc::TensorDescription> named = model;
  named.insert(named.end(), tensors.begin(), tensors.end());
  std::vector<std::optional<FileTensor>> given = read_tensor_files(named, choice.files, option);
  for (const auto& [name, shape] : choice.shapes) check_shape_name(named, name, shape);
  std::vector<std::optional<FileTensor>> of_sequences(
      std::move_iterator(given.begin() + static_cast<std::ptrdiff_t>(model.size())),
      std::move_iterator(given.end()));
  given.resize(model.size());
  join_sequences(model, choice, tensors, std::move(of_sequences), given);

  std::vector<ChosenShape> shapes;
  if (choice.seed) shapes = complete_shapes(model, given, choice);
  std::vector<GivenInput> result;
  std::vector<std::string> missing;
  for (size_t i = 0; i < model.size(); ++i) {
    if (given[i]) {
      result.push_back({std::move(given[i]->tensor), std::move(given[i]->source)});
    } else if (choice.seed) {
      result.push_back(made_up_input(model[i], std::move(shapes[i]), *choice.seed));
    } else {
      missing.push_back(
          fmt::format("'{}' ({})", model[i].name, type_and_shape(model[i].type, model[i].shape)));
    }
  }
  if (!missing.empty()) {
    user_error(
        "no data for input {}; give --input NAME=FILE (.npy, .npz, .pb, an image), or --random for made-up "
        "data",
        fmt::join(missing, ", "));
  }
  return result;
}

std::vector<std::string> assign_outputs(const std::vector<rpc::TensorDescription>& model,
                                        const std::vector<std::string>& arguments) {
  std::vector<std::string> files(model.size());
  for (const std::string& argument : arguments) {
    const auto [name, file] = split_output(argument);
    const size_t index = find_tensor(model, name, "output", "--output " + argument);
    if (!files[index].empty())
      user_error("--output {}: output '{}' has a file already", argument, model[index].name);
    if (file.empty()) user_error("--output {}: no file is named", argument);
    files[index] = file;
  }
  return files;
}

}  // namespace gantry::cli
