// Files of models that are larger than Protocol Buffers can write. They take no room on the disk: what makes
// them large is zeros at their end.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace gantry::testing {

/// Tag and length of a field that has bytes.
inline std::string field_head(uint64_t number, uint64_t length) {
  constexpr uint64_t kLengthDelimited = 2;
  std::string bytes;
  for (uint64_t value : {number << 3 | kLengthDelimited, length}) {
    for (; value >= 128; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
    bytes += static_cast<char>(value);
  }
  return bytes;
}

/// A file of `begin` and as many zeros behind it.
inline void write_before_zeros(const std::filesystem::path& path, const std::string& begin, uint64_t zeros) {
  std::ofstream(path, std::ios::binary) << begin;
  std::filesystem::resize_file(path, begin.size() + zeros);
}

/// A file of the model with another initialiser, `tensor`, whose raw data are so many zeros.
inline void write_with_zeros(const std::filesystem::path& path, const onnx::ModelProto& model,
                             const onnx::TensorProto& tensor, uint64_t zeros) {
  constexpr uint64_t kGraph = 7, kInitializer = 5, kRawData = 9;  // by onnx.proto
  const std::string in_tensor = tensor.SerializeAsString() + field_head(kRawData, zeros);
  const std::string in_graph = field_head(kInitializer, in_tensor.size() + zeros) + in_tensor;
  // Protocol Buffers merges this graph with the model's.
  const std::string end = field_head(kGraph, in_graph.size() + zeros) + in_graph;
  write_before_zeros(path, model.SerializeAsString() + end, zeros);
}

}  // namespace gantry::testing
