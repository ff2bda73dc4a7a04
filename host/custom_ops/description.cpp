// ops.toml -> custom ops.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "device_runtime/src/sha256.h"
#include "host/custom_ops/custom_ops.h"
#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry {
namespace {

const std::vector<std::string> kKeys = {"domain", "name",    "since",  "inputs",     "outputs",
                                        "types",  "scratch", "kernel", "attributes", "composition"};

class OpReader {
 public:
  OpReader(const toml::table& table, const std::string& source, const ReadFile& read, size_t index)
      : table_(table), source_(source), read_(read), place_(fmt::format("op {}", index + 1)) {}

  CustomOp read() {
    op_.source = source_;
    op_.domain = text("domain");
    op_.name = text("name");
    place_ = op_.full_name();
    expect_known_keys(table_, kKeys);
    if (op_.domain.empty()) fail("domain is empty, and the ops of ONNX's own domain are gantry's");
    if (table_.contains("since")) op_.since = positive("since");
    read_signature();
    const bool has_kernel = table_.contains("kernel"), is_composed = table_.contains("composition");
    if (has_kernel == is_composed) fail("an op has either a kernel or a composition");
    if (has_kernel) {
      read_kernel();
    } else {
      read_compositions();
    }
    return std::move(op_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    user_error("{}: {}: {}", source_, place_, fmt::format(format, std::forward<Args>(args)...));
  }

  /// What `parse` throws, with the place in front.
  template <typename Parse>
  auto at_place(const std::string& key, const Parse& parse) const {
    try {
      return parse();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUser) throw;
      fail("{}: {}", key, error.what());
    }
  }

  void expect_known_keys(const toml::table& table, const std::vector<std::string>& known) const {
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (std::ranges::find(known, name) == known.end())
        fail("unknown key '{}'{}", name, did_you_mean(name, known));
    }
  }

  std::string text(const char* key) const {
    const auto value = table_[key].value_exact<std::string>();
    if (!value) fail("{} is missing, or is no string", key);
    return *value;
  }
  int64_t positive(const char* key) const {
    const auto value = table_[key].value_exact<int64_t>();
    if (!value || *value < 1) fail("{} is a number from 1 on", key);
    return *value;
  }
  std::vector<std::string> texts(const toml::table& table, const std::string& key) const {
    std::vector<std::string> list;
    if (const auto one = table[key].value_exact<std::string>()) return {*one};
    const toml::array* array = table[key].as_array();
    if (array == nullptr) {
      if (table.contains(key)) fail("{} is a list of strings", key);
      return list;
    }
    for (const toml::node& node : *array) {
      const auto value = node.value_exact<std::string>();
      if (!value) fail("{} is a list of strings", key);
      list.push_back(*value);
    }
    return list;
  }

  void read_signature() {
    Signature& signature = op_.signature;
    const auto each = [&](const char* key, const auto& add) {
      for (const std::string& item : texts(table_, key)) at_place(key, [&] { add(item); });
    };
    each("inputs", [&](const std::string& item) { signature.inputs.push_back(parse_tensor_pattern(item)); });
    each("outputs",
         [&](const std::string& item) { signature.outputs.push_back(parse_tensor_pattern(item)); });
    each("types", [&](const std::string& item) { signature.types.push_back(parse_type_variable(item)); });
    each("attributes",
         [&](const std::string& item) { signature.attributes.push_back(parse_attribute_spec(item)); });
    if (table_.contains("scratch")) {
      const auto bytes = table_["scratch"].value_exact<int64_t>();
      signature.scratch =
          at_place("scratch", [&] { return bytes ? Dim(*bytes) : Dim::parse(text("scratch")); });
    }
    at_place("signature", [&] { check_signature(signature); });
  }

  void expect_types(const char* why) const {
    for (const auto* patterns : {&op_.signature.inputs, &op_.signature.outputs}) {
      for (const TensorPattern& pattern : *patterns) {
        if (pattern.type.empty()) fail("{}: {} \"{}: f32[N, C]\"", pattern.name, why, pattern.name);
      }
    }
  }

  /// Types that a kernel is told of.
  void expect_handed(DType type) const {
    if (type > DType::kBool) fail("kernel: no kernel is handed {} (gantry/custom_op.h lists the types)", name_of(type));
  }
  void expect_handed_types() const {
    for (const auto* patterns : {&op_.signature.inputs, &op_.signature.outputs}) {
      for (const TensorPattern& pattern : *patterns) {
        if (const auto type = parse_dtype(pattern.type)) expect_handed(*type);
      }
    }
    for (const TypeVariable& variable : op_.signature.types) {
      for (const DType type : variable.types) expect_handed(type);
    }
  }

  void read_kernel() {
    const toml::table* kernel = table_["kernel"].as_table();
    if (kernel == nullptr) fail("kernel is a table: the function's name, and files by architecture");
    expect_types("an op with a kernel says what its tensors are:");
    expect_handed_types();
    auto code = std::make_shared<CustomKernel>();
    code->op = op_.full_name();
    code->source = source_;
    const auto function = (*kernel)["function"].value_exact<std::string>();
    if (!function || function->empty()) fail("kernel: function is missing, or is no string");
    code->function = *function;
    runtime::Sha256 digest;
    const auto add = [&](std::string_view bytes) {
      const std::string size = std::to_string(bytes.size()) + ":";
      digest.update(std::as_bytes(std::span(size)));
      digest.update(std::as_bytes(std::span(bytes)));
    };
    add(code->function);
    for (const auto& [key, node] : *kernel) {
      const std::string architecture(key.str());
      if (architecture == "function") continue;
      if (const toml::table* gpu = node.as_table()) {
        read_gpu_kernel(architecture, *gpu, *code, add);
        continue;
      }
      add(architecture);
      for (const std::string& file : texts(*kernel, architecture)) {
        code->objects[architecture].push_back({fmt::format("{} of {}", file, source_), read_(file)});
        add(code->objects[architecture].back().bytes);
      }
    }
    if (code->objects.empty()) fail("kernel: it has no object files; name them by architectures of CPUs");
    code->digest = runtime::to_hex(digest.finish());
    op_.kernel = std::move(code);
  }

  template <typename Add>
  void read_gpu_kernel(const std::string& family, const toml::table& table, CustomKernel& code,
                       const Add& add) {
    const std::string place = "kernel." + family;
    if (code.gpu) fail("{}: there is a kernel for {} already", place, code.gpu->family);
    expect_known_keys(table, {"code", "entry", "threads", "blocks", "sizes"});
    const auto file = table["code"].value_exact<std::string>(),
               entry = table["entry"].value_exact<std::string>();
    const auto threads = table["threads"].value_exact<int64_t>();
    if (!file || !entry || !threads) fail("{}: code and entry are strings, threads is a number", place);
    constexpr int64_t kMostThreads = 1024;
    if (*threads < 1 || *threads > kMostThreads) fail("{}: a block has 1 to {} threads", place, kMostThreads);
    const auto dims = [&](const char* key, Shape& shape) {
      for (const std::string& text : texts(table, key))
        at_place(place, [&] { shape.push_back(Dim::parse(text)); });
    };
    dims("blocks", op_.signature.blocks);
    dims("sizes", op_.signature.sizes);
    if (op_.signature.blocks.empty() || op_.signature.blocks.size() > 3)
      fail("{}: blocks are those along x, y and z", place);
    at_place(place, [&] { check_signature(op_.signature); });
    code.gpu =
        CustomGpuKernel{family, {fmt::format("{} of {}", *file, source_), read_(*file)}, *entry, *threads};
    add(family);
    add(code.gpu->text.bytes);
    add(code.gpu->entry);
    add(std::to_string(code.gpu->threads));
  }

  void read_compositions() {
    if (op_.signature.scratch) fail("scratch is memory of a kernel, and it has none");
    for (const std::string& file : texts(table_, "composition"))
      op_.compositions.push_back({fmt::format("{} of {}", file, source_), read_(file)});
    if (op_.compositions.empty()) fail("composition is a file of graph text (.gir), or several");
  }

  const toml::table& table_;
  const std::string& source_;
  const ReadFile& read_;
  std::string place_;
  CustomOp op_;
};

toml::table parse_toml(std::string_view text, const std::string& source) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    user_error("{}: line {}: {}", source, error.source().begin.line, std::string(error.description()));
  }
}

}  // namespace

std::vector<CustomOp> parse_custom_ops(std::string_view text, const std::string& source,
                                       const ReadFile& read) {
  const toml::table table = parse_toml(text, source);
  for (const auto& [key, node] : table) {
    if (key.str() != "op")
      user_error("{}: unknown key '{}'; ops are tables [[op]]", source, std::string(key.str()));
  }
  const toml::array* list = table["op"].as_array();
  if (list == nullptr || list->empty()) user_error("{}: describes no op; each is a table [[op]]", source);
  std::vector<CustomOp> ops;
  for (size_t i = 0; i < list->size(); ++i) {
    const toml::table* op = (*list)[i].as_table();
    if (op == nullptr) user_error("{}: op {} is no table [[op]]", source, i + 1);
    ops.push_back(OpReader(*op, source, read, i).read());
  }
  return ops;
}

}  // namespace gantry
