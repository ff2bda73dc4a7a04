// A module as the C interface loads it, with a session.
#pragma once

#include <string>
#include <vector>

#include "gantry/runtime.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime::testing {

struct LoadedModule {
  explicit LoadedModule(ModuleBuilder builder) {
    const std::vector<std::byte> bytes = builder.write();
    status = gantry_module_load_memory(bytes.data(), bytes.size(), &module);
    if (status == GANTRY_OK) status = gantry_session_create(module, nullptr, &session);
    message = gantry_last_error();
  }
  ~LoadedModule() {
    gantry_session_release(session);
    gantry_module_release(module);
  }
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  GantryModule* module = nullptr;
  GantrySession* session = nullptr;
  GantryStatus status = GANTRY_OK;
  std::string message;
};

}  // namespace gantry::runtime::testing
