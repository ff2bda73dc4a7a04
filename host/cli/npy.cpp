// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include "host/cli/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>

#include "host/support/error.h"
#include "host/support/input_file.h"
#include "host/support/output_file.h"

namespace gantry::cli {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kHeaderAlignment = 64;
/// Headers of plain arrays take some hundred bytes; those of records may be long, but are refused anyway.
constexpr size_t kLongestHeader = size_t{1} << 20;

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// Reads the header: a Python dictionary with the keys descr, fortran_order and shape.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Header parse() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr" && !has_descr) {
        header.descr = descr();
        has_descr = true;
      } else if (key == "fortran_order" && !has_order) {
        header.fortran_order = boolean();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        header.shape = tuple();
        has_shape = true;
      } else {
        fail();
      }
      if (!accept(',') && peek() != '}') fail();
    }
    if (!has_descr || !has_order || !has_shape) fail();
    return header;
  }

 private:
  [[noreturn]] void fail() const { user_error("{}: the .npy header is malformed near byte {}", file_, at_); }
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail();
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail();
    const size_t end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) fail();
    std::string value(text_.substr(at_, end - at_));
    at_ = end + 1;
    return value;
  }
  std::string descr() {
    if (peek() == '[') user_error("{}: an array of records; save one plain array a file", file_);
    return quoted();
  }
  bool boolean() {
    peek();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += std::strlen(word);
        return value;
      }
    }
    fail();
  }
  int64_t number() {
    if (std::isdigit(static_cast<unsigned char>(peek())) == 0) fail();
    int64_t value = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, int64_t{text_[at_] - '0'}, &value)) {
        fail();
      }
      ++at_;
    }
    accept('L');  // written by Python 2
    return value;
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(number());
      if (!accept(',') && peek() != ')') fail();
    }
    return values;
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
};

struct DescrName {
  std::string_view descr, name;
};
constexpr DescrName kDescrs[] = {{"|V1", "V1"},  {"<f4", "f32"}, {"<f8", "f64"}, {"<f2", "f16"}, {"<V2", "bf16"},
                                 {"|i1", "i8"},  {"<i2", "i16"}, {"<i4", "i32"}, {"<i8", "i64"},
                                 {"|u1", "u8"},  {"<u2", "u16"}, {"<u4", "u32"}, {"<u8", "u64"},
                                 {"|b1", "bool"}};

/// Of types that NumPy has no name for: integers of less than 8 bits as integers of 8, small floats as ml_dtypes does.
std::string_view descr_of_bytes(const rpc::ElementType& type) {
  for (const auto& [wider, descr] : {std::pair{"i8", "|i1"}, {"u8", "|u1"}}) {
    const rpc::ElementType byte = *parse_type_name(wider);
    if (type.bits < 8 && type.code == byte.code) return descr;
  }
  return type.bits <= 8 ? "|V1" : "";
}

struct ArrayType {
  rpc::ElementType type;
  bool big_endian = false;
  std::optional<NpyStrings> strings = std::nullopt;
};

ArrayType type_of_descr(const std::string& descr, const std::string& file) {
  if (const auto strings = strings_of_descr(descr)) return {*parse_type_name("string"), false, strings};
  if (descr.ends_with('O'))
    user_error("{}: an array of Python objects, which is a program; save texts with .astype(str)", file);
  if (descr.size() == 3 && descr.ends_with("f1")) return {*parse_type_name("f8e5m2")};  // ml_dtypes' float8_e5m2
  for (const DescrName& known : kDescrs) {
    // One-byte types and V2 are written with any mark; V2, bytes without an order, as the machine has them.
    if (descr.size() != 3 || std::string_view(descr).substr(1) != known.descr.substr(1)) continue;
    const rpc::ElementType type = *parse_type_name(known.name);
    if (descr[0] == '<' || descr[0] == '|' || descr[0] == '=') return {type, false};
    if (descr[0] == '>') return {type, type.bits > 8};
  }
  user_error("{}: elements of type '{}', which no model takes; convert with .astype('float32') or the like",
             file, descr);
}

void swap_bytes(std::span<std::byte> bytes, size_t width) {
  for (size_t at = 0; at + width <= bytes.size(); at += width)
    std::ranges::reverse(bytes.subspan(at, width));
}

/// Fortran order (first index fastest) to C order (last index fastest).
std::vector<std::byte> to_row_major(std::span<const std::byte> source, const std::vector<int64_t>& shape,
                                    size_t width) {
  std::vector<std::byte> target(source.size());
  std::vector<int64_t> index(shape.size(), 0), stride(shape.size(), 1);
  for (size_t axis = 1; axis < shape.size(); ++axis) stride[axis] = stride[axis - 1] * shape[axis - 1];
  int64_t offset = 0;
  for (size_t at = 0; at + width <= target.size(); at += width) {
    std::memcpy(target.data() + at, source.data() + offset * static_cast<int64_t>(width), width);
    for (size_t axis = shape.size(); axis-- > 0;) {
      offset += stride[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
  return target;
}

/// Bytes of the magic, the version and the header's length; the length itself is read too.
struct Prefix {
  size_t size = 0;
  size_t header_length = 0;
};

void check_magic(std::string_view start, const std::string& name) {
  if (start.size() < kMagic.size() + 2 || !start.starts_with(kMagic))
    user_error("{}: not a .npy file; save arrays with numpy.save", name);
}

Prefix parse_prefix(std::span<const std::byte> bytes, const std::string& name) {
  check_magic({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name);
  const auto at = [&](size_t i) { return static_cast<size_t>(bytes[i]); };
  const size_t major = at(6);
  if (major < 1 || major > 3)
    user_error("{}: .npy format version {}.{}; known are 1 to 3", name, major, at(7));
  Prefix prefix{major == 1 ? size_t{10} : size_t{12}, 0};
  if (bytes.size() < prefix.size) user_error("{}: the .npy file is truncated", name);
  prefix.header_length = at(8) | at(9) << 8;
  if (major > 1) prefix.header_length |= at(10) << 16 | at(11) << 24;
  return prefix;
}

}  // namespace

size_t npy_data_offset(std::span<const std::byte> bytes, const std::string& name) {
  const Prefix prefix = parse_prefix(bytes, name);
  const size_t offset = prefix.size + prefix.header_length;
  if (offset > kLongestHeader) user_error("{}: its header takes {} bytes: no plain array", name, offset);
  return offset;
}

NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& name) {
  const Prefix prefix = parse_prefix(bytes, name);
  if (prefix.header_length > bytes.size() - prefix.size) user_error("{}: the .npy file is truncated", name);
  const auto* chars = reinterpret_cast<const char*>(bytes.data());
  const Header header =
      HeaderParser(std::string_view(chars + prefix.size, prefix.header_length), name).parse();
  const auto [type, big_endian, strings] = type_of_descr(header.descr, name);
  NpyHeader result{type, header.shape, header.fortran_order, big_endian, prefix.size + prefix.header_length,
                   0,    strings};
  try {
    result.data_bytes = static_cast<size_t>(byte_count(result.type, result.shape));
    if (strings && __builtin_mul_overflow(static_cast<size_t>(element_count(result.shape)),
                                          strings->element_bytes(), &result.data_bytes))
      user_error("its elements are too large");
  } catch (const Error& error) {
    user_error("{}: {}", name, error.what());
  }
  return result;
}

void check_npy_size(const NpyHeader& header, uint64_t bytes_of_data, const std::string& name) {
  if (header.data_bytes == bytes_of_data) return;
  const std::string array = type_and_shape(header.type, header.shape);
  if (header.data_bytes < bytes_of_data) {
    user_error("{}: more data than the {} bytes of {}; the file is longer than its header says", name,
               header.data_bytes, array);
  }
  user_error("{}: {} bytes of data where {} take {}; the file is truncated", name, bytes_of_data, array,
             header.data_bytes);
}

HostTensor npy_tensor(const NpyHeader& header, std::vector<std::byte> data) {
  if (header.strings) {
    if (header.fortran_order && header.shape.size() > 1)
      data = to_row_major(data, header.shape, header.strings->element_bytes());
    const auto elements = static_cast<size_t>(element_count(header.shape));
    return {header.type, header.shape, strings_from_npy(*header.strings, elements, data)};
  }
  HostTensor tensor{header.type, header.shape, std::move(data)};
  if (header.big_endian) swap_bytes(tensor.bytes, tensor.type.bits / 8);
  if (tensor.type == parse_type_name("bool")) {
    for (std::byte& byte : tensor.bytes) byte = std::byte(byte != std::byte(0));
  }
  if (header.fortran_order && tensor.shape.size() > 1) {
    tensor.bytes = to_row_major(tensor.bytes, tensor.shape, (tensor.type.bits + 7) / 8);
  }
  return tensor;
}

HostTensor parse_npy(std::span<const std::byte> bytes, const std::string& name) {
  const NpyHeader header = parse_npy_header(bytes, name);
  const auto data = bytes.subspan(header.data_offset);
  check_npy_size(header, data.size(), name);
  return npy_tensor(header, std::vector<std::byte>(data.begin(), data.end()));
}

namespace {

/// Appends the next `count` bytes of a file, or fewer where it ends before: in pieces, for a header may ask
/// for more than there is.
void read_more(std::ifstream& file, size_t count, std::vector<std::byte>& bytes, const std::string& name) {
  constexpr size_t kPiece = size_t{1} << 20;
  while (count > 0 && file) {
    const size_t at = bytes.size(), piece = std::min(count, kPiece);
    bytes.resize(at + piece);
    file.read(reinterpret_cast<char*>(bytes.data() + at), static_cast<std::streamsize>(piece));
    bytes.resize(at + static_cast<size_t>(file.gcount()));
    count -= piece;
  }
  if (file.bad()) user_error("{}: cannot be read", name);
}

NpyHeader read_header(std::ifstream& file, const std::string& name) {
  std::vector<std::byte> start;
  read_more(file, kNpyPrefix, start, name);
  const size_t offset = npy_data_offset(start, name);
  if (offset < start.size()) user_error("{}: the .npy file is truncated", name);
  read_more(file, offset - start.size(), start, name);
  return parse_npy_header(start, name);
}

}  // namespace

HostTensor read_npy(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code))
    user_error("{}: is a folder, not a .npy file", path.string());
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot_read(path, errno);
  const NpyHeader header = read_header(file, path.string());
  std::vector<std::byte> data;
  const uintmax_t size = std::filesystem::file_size(path, code);  // pipes and devices have none
  if (!code) data.reserve(static_cast<size_t>(std::min<uintmax_t>(size, header.data_bytes)));
  read_more(file, header.data_bytes, data, path.string());
  std::vector<std::byte> more;
  read_more(file, 1, more, path.string());  // what a pipe holds beyond that may have no end
  check_npy_size(header, data.size() + more.size(), path.string());
  return npy_tensor(header, std::move(data));
}

std::string format_npy(const HostTensor& tensor) {
  std::string_view descr;
  NpyElements strings;
  if (is_string(tensor.type)) {
    strings = strings_to_npy(tensor);
    descr = strings.descr;
  }
  for (const DescrName& known : kDescrs) {
    if (parse_type_name(known.name) == tensor.type) descr = known.descr;
  }
  if (descr.empty()) descr = descr_of_bytes(tensor.type);
  internal_check(!descr.empty(), "no .npy type for {}", type_name(tensor.type));
  std::string shape;
  for (int64_t dim : tensor.shape) shape += std::to_string(dim) + ", ";
  if (tensor.shape.size() > 1) shape.resize(shape.size() - 2);
  if (tensor.shape.size() == 1) shape.resize(shape.size() - 1);
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  const size_t prefix = kMagic.size() + 4;
  const size_t unpadded = prefix + header.size() + 1;
  header.append((kHeaderAlignment - unpadded % kHeaderAlignment) % kHeaderAlignment, ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes += '\x01';
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  if (is_string(tensor.type)) return bytes + strings.bytes;
  bytes.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  return bytes;
}

void write_npy(const std::filesystem::path& path, const HostTensor& tensor) {
  OutputFile file(path);
  file.write(format_npy(tensor));
  file.commit();
}

}  // namespace gantry::cli
