// Well-known networks with seeded weights, written as ONNX, so that a board can be tried without a download.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gantry {

struct ZooOptions {
  uint64_t seed = 0;
  int64_t batch = 1;
  /// Height and width of images, or length of sequences; 0: the network's own.
  int64_t size = 0;
  /// The batch (and a sequence's length) become symbolic: `batch`, `sequence`.
  bool dynamic = false;
};

struct ZooNetwork {
  std::string name;
  std::string description;  ///< a line: what it is and what it takes
  int64_t size = 0;         ///< default of ZooOptions::size
  int64_t size_multiple = 1;
  int64_t smallest_size = 1;
  int64_t largest_size = 4096;
};

/// All networks, in the order in which they are listed.
const std::vector<ZooNetwork>& zoo_networks();

/// The network as the bytes of an ONNX file (opset 17, IR version 8). The same bytes on every platform.
/// User errors: an unknown name, a size that the network cannot take.
std::string build_zoo_model(std::string_view name, const ZooOptions& options = {});

/// As build_zoo_model, to a file; its bytes. Nothing is left if that fails.
uint64_t write_zoo_model(std::string_view name, const ZooOptions& options, const std::filesystem::path& path);

}  // namespace gantry
