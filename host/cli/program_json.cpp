#include <nlohmann/json.hpp>

#include "host/cli/json_values.h"
#include "host/cli/program_facts.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* kind_name(ProgramValue::Kind kind) {
  switch (kind) {
    case ProgramValue::Kind::kInput:
      return "input";
    case ProgramValue::Kind::kOutput:
      return "output";
    case ProgramValue::Kind::kConstant:
      return "constant";
    case ProgramValue::Kind::kWorkspace:
      return "workspace";
    case ProgramValue::Kind::kView:
      return "view";
  }
  return "";
}

Json value_json(const ProgramValue& value, size_t id) {
  return {{"id", id},
          {"name", value.name},
          {"kind", kind_name(value.kind)},
          {"type", said(value.type)},
          {"bytes", shown(value.bytes)},
          {"offset", shown(value.offset)},
          {"first_step", shown(value.first_step)},
          {"last_step", shown(value.last_step)},
          {"shows", shown(value.shows)},
          {"memory", value.on_gpu ? "gpu" : "host"}};
}

Json step_json(const ProgramStep& step, size_t index) {
  return {{"step", index},
          {"symbol", said(step.symbol)},
          {"name", step.name},
          {"op", said(step.op)},
          {"nodes", step.nodes},
          {"reads", step.reads},
          {"writes", step.writes},
          {"flops", shown(step.flops)},
          {"bytes", shown(step.bytes)},
          {"decision", said(step.decision)},
          {"predicted_cycles", shown(step.predicted_cycles)},
          {"predicted_ms", shown(step.predicted_ms)},
          {"graph", said(step.graph)},
          {"loops", said(step.loops)},
          {"assembly", said(step.assembly)}};
}

}  // namespace

void predict_times(ProgramFacts& program, double clock_mhz, int threads) {
  if (clock_mhz <= 0 || threads <= 0) return;
  for (ProgramStep& step : program.steps) {
    if (step.predicted_cycles && !step.predicted_ms)
      step.predicted_ms = *step.predicted_cycles / (clock_mhz * 1e3) / threads;
  }
}

Json program_json(const ProgramFacts& program) {
  Json json;
  json["target"] = program.target;
  json["values"] = Json::array();
  for (size_t i = 0; i < program.values.size(); ++i)
    json["values"].push_back(value_json(program.values[i], i));
  json["workspace_bytes"] = shown(program.workspace.bytes);
  json["workspace_bound_bytes"] = shown(program.workspace.bound);
  const ProgramMemory gpu = program.gpu_workspace.value_or(ProgramMemory());
  json["gpu_workspace_bytes"] = shown(gpu.bytes);
  json["gpu_workspace_bound_bytes"] = shown(gpu.bound);
  json["steps"] = Json::array();
  for (size_t i = 0; i < program.steps.size(); ++i) json["steps"].push_back(step_json(program.steps[i], i));
  return json;
}

}  // namespace gantry::cli
