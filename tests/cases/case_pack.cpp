#include "tests/cases/case_pack.h"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "host/support/error.h"

namespace gantry::conformance {
namespace {

using nlohmann::json;

constexpr std::string_view kMagic = "GCASES1\n";
constexpr size_t kSizeBytes = 8;

json place(std::string& data, const void* bytes, size_t size) {
  const size_t offset = data.size();
  data.append(static_cast<const char*>(bytes), size);
  return {offset, size};
}

json pack_tensors(std::string& data, const std::vector<ConstantPtr>& tensors) {
  json list = json::array();
  for (const ConstantPtr& tensor : tensors) {
    list.push_back({{"dtype", name_of(tensor->type.dtype)},
                    {"shape", *constant_shape(tensor->type.shape)},
                    {"bytes", place(data, tensor->bytes, tensor->size)}});
  }
  return list;
}

/// What an entry of the index points at.
std::string_view bytes_at(std::string_view data, const json& at) {
  const auto offset = at.at(0).get<size_t>(), size = at.at(1).get<size_t>();
  if (offset > data.size() || size > data.size() - offset) throw std::out_of_range("bytes beyond its end");
  return data.substr(offset, size);
}

std::vector<ConstantPtr> unpack_tensors(std::string_view data, const json& list) {
  std::vector<ConstantPtr> tensors;
  for (const json& entry : list) {
    const auto dtype = parse_dtype(entry.at("dtype").get<std::string>());
    if (!dtype) throw std::invalid_argument("an unknown element type");
    const auto shape = entry.at("shape").get<std::vector<int64_t>>();
    const std::string_view bytes = bytes_at(data, entry.at("bytes"));
    size_t size = static_cast<size_t>(byte_width(*dtype));
    for (int64_t extent : shape) {
      if (extent < 0 || __builtin_mul_overflow(size, static_cast<size_t>(extent), &size))
        throw std::invalid_argument("a shape that no tensor has");
    }
    if (size != bytes.size()) throw std::invalid_argument("a tensor of another size than its shape's");
    tensors.push_back(make_constant({*dtype, Shape(shape.begin(), shape.end())}, bytes.data()));
  }
  return tensors;
}

size_t read_size(std::string_view bytes) {
  size_t size = 0;
  for (size_t i = kSizeBytes; i-- > 0;) size = size << 8 | static_cast<unsigned char>(bytes[i]);
  return size;
}

}  // namespace

std::string write_pack(const std::vector<PackedCase>& cases) {
  json index = json::array();
  std::string data;
  std::set<std::string> names;
  for (const PackedCase& c : cases) {
    internal_check(names.insert(c.name).second, "two cases are called {}", c.name);
    index.push_back({{"name", c.name},
                     {"op", c.op},
                     {"module", c.is_module},
                     {"program", place(data, c.program.data(), c.program.size())},
                     {"inputs", pack_tensors(data, c.inputs)},
                     {"outputs", pack_tensors(data, c.outputs)},
                     {"relative", c.tolerance.relative},
                     {"absolute", c.tolerance.absolute}});
  }
  const std::string text = json{{"cases", index}}.dump();
  std::string file(kMagic);
  for (size_t i = 0; i < kSizeBytes; ++i) file += static_cast<char>(text.size() >> 8 * i & 255);
  return file + text + data;
}

CasePack CasePack::read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) user_error("{}: cannot be read", path.string());
  return parse({std::istreambuf_iterator<char>(file), {}}, path.string());
}

CasePack CasePack::parse(std::string bytes, const std::string& file_name) {
  constexpr size_t kHead = kMagic.size() + kSizeBytes;
  if (bytes.size() < kHead || !bytes.starts_with(kMagic)) user_error("{}: is no pack of cases", file_name);
  const size_t size = read_size(std::string_view(bytes).substr(kMagic.size()));
  if (size > bytes.size() - kHead) user_error("{}: is cut off", file_name);
  CasePack pack;
  pack.file_name_ = file_name;
  pack.index_ = bytes.substr(kHead, size);
  pack.data_ = kHead + size;
  pack.bytes_ = std::move(bytes);
  try {
    const json index = json::parse(pack.index_);
    for (const json& entry : index.at("cases"))
      pack.entries_.push_back({entry.at("name"), entry.at("op"), entry.at("module")});
  } catch (const std::exception& error) {
    user_error("{}: its index is damaged: {}", file_name, error.what());
  }
  return pack;
}

PackedCase CasePack::load(const std::string& name) const {
  const std::string_view data = std::string_view(bytes_).substr(data_);
  try {
    const json index = json::parse(index_);
    for (const json& entry : index.at("cases")) {
      if (entry.at("name") != name) continue;
      PackedCase loaded;
      loaded.name = name;
      loaded.op = entry.at("op");
      loaded.is_module = entry.at("module");
      loaded.program = bytes_at(data, entry.at("program"));
      loaded.inputs = unpack_tensors(data, entry.at("inputs"));
      loaded.outputs = unpack_tensors(data, entry.at("outputs"));
      loaded.tolerance = {entry.at("relative"), entry.at("absolute")};
      return loaded;
    }
  } catch (const std::exception& error) {
    user_error("{}: case {} is damaged: {}", file_name_, name, error.what());
  }
  user_error("{}: has no case '{}'", file_name_, name);
}

}  // namespace gantry::conformance
