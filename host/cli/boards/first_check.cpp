#include "host/cli/boards/first_check.h"

#include <span>

#include "host/cli/board_machine.h"
#include "host/cli/inputs.h"
#include "host/cli/model_source.h"
#include "host/zoo/zoo.h"

namespace gantry::cli {

std::unique_ptr<Machine> connect_with_key(const std::string& label, const std::string& address,
                                          const rpc::PskKey& key) {
  rpc::ConnectOptions options;
  options.address = address;
  options.label = label;
  options.key = key;
  options.connect_timeout = std::chrono::seconds(15);  // a small board that has just started its server
  return std::make_unique<BoardMachine>(rpc::BoardClient::connect(options), label, address,
                                        BoardMachine::Sending::kWhole);
}

runtime::SharedBytes compile_check(Machine& machine, const Invocation& invocation) {
  ZooOptions network;
  network.size = kCheckSize;
  const std::string model = build_zoo_model(kCheckNetwork, network);
  ModuleRequest request;
  request.file = std::string(kCheckNetwork) + ".onnx";
  request.contents = aligned_copy(std::as_bytes(std::span(model)));
  return module_for(request, machine.info(), invocation).bytes;
}

double time_check(Machine& machine, const runtime::SharedBytes& module) {
  const rpc::LoadedModule& loaded = machine.load(module, {}, {});
  InputChoice choice;
  choice.seed = 0;
  const std::vector<GivenInput> inputs = gather_inputs(loaded.inputs, choice);
  for (size_t i = 0; i < inputs.size(); ++i) machine.set_input(static_cast<int>(i), inputs[i].tensor);
  return machine.benchmark({}, {}).statistics.median_ms;
}

}  // namespace gantry::cli
