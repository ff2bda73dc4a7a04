#include <google/protobuf/stubs/common.h>
#include <onnx/common/version.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "device_runtime/src/gpu_info.h"
#include "host/cli/commands.h"
#include "host/cli/json_values.h"
#include "host/codegen/gpu_codegen.h"
#include "host/codegen/llvm_version.h"
#include "host/records/generator.h"
#include "rpc/build_commit.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry version
  gantry version --json | jq -r .commit
A report of a bug should have what this prints.)";

std::string protobuf_version() {
  constexpr int v = GOOGLE_PROTOBUF_VERSION;
  return fmt::format("{}.{}.{}", v / 1'000'000, v / 1000 % 1000, v % 1000);
}

std::string compiler() {
#if defined(__clang__)
  return fmt::format("Clang {}", __clang_version__);
#else
  return fmt::format("GCC {}", __VERSION__);
#endif
}

/// "550.54.14 for CUDA 12.4", or why there is no GPU to be used.
std::string driver_text(const runtime::GpuList& list) {
  if (list.gpus.empty()) return list.problem;
  const runtime::GpuInfo& gpu = list.gpus.front();
  return fmt::format("{}for CUDA {}.{}", gpu.driver.empty() ? "" : gpu.driver + " ", gpu.cuda_version / 1000,
                     gpu.cuda_version % 1000 / 10);
}

std::string version_json() {
  const runtime::GpuList gpus = runtime::describe_gpus();
  nlohmann::ordered_json json;
  json["version"] = GANTRY_VERSION;
  json["commit"] = rpc::build_commit();
  json["generator"] = records::generator_version();
  json["llvm"] = llvm_version();
  json["onnx"] = ONNX_NAMESPACE::LAST_RELEASE_VERSION;
  json["protobuf"] = protobuf_version();
  json["compiler"] = compiler();
  for (const GpuCodegen* codegen : gpu_codegens()) {
    const GpuAssembler assembler = codegen->find_assembler();
    const std::string name(codegen->assembler);
    if (assembler.problem.empty()) {
      json[name] = {{"path", assembler.path}, {"version", assembler.version}};
    } else {
      json[name] = nullptr;
      json[name + "_problem"] = assembler.problem;
    }
  }
  if (gpus.gpus.empty()) {
    json["cuda_driver"] = nullptr;
    json["cuda_driver_problem"] = gpus.problem;
  } else {
    json["cuda_driver"] = driver_text(gpus);
  }
  return document_text(json);
}

}  // namespace

std::string version_text() {
  std::string assemblers;
  for (const GpuCodegen* codegen : gpu_codegens()) {
    const GpuAssembler found = codegen->find_assembler();
    assemblers += fmt::format("  {:<10}{}\n", codegen->assembler,
                              found.problem.empty() ? found.path + " " + found.version : found.problem);
  }
  return fmt::format("gantry {}, commit {}\n", GANTRY_VERSION, rpc::build_commit()) +
         fmt::format("  LLVM      {}\n  onnx      {}\n  protobuf  {}\n  compiler  {}\n", llvm_version(),
                     ONNX_NAMESPACE::LAST_RELEASE_VERSION, protobuf_version(), compiler()) +
         assemblers + fmt::format("  driver    {}\n", driver_text(runtime::describe_gpus()));
}

void add_version_command(CLI::App& app, Invocation& invocation) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("version", "Show the versions of gantry and of what it is made of");
  command->add_flag("--json", *json, "Report as JSON on stdout");
  command->footer(kExamples);
  command->callback([json, &invocation] {
    invocation.action = [json] {
      print_out(*json ? version_json() : version_text());
      return 0;
    };
  });
}

}  // namespace gantry::cli
