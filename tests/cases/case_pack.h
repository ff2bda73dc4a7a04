// Many cases in one file: programs with inputs and the outputs that they must give. What cannot read ONNX's
// test data, or has no room for it, takes them from here.
//
// The file: "GCASES1\n", the size of the index in 8 bytes (little-endian), the index in JSON, the bytes that
// it points into, by offset from the index's end and size.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/graph/graph.h"
#include "host/conformance/comparison.h"

namespace gantry::conformance {

struct PackedCase {
  std::string name;        ///< unique in the pack
  std::string op;          ///< what it is a case of
  bool is_module = false;  ///< `program` is a module file, else an ONNX model
  std::string program;
  std::vector<ConstantPtr> inputs, outputs;  ///< in the program's order
  Tolerance tolerance;
};

/// The bytes of a pack. Internal error for two cases of one name.
std::string write_pack(const std::vector<PackedCase>& cases);

/// A pack in memory.
class CasePack {
 public:
  /// User errors name the file: it cannot be read, is no pack, is cut off, or points outside of itself.
  static CasePack read(const std::filesystem::path& path);
  static CasePack parse(std::string bytes, const std::string& file_name);

  struct Entry {
    std::string name, op;
    bool is_module = false;
  };
  /// In the order in which they were packed.
  const std::vector<Entry>& entries() const { return entries_; }
  /// User error if there is none of that name.
  PackedCase load(const std::string& name) const;

 private:
  std::string file_name_, bytes_, index_;
  size_t data_ = 0;  ///< where the index ends
  std::vector<Entry> entries_;
};

}  // namespace gantry::conformance
