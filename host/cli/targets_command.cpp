#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "host/cli/commands.h"
#include "host/cli/json_values.h"
#include "host/cli/text.h"
#include "host/codegen/cpu_codegen.h"
#include "host/codegen/find_target.h"
#include "host/machine/target.h"

namespace gantry::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  gantry targets
  gantry compile resnet18.onnx --target cortex-a72
  gantry compile resnet18.onnx --target aarch64+dotprod
  gantry compile resnet18.onnx --target native           this machine
  gantry compile resnet18.onnx --target cortex-a76+l2=256K                   a chip whose cores have less cache
  gantry compile resnet18.onnx --target cuda:sm_87/cortex-a78                a GPU and the CPU beside it
Besides those listed, every CPU name that LLVM knows for x86-64 and AArch64 is a target. +NAME and -NAME add and remove
a feature; +l1=SIZE and +l2=SIZE state the caches of a core, in K (KiB) or M (MiB), where the chip has others than is usual
of the CPU. The CPU beside a GPU is x86-64-v2 (of Jetson modules an Arm one) unless named.)";

int list_targets(bool json) {
  std::vector<Target> targets = known_targets();
  Target native = find_target("native");
  native.description = "this machine: " + native.name;
  native.name = "native";
  targets.insert(targets.begin(), native);
  if (json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Target& target : targets) {
      list.push_back({{"name", target.name},
                      {"description", target.description},
                      {"triple", triple_of(target)},
                      {"cpu", target.cpu},
                      {"features", target.features},
                      {"rank", target.rank}});
      if (target.for_gpu()) list.back()["gpu_arch"] = target.gpu_arch;
    }
    print_out(document_text(list));
    return 0;
  }
  Table table({{"target", Table::Align::kLeft}, {"what it is", Table::Align::kLeft}});
  for (const Target& target : targets) table.row({target.name, target.description});
  print_out(table.str(0, terminal_width()));
  return 0;
}

}  // namespace

void add_targets_command(CLI::App& app, Invocation& invocation) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("targets", "List what can be compiled for");
  command->add_flag("--json", *json, "Report as JSON on stdout");
  command->footer(kExamples);
  command->callback([json, &invocation] { invocation.action = [json] { return list_targets(*json); }; });
}

}  // namespace gantry::cli
