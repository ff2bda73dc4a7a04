// Raw data of large tensors that stay in the model's file until they are read, instead of being in memory as
// a part of the message.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/graph/graph.h"
#include "host/support/mapped_file.h"
#include "host/support/spill_file.h"

namespace gantry {

struct FileRange {
  uint64_t offset = 0, size = 0;
};

/// What a tensor's raw_data is in place of its elements: which of the file's ranges has them.
std::string raw_data_reference(size_t number);
/// The number; nothing where the bytes are elements.
std::optional<size_t> referenced_raw_data(std::string_view raw_data);

/// Reads by reference. Bytes are copied out of the file, where they seldom lie as their elements want it, and
/// which may become another while it is used.
class RawData {
 public:
  /// Large ranges are read into `spill`; null: into memory.
  RawData(std::shared_ptr<const InputFile> file, std::vector<FileRange> ranges,
          std::shared_ptr<SpillFile> spill);
  /// The elements' bytes, as u8, shared with those who have them already. Null where `raw_data` refers to
  /// nothing here. A user error calls the tensor `what`: the file no longer has them.
  ConstantPtr find(std::string_view raw_data, const std::string& what);

 private:
  ConstantPtr read(const FileRange& range, const std::string& what) const;

  std::shared_ptr<const InputFile> file_;
  std::vector<FileRange> ranges_;
  std::shared_ptr<SpillFile> spill_;
  std::vector<std::weak_ptr<const void>> owners_;  ///< by range, of bytes that somebody has
};

}  // namespace gantry
