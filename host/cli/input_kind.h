// Files of tensors and images, told apart by what is in them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gantry::cli {

enum class InputKind { kNpy, kNpz, kImage, kTensorProto };

/// Decided by the first bytes; a TensorProto has no mark of its own and is what parses as one. Pipes, which
/// can be read only once, are taken for .npy. User errors: no such file; contents that are none of these,
/// with a list of those that are.
InputKind kind_of_input(const std::filesystem::path& path);

/// All bytes of a file of at most `most` bytes; user errors name it.
std::vector<std::byte> read_bytes(const std::filesystem::path& path, uint64_t most);

}  // namespace gantry::cli
