// What a machine says of itself, as JSON.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "host/cli/json_values.h"
#include "rpc/client/types.h"

namespace gantry::cli {

inline nlohmann::ordered_json gpu_json(const rpc::GpuInfo& gpu) {
  nlohmann::ordered_json json;
  json["name"] = gpu.name;
  json["compute_capability"] = fmt::format("{}.{}", gpu.compute_capability / 10, gpu.compute_capability % 10);
  json["multiprocessors"] = gpu.multiprocessors;
  json["clock_mhz"] = gpu.clock_mhz;
  json["memory_bytes"] = gpu.memory_bytes;
  json["memory_free_bytes"] = said(gpu.memory_free_bytes);
  json["l2_bytes"] = gpu.l2_bytes;
  json["cuda_version"] = fmt::format("{}.{}", gpu.cuda_version / 1000, gpu.cuda_version % 1000 / 10);
  json["driver"] = said(gpu.driver);
  return json;
}

inline nlohmann::ordered_json board_info_json(const rpc::BoardInfo& info) {
  nlohmann::ordered_json json;
  json["hostname"] = said(info.hostname);
  json["system"] = said(info.system);
  json["architecture"] = info.architecture;
  json["cpu"] = said(info.cpu);
  json["llvm_cpu"] = said(info.llvm_cpu);
  json["features"] = info.features;
  json["logical_cpus"] = info.logical_cpus;
  json["physical_cores"] = info.physical_cores;
  json["memory_bytes"] = info.memory_bytes;
  json["memory_available_bytes"] = said(info.memory_available_bytes);
  json["device_version"] = info.version;
  if (!info.gpus.empty()) {
    json["gpus"] = nlohmann::ordered_json::array();
    for (const rpc::GpuInfo& gpu : info.gpus) json["gpus"].push_back(gpu_json(gpu));
  }
  if (!info.gpu_problem.empty()) json["gpu_problem"] = info.gpu_problem;
  return json;
}

}  // namespace gantry::cli
