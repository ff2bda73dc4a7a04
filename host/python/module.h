// A module file in memory: what it says of itself, and sessions that run it.
#pragma once

#include <pybind11/pybind11.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device_runtime/src/module_reader.h"
#include "gantry/runtime.h"
#include "host/cli/model_source.h"
#include "rpc/client/types.h"

namespace gantry::python {

/// Shared by Python's objects and sessions; every member may be called from any thread.
class LoadedModule {
 public:
  /// Maps the file. User errors name it: it is no module, damaged, of a newer version.
  static std::shared_ptr<LoadedModule> open(const std::filesystem::path& path);
  /// `bytes` begin at a multiple of 64; `name` is for messages.
  LoadedModule(runtime::SharedBytes bytes, std::string name);
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;
  ~LoadedModule();

  const std::string& name() const { return name_; }
  const runtime::SharedBytes& bytes() const { return bytes_; }
  const module_format::Manifest& manifest() const { return contents_.manifest(); }
  const std::vector<std::string>& input_names() const { return input_names_; }
  /// Of its elements.
  rpc::ElementType input_type(size_t index) const;
  size_t output_count() const { return manifest().outputs()->size(); }
  /// "a (f32 (N, 3)), b (i64 (N))"
  std::string inputs_text() const;

  /// The runtime's module, loaded on the first call: one that was compiled for another machine can be
  /// described, and sent there, all the same. Errors: those of gantry_module_load.
  GantryModule* runtime_module();

 private:
  runtime::SharedBytes bytes_;
  runtime::ModuleContents contents_;
  std::string name_;
  std::vector<std::string> input_names_;
  std::mutex mutex_;
  GantryModule* module_ = nullptr;
};

void add_module_class(pybind11::module_& module);
void add_session_class(pybind11::module_& module);

}  // namespace gantry::python
