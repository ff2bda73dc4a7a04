#include "host/onnx/raw_data.h"

#include <cstring>
#include <span>
#include <utility>

#include "host/graph/spilled_constant.h"
#include "host/support/error.h"

namespace gantry {
namespace {

// Random bytes. Whoever writes them into a model refers to the data of a tensor that the model has.
constexpr std::string_view kMark("\x9d\x1f\xe3\x52\xb8\x06\x7a\xc4\x31\xee\x4b\x90\x05\xd7\x68\xaf", 16);

constexpr size_t kPart = size_t{8} << 20;

TensorType type_of(const FileRange& range) {
  return {DType::kU8, {static_cast<int64_t>(range.size)}};
}

}  // namespace

std::string raw_data_reference(size_t number) {
  std::string reference(kMark);
  reference.append(reinterpret_cast<const char*>(&number), sizeof number);
  return reference;
}

std::optional<size_t> referenced_raw_data(std::string_view raw_data) {
  size_t number = 0;
  if (raw_data.size() != kMark.size() + sizeof number || !raw_data.starts_with(kMark)) return std::nullopt;
  std::memcpy(&number, raw_data.data() + kMark.size(), sizeof number);
  return number;
}

RawData::RawData(std::shared_ptr<const InputFile> file, std::vector<FileRange> ranges,
                 std::shared_ptr<SpillFile> spill)
    : file_(std::move(file)), ranges_(std::move(ranges)), spill_(std::move(spill)), owners_(ranges_.size()) {}

ConstantPtr RawData::find(std::string_view raw_data, const std::string& what) {
  const auto number = referenced_raw_data(raw_data);
  if (!number || *number >= ranges_.size()) return nullptr;
  const FileRange& range = ranges_[*number];
  if (auto owner = owners_[*number].lock()) return constant_over(type_of(range), std::move(owner));
  ConstantPtr data = read(range, what);
  owners_[*number] = data->owner;
  return data;
}

ConstantPtr RawData::read(const FileRange& range, const std::string& what) const {
  const auto fill = [&](size_t offset, std::span<std::byte> bytes) {
    const std::span<char> to(reinterpret_cast<char*>(bytes.data()), bytes.size());
    if (file_->read(to, range.offset + offset) != to.size())
      user_error("{}: its data can no longer be read from the model's file, which was changed meanwhile",
                 what);
  };
  if (spill_ != nullptr && range.size >= kLargeTogether) {
    if (auto kept = spill_->keep(range.size, kPart, fill))
      return constant_over(type_of(range), std::move(kept));
  }
  std::byte* bytes = nullptr;
  ConstantPtr data = allocate_constant(type_of(range), &bytes);
  fill(0, {bytes, range.size});
  return data;
}

}  // namespace gantry
