// A module that a client has loaded, with what it set. Private to rpc/server.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "device_runtime/src/session.h"

namespace gantry::rpc {

/// A tensor in memory that sessions borrow.
struct Input {
  runtime::SharedBytes memory;
  std::vector<std::int64_t> shape;
  DLDataType type{};
  std::uint64_t bytes = 0;  ///< of the memory, which may be more

  /// Valid as long as this.
  DLTensor view() const {
    DLTensor tensor{};
    tensor.data = const_cast<std::byte*>(memory.bytes.data());
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int>(shape.size());
    tensor.dtype = type;
    tensor.shape = const_cast<std::int64_t*>(shape.data());
    return tensor;
  }
};

/// Gives it to a session, which reads it in every run.
inline runtime::Status give_input(runtime::Session& session, int index, const Input& input) {
  if (input.type.code != kDLOpaqueHandle) return session.set_input(index, input.view(), /*borrow=*/true);
  return session.set_strings(index, input.shape, input.memory.bytes.first(input.bytes));
}

struct Loaded {
  std::unique_ptr<runtime::Session> session;
  int threads = 0;        // as asked for
  std::vector<int> cpus;  // as asked for
  std::map<int, Input> inputs;
};

}  // namespace gantry::rpc
