#include "host/cli/conformance_way.h"

#include <CLI/CLI.hpp>

#include "device_runtime/src/device.h"
#include "host/cli/between.h"
#include "host/cli/boards/device_programs.h"
#include "host/cli/execution.h"
#include "host/cli/model_source.h"
#include "host/cli/quantities.h"
#include "host/codegen/find_target.h"
#include "host/codegen/gpu_codegen.h"
#include "host/machine/cpu_family.h"
#include "host/support/error.h"
#include "host/support/program.h"
#include "host/support/suggest.h"

namespace gantry::cli {
namespace {

/// Of the CPU, also beside a GPU.
const CpuFamily& cpu_family_of(const Target& target) {
  return target.host != nullptr ? *target.host->family : *target.family;
}

runtime::DeviceName parse_device(const std::string& name) {
  const auto device = runtime::parse_device(name);
  if (!device.ok()) {
    user_error("{}{}", device.status().message(), did_you_mean(name, {"cpu", "cuda", "cuda-emulated"}));
  }
  return device.value();
}

ConformancePlace open_named_target(const ConformanceWay& way) {
  ConformancePlace place;
  place.target = find_target(way.target);
  place.device = runtime::device_type_text(device_in_modules(place.target));
  if (way.device != "cpu") {
    if (parse_device(way.device).type != device_in_modules(place.target)) {
      user_error("--target {} is for --device {}, not {}; leave one of them out", way.target, place.device,
                 way.device);
    }
    place.device = way.device;
  }
  const CpuFamily& family = cpu_family_of(place.target);
  const std::string architecture(family.name);
  if (!way.board.empty() || &family == find_target("native").family) {
    place.machine = open_machine(way.board, way.key);
  } else {
    const DeviceProgram program =
        find_device_program("--target " + way.target, architecture, way.device_program, own_folder());
    place.machine = emulated_machine(architecture, program.path);
  }
  return place;
}

}  // namespace

void add_way_options(CLI::App& command, ConformanceWay& way) {
  command
      .add_option(
          "--target", way.target,
          "Compile for this target (see `gantry targets`); one of another architecture runs under qemu-user; "
          "default: for the machine that runs the tests")
      ->type_name("TARGET");
  command
      .add_option("--on", way.board, "Board: a name from `gantry boards`, or HOST:PORT; else this machine")
      ->type_name("BOARD");
  command.add_option("--key", way.key, "Key file of the board (see `gantry keygen`)")->type_name("FILE");
  command
      .add_option("--device", way.device,
                  "What of the machine to run on; cuda-emulated runs a GPU's kernels on the CPU")
      ->type_name("cpu|cuda|cuda-emulated");
  command.add_option("--gpu-arch", way.gpu_arch, "The GPU that cuda-emulated schedules for; default sm_80")
      ->type_name("sm_NN");
  command.add_flag("--gpu-checks", way.gpu_checks,
                   "cuda-emulated looks for races, accesses out of bounds and uninitialised shared memory");
  command
      .add_option(
          "--device-program", way.device_program,
          "gantry-device for a target of another architecture; default: where `gantry boards setup` looks")
      ->type_name("FILE");
  command.add_option("--precision", way.precision, "As of `gantry run`; default auto")
      ->type_name("auto|fp32|fp32-split|fp32-split3|bf16|tf32|fp16");
  command.add_option("--opt", way.opt_level, kOptHelp)->type_name("0..3")->check(between(0, 3));
  command.add_option("--threads", way.threads, "Threads of each test; default 1")
      ->type_name("N")
      ->check(is_thread_count());
  command.add_flag("--no-cache", way.no_cache,
                   "Compile every kernel, also those that were compiled before (see `gantry cache`)");
  add_duration(command, "--timeout", way.timeout_seconds, "Time for each test; default 60s");
}

std::vector<std::string> way_arguments(const ConformanceWay& way) {
  std::vector<std::string> words = {"--device",    way.device,
                                    "--precision", way.precision,
                                    "--opt",       std::to_string(way.opt_level),
                                    "--threads",   std::to_string(way.threads),
                                    "--timeout",   fmt::format("{}", way.timeout_seconds)};
  const auto add = [&](const char* option, const std::string& value) {
    if (value.empty()) return;
    words.emplace_back(option);
    words.push_back(value);
  };
  add("--target", way.target);
  add("--on", way.board);
  add("--key", way.key);
  add("--gpu-arch", way.gpu_arch);
  add("--device-program", way.device_program);
  if (way.gpu_checks) words.emplace_back("--gpu-checks");
  if (way.no_cache) words.emplace_back("--no-cache");
  return words;
}

ConformancePlace open_place(const ConformanceWay& way) {
  const runtime::DeviceName device = parse_device(way.device);
  find_precision(way.precision);
  const bool emulated = device.type == module_format::Device::CudaEmulated;
  if ((!emulated || !way.target.empty()) && (way.gpu_checks || !way.gpu_arch.empty())) {
    user_error("{} is for --device cuda-emulated without --target",
               way.gpu_checks ? "--gpu-checks" : "--gpu-arch");
  }
  if (!way.target.empty()) return open_named_target(way);
  ConformancePlace place;
  place.machine = open_machine(way.board, way.key);
  place.device = way.device;
  ModuleRequest request;
  request.device = device;
  request.gpu_arch = way.gpu_arch;
  request.gpu_checks = way.gpu_checks;
  const bool on_gpu = device.type == module_format::Device::Cuda;
  place.target = target_of_device(request, on_gpu ? place.machine->info_with_gpus() : place.machine->info());
  return place;
}

}  // namespace gantry::cli
