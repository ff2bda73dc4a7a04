#include "host/onnx/tensor_data.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "host/graph/strings.h"
#include "host/support/error.h"
#include "host/support/spill_file.h"
#include "host/support/unsupported.h"

namespace gantry {

namespace {

constexpr std::pair<int, DType> kElementTypes[] = {{onnx::TensorProto::FLOAT, DType::kF32},
                                                   {onnx::TensorProto::DOUBLE, DType::kF64},
                                                   {onnx::TensorProto::FLOAT16, DType::kF16},
                                                   {onnx::TensorProto::BFLOAT16, DType::kBF16},
                                                   {onnx::TensorProto::INT8, DType::kI8},
                                                   {onnx::TensorProto::INT16, DType::kI16},
                                                   {onnx::TensorProto::INT32, DType::kI32},
                                                   {onnx::TensorProto::INT64, DType::kI64},
                                                   {onnx::TensorProto::UINT8, DType::kU8},
                                                   {onnx::TensorProto::UINT16, DType::kU16},
                                                   {onnx::TensorProto::UINT32, DType::kU32},
                                                   {onnx::TensorProto::UINT64, DType::kU64},
                                                   {onnx::TensorProto::BOOL, DType::kBool},
                                                   {onnx::TensorProto::STRING, DType::kString},
                                                   // Those that Debian's onnx library has no names for.
                                                   {17, DType::kF8E4M3FN},
                                                   {18, DType::kF8E4M3FNUZ},
                                                   {19, DType::kF8E5M2},
                                                   {20, DType::kF8E5M2FNUZ},
                                                   {21, DType::kU4},
                                                   {22, DType::kI4},
                                                   {23, DType::kF4E2M1FN},
                                                   {24, DType::kF8E8M0FNU},
                                                   {25, DType::kU2},
                                                   {26, DType::kI2},
                                                   {27, DType::kF6E2M3FN},
                                                   {28, DType::kF6E3M2FN}};

}  // namespace

int onnx_element_type(DType dtype) {
  for (const auto& [type, known] : kElementTypes) {
    if (known == dtype) return type;
  }
  internal_error("ONNX has no element type for {}", name_of(dtype));
}

std::optional<DType> find_dtype(int onnx_element_type) {
  for (const auto& [type, dtype] : kElementTypes) {
    if (type == onnx_element_type) return dtype;
  }
  return std::nullopt;
}

DType dtype_of(int onnx_element_type, const std::string& what) {
  using T = onnx::TensorProto;
  if (const auto dtype = find_dtype(onnx_element_type)) return *dtype;
  if (onnx_element_type == T::UNDEFINED) user_error("{} has no element type", what);
  // Newer ones than this onnx library knows have numbers for names.
  const std::string name = T::DataType_IsValid(onnx_element_type)
                               ? T::DataType_Name(static_cast<T::DataType>(onnx_element_type))
                               : fmt::format("element type {}", onnx_element_type);
  throw Unsupported(UnsupportedKind::kElementType, name,
                    fmt::format("{} has the element type {}, which gantry does not support", what, name));
}

namespace {

/// Dimensions checked to be non-negative and their bytes to fit in memory.
TensorType type_of(const onnx::TensorProto& tensor, const std::string& what) {
  TensorType type{dtype_of(tensor.data_type(), what), {}};
  int64_t bytes = byte_width(type.dtype);
  bool empty = std::any_of(tensor.dims().begin(), tensor.dims().end(), [](int64_t d) { return d == 0; });
  for (int64_t d : tensor.dims()) {
    if (d < 0) user_error("{} has a negative dimension ({})", what, d);
    if (!empty && __builtin_mul_overflow(bytes, d, &bytes))
      user_error("{} has impossibly large dimensions", what);
    type.shape.push_back(d);
  }
  return type;
}

size_t byte_count(const TensorType& type) {
  size_t bytes = static_cast<size_t>(byte_width(type.dtype));
  for (const Dim& d : type.shape) {
    if (d.value() == 0) return 0;
    bytes *= static_cast<size_t>(d.value());
  }
  return bytes;
}

bool is_packed(DType dtype) {
  return bit_width(dtype) < 8;
}

/// Bytes that the elements take in a file, where those of less than 8 bits follow each other without gaps, the first
/// in the lowest bits.
size_t file_bytes(const TensorType& type) {
  const size_t count = byte_count(type) / static_cast<size_t>(byte_width(type.dtype));
  return (count * static_cast<size_t>(bit_width(type.dtype)) + 7) / 8;
}

/// Packed elements, each into a byte of its own; `byte_at` gives those of the file.
template <typename ByteAt>
ConstantPtr unpack(const TensorType& type, const ByteAt& byte_at) {
  std::byte* bytes = nullptr;
  auto constant = allocate_constant(type, &bytes);
  const auto bits = static_cast<size_t>(bit_width(type.dtype)), count = byte_count(type);
  for (size_t i = 0; i < count; ++i) {
    const size_t first = i * bits / 8, shift = i * bits % 8;
    unsigned code = static_cast<uint8_t>(byte_at(first));
    if (shift + bits > 8) code |= static_cast<unsigned>(static_cast<uint8_t>(byte_at(first + 1))) << 8;
    code = code >> shift & ((1U << bits) - 1);
    if (is_signed_int(type.dtype) && code >> (bits - 1) != 0) code |= ~0U << bits;
    bytes[i] = static_cast<std::byte>(code);
  }
  return constant;
}

}  // namespace

std::string packed_elements(const ConstantData& tensor) {
  std::string packed(reinterpret_cast<const char*>(tensor.bytes), tensor.size);
  if (!is_packed(tensor.type.dtype)) return packed;
  const auto bits = static_cast<size_t>(bit_width(tensor.type.dtype));
  packed.assign(file_bytes(tensor.type), '\0');
  for (size_t i = 0; i < tensor.size; ++i) {
    const auto code = static_cast<unsigned>(tensor.bytes[i]) & ((1U << bits) - 1);
    const size_t first = i * bits / 8, shift = i * bits % 8;
    packed[first] = static_cast<char>(static_cast<unsigned char>(packed[first]) | code << shift);
    if (shift + bits > 8) packed[first + 1] = static_cast<char>(code >> (8 - shift));
  }
  return packed;
}

namespace {

ConstantPtr packed_from_field(const onnx::TensorProto& t, const TensorType& type, const std::string& what) {
  if (static_cast<size_t>(t.int32_data_size()) != file_bytes(type)) {
    user_error("{} has {} bytes of packed elements, but its shape {} has {}", what, t.int32_data_size(),
               to_string(type.shape), file_bytes(type));
  }
  return unpack(type, [&](size_t i) { return t.int32_data(static_cast<int>(i)); });
}

/// Elements of a typed repeated field, narrowed to T.
template <typename T, typename Field>
ConstantPtr from_field(const TensorType& type, const Field& field, const std::string& what) {
  size_t count = byte_count(type) / sizeof(T);
  if (static_cast<size_t>(field.size()) != count) {
    user_error("{} has {} elements, but its shape {} has {}", what, field.size(), to_string(type.shape),
               count);
  }
  std::byte* bytes = nullptr;
  auto constant = allocate_constant(type, &bytes);
  for (size_t i = 0; i < count; ++i) {
    T value = static_cast<T>(field.Get(static_cast<int>(i)));
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
  return constant;
}

/// They stand in their own field alone.
ConstantPtr read_strings(const onnx::TensorProto& t, const TensorType& type, const std::string& what) {
  const size_t count = byte_count(type) / sizeof(uint64_t);
  if (static_cast<size_t>(t.string_data_size()) != count)
    user_error("{} has {} strings, but its shape {} has {}", what, t.string_data_size(),
               to_string(type.shape), count);
  return make_strings(type.shape, {t.string_data().begin(), t.string_data().end()});
}

ConstantPtr read_typed(const onnx::TensorProto& t, const TensorType& type, const std::string& what) {
  if (is_packed(type.dtype)) return packed_from_field(t, type, what);
  switch (type.dtype) {
    case DType::kF32:
      return from_field<float>(type, t.float_data(), what);
    case DType::kF64:
      return from_field<double>(type, t.double_data(), what);
    case DType::kI64:
      return from_field<int64_t>(type, t.int64_data(), what);
    case DType::kI32:
      return from_field<int32_t>(type, t.int32_data(), what);
    case DType::kI16:
      return from_field<int16_t>(type, t.int32_data(), what);
    case DType::kI8:
      return from_field<int8_t>(type, t.int32_data(), what);
    case DType::kU8:
      return from_field<uint8_t>(type, t.int32_data(), what);
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return from_field<uint16_t>(type, t.int32_data(), what);
    case DType::kBool:
      return from_field<bool>(type, t.int32_data(), what);
    case DType::kU32:
      return from_field<uint32_t>(type, t.uint64_data(), what);
    case DType::kU64:
      return from_field<uint64_t>(type, t.uint64_data(), what);
    default:  // 8 bits of float
      return from_field<uint8_t>(type, t.int32_data(), what);
  }
}

/// A constant over foreign bytes; copied where they are misaligned, so small that sharing costs more, or bool
/// (whose bytes must be 0 or 1); unpacked where the file packs them.
ConstantPtr from_bytes(const TensorType& type, const char* bytes, size_t size,
                       const std::shared_ptr<const void>& owner, const std::string& what) {
  if (size != file_bytes(type)) {
    user_error("{} has {} bytes of data, but {} takes {}", what, size, type.str(), file_bytes(type));
  }
  if (is_packed(type.dtype)) return unpack(type, [&](size_t i) { return bytes[i]; });
  bool misaligned = reinterpret_cast<uintptr_t>(bytes) % static_cast<uintptr_t>(byte_width(type.dtype)) != 0;
  if (!misaligned && size >= 256 && type.dtype != DType::kBool) {
    auto constant = std::make_shared<ConstantData>();
    constant->type = type;
    constant->bytes = reinterpret_cast<const std::byte*>(bytes);
    constant->size = size;
    constant->owner = owner;
    return constant;
  }
  std::byte* copy = nullptr;
  auto constant = allocate_constant(type, &copy);
  for (size_t i = 0; i < size; ++i) {
    copy[i] = type.dtype == DType::kBool ? std::byte(bytes[i] != 0) : static_cast<std::byte>(bytes[i]);
  }
  return constant;
}

uint64_t parse_number(const std::string& text, const char* key, const std::string& what) {
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    user_error("{}: the external data's {} is not a number: '{}'", what, key, text);
  }
  return value;
}

}  // namespace

ConstantPtr TensorReader::read(const onnx::TensorProto& tensor, const std::string& what) {
  TensorType type = type_of(tensor, what);
  if (tensor.has_segment()) {
    throw Unsupported(UnsupportedKind::kValueKind, "tensor stored in segments",
                      fmt::format("{} is stored in segments, which gantry does not read", what));
  }
  if (type.dtype == DType::kString) return read_strings(tensor, type, what);
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return read_external(tensor, type, what);
  if (tensor.has_raw_data()) return read_raw(tensor, type, what);
  return read_typed(tensor, type, what);
}

ConstantPtr TensorReader::read_raw(const onnx::TensorProto& tensor, const TensorType& type,
                                   const std::string& what) {
  const std::string& here = tensor.raw_data();
  const ConstantPtr there = raw_data_ == nullptr ? nullptr : raw_data_->find(here, what);
  if (there == nullptr) return from_bytes(type, here.data(), here.size(), owner_, what);
  return from_bytes(type, reinterpret_cast<const char*>(there->bytes), there->size, there->owner, what);
}

ConstantPtr TensorReader::take(onnx::TensorProto& tensor, const std::string& what) {
  ConstantPtr constant = read(tensor, what);
  const bool shared = tensor.has_raw_data() && constant->owner == owner_ && owner_ != nullptr;
  if (!shared) return constant;
  auto bytes = std::make_shared<std::string>(std::move(*tensor.mutable_raw_data()));
  auto own = std::make_shared<ConstantData>(*constant);
  own->bytes = reinterpret_cast<const std::byte*>(bytes->data());
  own->owner = std::move(bytes);
  return own;
}

ConstantPtr TensorReader::read_external(const onnx::TensorProto& tensor, const TensorType& type,
                                        const std::string& what) {
  std::string location;
  uint64_t offset = 0, length = file_bytes(type);
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = parse_number(entry.value(), "offset", what);
    if (entry.key() == "length") length = parse_number(entry.value(), "length", what);
  }
  if (location.find('\0') != std::string::npos)
    user_error("{}: the name of its external data has a zero byte", what);
  const auto full = path_inside(directory_, location);
  if (!full) user_error("{}: its external data '{}' lies outside the model's folder", what, location);
  auto& file = files_[full->string()];
  if (!file) {
    if (reads_) reads_(*full);
    file = std::make_shared<MappedFile>(*full);
  }
  if (offset > file->size() || length > file->size() - offset) {
    user_error("{}: its external data should be {} bytes from byte {} on of {}, which has only {}: truncated?",
               what, length, offset, full->string(), file->size());
  }
  const auto part = part_of_file(file, {reinterpret_cast<const std::byte*>(file->data() + offset), length});
  return from_bytes(type, file->data() + offset, length, part, what);
}

}  // namespace gantry
