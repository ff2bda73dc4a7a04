// What a machine says of itself, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "rpc/client/types.h"

namespace gantry::cli {

inline nlohmann::ordered_json board_info_json(const rpc::BoardInfo& info) {
  nlohmann::ordered_json json;
  json["hostname"] = info.hostname;
  json["system"] = info.system;
  json["architecture"] = info.architecture;
  json["cpu"] = info.cpu;
  json["llvm_cpu"] = info.llvm_cpu;
  json["features"] = info.features;
  json["logical_cpus"] = info.logical_cpus;
  json["physical_cores"] = info.physical_cores;
  json["memory_bytes"] = info.memory_bytes;
  json["memory_available_bytes"] = info.memory_available_bytes;
  json["device_version"] = info.version;
  return json;
}

}  // namespace gantry::cli
