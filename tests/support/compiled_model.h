/// Compiled models executed in tests: on this machine through the runtime's C interface, or on a board.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/driver/compile.h"
#include "host/graph/graph.h"
#include "rpc/client/client.h"
#include "tests/cases/local_model.h"
#include "tests/support/server_process.h"

namespace gantry::testing {

struct CompileSettings {
  std::string target = "native";
  int opt_level = 3;
  int threads = 2;
  std::string precision = "auto";
};

/// The module file's bytes of a graph for one target.
std::vector<std::byte> compile_to_bytes(const Graph& graph, const CompileSettings& settings = {});

/// This machine runs code for that x86-64 level, "x86-64-v2" to "x86-64-v4".
bool runs_here(const std::string& target);

/// Uploads, loads and runs a module on a board.
std::vector<ConstantPtr> run_on_board(rpc::BoardClient& board, const std::vector<std::byte>& module_file,
                                      const std::vector<ConstantPtr>& inputs, int threads = 2);

/// gantry-device for AArch64 as `cmake --preset aarch64` builds it, where that and qemu-aarch64 are present.
std::optional<std::string> emulated_board_program();

/// A connection to that board, its server a process of its own. Requires emulated_board_program().
class EmulatedBoard {
 public:
  EmulatedBoard();
  rpc::BoardClient& client() { return *client_; }

 private:
  ServerProcess server_;
  std::unique_ptr<rpc::BoardClient> client_;
};

/// f32 tensor with element i = i / count, as the light networks' references were computed with.
ConstantPtr ramp(const std::vector<int64_t>& shape);
/// f32 tensor of seeded values in [-1, 1), or i64 ones in [0, 97).
ConstantPtr random_tensor(DType dtype, const std::vector<int64_t>& shape, uint64_t seed);

/// max |actual - expected| / max |expected| over f32 tensors; infinity where types or shapes differ or where
/// only one of the two is a number.
double relative_error(const ConstantData& actual, const ConstantData& expected);
/// The same beside values in float64; infinity where `actual` has another number of elements.
double relative_error(const ConstantData& actual, const std::vector<double>& expected);

}  // namespace gantry::testing
