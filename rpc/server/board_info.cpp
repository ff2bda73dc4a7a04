#include "rpc/server/board_info.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>

#include "device_runtime/src/cpu_info.h"
#include "device_runtime/src/gpu_info.h"
#include "device_runtime/src/memory.h"
#include "gantry/runtime.h"

namespace gantry::rpc {
std::uint64_t session_memory(const ServeOptions& options) {
  if (options.session_memory_bytes > 0) return options.session_memory_bytes;
  return runtime::cpu_info().memory_bytes / 4 * 3;
}

std::uint64_t data_memory(const ServeOptions& options) {
  return std::max(runtime::usable_memory_bytes() / 4 * 3, session_memory(options));
}

wire::BoardDescriptionT describe_board(const ServeOptions& options) {
  const runtime::CpuInfo& cpu = runtime::cpu_info();
  wire::BoardDescriptionT board;
  board.version = gantry_version();
  utsname system{};
  if (::uname(&system) == 0) {
    board.hostname = system.nodename;
    board.system = std::string(system.sysname) + " " + system.release + " " + system.machine;
  }
  board.architecture = cpu.architecture;
  board.cpu = cpu.brand;
  board.llvm_cpu = cpu.llvm_name;
  board.features = cpu.features;
  board.logical_cpus = static_cast<std::uint32_t>(cpu.allowed_cpus.size());
  board.physical_cores = static_cast<std::uint32_t>(cpu.physical_cores);
  board.memory_bytes = cpu.memory_bytes;
  board.memory_available_bytes = runtime::available_memory_bytes().value_or(0);
  board.session_memory_bytes = session_memory(options);
  board.deadline_ms = static_cast<std::uint32_t>(options.deadline.count());
  return board;
}

void add_gpus(wire::BoardDescriptionT& board) {
  const runtime::GpuList list = runtime::describe_gpus_in_child();
  board.gpu_problem = list.problem;
  for (const runtime::GpuInfo& gpu : list.gpus) {
    auto& row = *board.gpus.emplace_back(std::make_unique<wire::GpuDescriptionT>());
    row.name = gpu.name;
    row.compute_capability = static_cast<std::uint32_t>(gpu.compute_capability);
    row.multiprocessors = static_cast<std::uint32_t>(gpu.multiprocessors);
    row.clock_mhz = static_cast<std::uint32_t>(gpu.clock_mhz);
    row.memory_bytes = gpu.memory_bytes;
    row.memory_free_bytes = gpu.memory_free_bytes;
    row.l2_bytes = gpu.l2_bytes;
    row.cuda_version = static_cast<std::uint32_t>(gpu.cuda_version);
    row.driver = gpu.driver;
  }
}

}  // namespace gantry::rpc
