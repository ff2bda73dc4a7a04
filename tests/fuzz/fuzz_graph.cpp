// Fuzzes the readers of graph text and of the weights beside it. Usage: fuzz_graph [ROUNDS [SEED [TEXT.gir …]]].
// The seed is printed. Without texts it changes some of its own, and one of every op.
//
// Strategies: bytes flipped, overwritten with extreme values, removed, doubled; random bytes; and, because
// most changed bytes are no text any more, words of the text changed: numbers made extreme or expressions,
// ops, types and attributes swapped for those of others, values for others, words removed, doubled or moved.
// Headers of weights are changed likewise. Each must be read or refused with an error of kind user, within
// the limits of tests/fuzz/limits.h; what is read must pass the verifier and print to what reads back as the
// same. Anything else is a bug.
#include <cctype>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>

#include "host/gir/safetensors.h"
#include "host/graph/parse.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/passes/pass.h"
#include "host/support/error.h"
#include "tests/fuzz/limits.h"
#include "tests/fuzz/mutate.h"

namespace {

using namespace gantry;

constexpr const char* kTexts[] = {
    R"(gir 1
model "m"
weights "m.gir.weights"
passes simplify_inference, fold_constant
fn @main(%x: Tensor[(N, 3, 8, 8), f32], %"my input": Tensor[(M, 4), f32]) -> (Tensor[(N, 4, 8, 8), f32], Tensor[(M, 4), f32]) {
  where N == M from "Add_0"
  %0 = nn.conv(%x, @w: Tensor[(4, 3, 3, 3), f32], channels=4, kernel=[3, 3], padding=(1, 1, 1, 1))  // Conv_0
  %1: Tensor[(N, 4, 8, 8), f32] = nn.relu(%0)  // Relu_1, "a, b"
  %2 = add(%"my input", @c: const(f32, [4], [1, -0.5, inf, 0x7fc00000]))
  %3 = fused(%2, @v: Tensor[(4), f32] from "w2") fn @add(%a: Tensor[(M, 4), f32], %b: Tensor[(4), f32]) -> Tensor[(M, 4), f32] {
    %0 = add(%a, %b)  // Add_1
    %1 = multiply(%0, const(f32, [], [2]))
    return %1
  } on gpu  // Add_1
  return %1 as "y", %3 as "z"
}
)",
    R"(fn @main(%a: Tensor[(N, K), f32], %b: Tensor[(2, M), f16], %i: Tensor[(3), i64]) -> (Tensor[(K, N), f32], Tensor[(3, M), f16], Tensor[(2*N, floordiv(K+1, 2)), f32]) {
  %0 = transpose(%a, axes=[1, 0])
  %1 = gather(%b, %i, axis=0)
  %2 = concatenate(%a, %a, axis=0)
  %3 = strided_slice(%2, begin=(0, 0), end=(2*N, K), strides=[1, 2])
  return %0, %1, %3
}
)"};

/// Zeros of any type that needs little memory.
class Zeros : public WeightSource {
 public:
  void open(const std::string&) override {}
  ConstantPtr find(const std::string& entry, const TensorType& type) override {
    constexpr int64_t kMost = 1 << 20;
    if (type.byte_size().value() > kMost) user_error("'{}' is not there", entry);
    std::byte* bytes = nullptr;
    auto zeros = allocate_constant(type, &bytes);
    std::fill_n(bytes, zeros->size, std::byte{});
    return zeros;
  }
};

const FusedOpTable& ops() {
  static const FusedOpTable table(op_set());
  return table;
}

Graph parse(const std::string& text) {
  Zeros zeros;
  return parse_program(text, ops(), graph_pass_names(), {"fuzzed", &zeros, {}});
}

/// "%0, %1, …": as many as the op gives.
std::string results_text(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += fmt::format("{}%r{}", i ? ", " : "", i);
  return text;
}

/// A program of one node of that op, if inputs of one of some types suit it with default attributes.
std::string text_of_op(const OpDef& op) {
  const int inputs = std::max(op.min_inputs, 1);
  for (const char* type : {"Tensor[(2, 4, 5, 5), f32]", "Tensor[(N, 4), f32]", "Tensor[(3, 2, 4), f32]", "Tensor[(4), i64]",
                           "Tensor[(2, 3), bool]", "Tensor[(1, 4, 6), f16]", "Tensor[(), f32]"}) {
    for (size_t results = 1; results <= 3; ++results) {
      std::string parameters, arguments;
      for (int i = 0; i < inputs; ++i) {
        parameters += fmt::format("{}%p{}: {}", i ? ", " : "", i, type);
        arguments += fmt::format("{}%p{}", i ? ", " : "", i);
      }
      const std::string node = fmt::format("  {} = {}({})\n", results_text(results), op.name, arguments);
      // Whatever its results are: the return refuses a wrong type, and says which is right.
      const std::string text = fmt::format("fn @main({}) -> Tensor[(1), i8] {{\n{}  return %r0\n}}\n", parameters, node);
      try {
        parse(text);
      } catch (const Error& error) {
        const std::string_view what = error.what(), marker = "but returns a ";
        const size_t at = what.find(marker);
        if (at == std::string_view::npos) continue;
        const std::string_view right = what.substr(at + marker.size(), what.find('\n', at) - at - marker.size());
        return fmt::format("fn @main({}) -> {} {{\n{}  return %r0\n}}\n", parameters, right, node);
      }
    }
  }
  return "";
}

/// A text, and attributes that suit its ops.
struct Original {
  std::string text;
  std::vector<std::string> attrs;
};

std::vector<Original> originals_of(int argc, char** argv) {
  std::vector<Original> result;
  for (int i = 3; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    result.push_back({{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, {}});
  }
  if (!result.empty()) return result;
  for (const char* text : kTexts) result.push_back({text, {}});
  for (const auto& op : op_set().all()) {
    if (std::string text = text_of_op(*op); !text.empty())
      result.push_back({std::move(text), attr_names(*op->handle->make_attrs())});
  }
  return result;
}

/// Names of all ops and of their attributes.
const std::vector<std::string>& known_words() {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all = {"fused", "none", "const", "Tensor", "f32",   "f64",    "f16", "bf16",
                                    "i8",    "i64",  "u8",    "bool",   "where", "return", "fn",  "on",
                                    "by",    "gpu",  "from",  "as",     "true",  "max",    "mod", "floordiv"};
    for (const auto& op : op_set().all()) {
      all.push_back(op->name);
      for (const std::string& name : attr_names(*op->handle->make_attrs())) all.push_back(name);
    }
    return all;
  }();
  return words;
}

/// Words, strings, single characters; blanks stand with what they follow.
std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    const auto is_word = [&](size_t i) { return std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_' || text[i] == '.'; };
    if (is_word(at)) {
      while (end < text.size() && is_word(end)) ++end;
    }
    while (end < text.size() && std::isspace(static_cast<unsigned char>(text[end])) != 0) ++end;
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

class TextMutator {
 public:
  TextMutator(const std::vector<std::string>& attrs, std::mt19937& random) : attrs_(attrs), random_(random) {}

  std::string mutate(const std::string& text) {
    std::vector<std::string> words = split(text);
    for (auto changes = 1 + random_() % 4; changes > 0 && !words.empty(); --changes) change(words);
    std::string changed;
    for (const std::string& word : words) changed += word;
    return changed;
  }

 private:
  std::string number() {
    static constexpr const char* kEdges[] = {"0", "1", "-1", "2", "3", "-2", "7", "16", "1000", "1048576", "2147483647", "-2147483648",
                                             "4611686018427387904", "9223372036854775807", "-9223372036854775808", "99999999999999999999",
                                             "0.5", "1e308", "1e-320", "nan", "inf", "0x7fc00000", "N", "2*N+1", "floordiv(N, 0)",
                                             "mod(N, M)", "max(N, 3)", "(N-5)*(M-7)", "N*4611686018427387904", "true", "[1, 2]", "[]", "()",
                                             "[0, 0, 0, 0]", "(1, 1, 1, 1)", "[9223372036854775807]", "\"s\""};
    return kEdges[random_() % std::size(kEdges)];
  }
  size_t any(const std::vector<std::string>& words) { return random_() % words.size(); }

  void change(std::vector<std::string>& words) {
    const size_t at = any(words), other = any(words);
    std::string& word = words[at];
    switch (random_() % 8) {
      case 0:
        words.erase(words.begin() + static_cast<std::ptrdiff_t>(at));
        return;
      case 1:
        words.insert(words.begin() + static_cast<std::ptrdiff_t>(at), std::string(words[other]));
        return;
      case 2:
        std::swap(word, words[other]);
        return;
      case 3:
        word = known_words()[random_() % known_words().size()];
        return;
      case 4: {  // an attribute
        const auto paren = std::find_if(words.begin() + static_cast<std::ptrdiff_t>(at), words.end(),
                                        [](const std::string& w) { return w[0] == ')'; });
        const auto& names = attrs_.empty() || random_() % 8 == 0 ? known_words() : attrs_;
        words.insert(paren, ", " + names[random_() % names.size()] + "=" + number());
        return;
      }
      default:
        if (std::isdigit(static_cast<unsigned char>(word[0])) != 0 || random_() % 4 == 0) word = number();
        return;
    }
  }

  const std::vector<std::string>& attrs_;
  std::mt19937& random_;
};

std::string mutant(const Original& original, std::mt19937& random) {
  const auto kind = random() % 10;
  if (kind < 7) return TextMutator(original.attrs, random).mutate(original.text);
  std::vector<std::byte> bytes(original.text.size());
  std::memcpy(bytes.data(), original.text.data(), original.text.size());
  if (kind == 9) {
    bytes.resize(random() % 256);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  } else {
    fuzz::mutate(bytes, random);
  }
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// True if the text is sound. Throws where it is refused.
bool read_text(const std::string& text) {
  Graph graph = parse(text);
  verify(graph, ops(), "reading");
  WeightEntries entries;
  const std::string printed = print_program(graph, ops(), "m.gir.weights", entries);
  try {
    const Graph again = parse(printed);
    WeightEntries other;
    if (print_program(again, ops(), "m.gir.weights", other) != printed) internal_error("it reads back as another graph:\n{}", printed);
  } catch (const Error& error) {
    internal_error("what it prints is refused: {}\n{}", error.what(), printed);
  }
  return true;
}

std::string weights_file() {
  const std::vector<float> floats(12, 1);
  const SafetensorsLayout layout = safetensors_layout({{"w", make_constant({DType::kF32, {3, 4}}, floats.data())},
                                                       {"v", make_constant({DType::kI64, {2}}, floats.data())},
                                                       {"t", make_constant({DType::kU8, {}}, floats.data())}});
  std::string file = layout.head;
  for (const ConstantPtr& tensor : layout.tensors) file.append(reinterpret_cast<const char*>(tensor->bytes), tensor->size);
  return file;
}

bool read_weights(const std::string& file) {
  size_t begin = 0;
  for (const auto& [name, entry] : read_safetensors_header(file, begin)) {
    if (entry.begin > entry.end || entry.end > file.size() - begin) internal_error("'{}' lies outside the file", name);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? std::atol(argv[1]) : 20000;
  const unsigned long seed = argc > 2 ? std::strtoul(argv[2], nullptr, 0) : std::random_device()();
  std::printf("fuzz_graph: %ld rounds, seed %lu\n", rounds, seed);
  std::fflush(stdout);
  std::mt19937 random(static_cast<std::mt19937::result_type>(seed));
  const std::vector<Original> originals = originals_of(argc, argv);
  for (const Original& original : originals) read_text(original.text);
  const Original weights{weights_file(), {}};
  fuzz::watch("fuzz_graph", "fuzz_graph_failure.gir");
  long accepted = 0;
  double slowest = 0;
  for (long round = 0; round < rounds; ++round) {
    const bool of_weights = round % 8 == 0;
    fuzz::current = mutant(of_weights ? weights : originals[random() % originals.size()], random);
    fuzz::limit_time();
    const auto start = std::chrono::steady_clock::now();
    try {
      accepted += of_weights ? read_weights(fuzz::current) : read_text(fuzz::current);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUser) {
        std::printf("fuzz_graph: round %ld: not the user's error: %s\n", round, error.what());
        fuzz::die();
      }
    } catch (const std::exception& error) {
      std::printf("fuzz_graph: round %ld: %s\n", round, error.what());
      fuzz::die();
    }
    slowest = std::max(slowest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("fuzz_graph: done, %zu texts; %ld of the changed ones were still sound, the slowest took %.2f s\n",
              originals.size(), accepted, slowest);
  return 0;
}
