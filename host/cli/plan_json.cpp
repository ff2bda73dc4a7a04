#include "host/cli/plan_json.h"

#include <algorithm>
#include <cctype>

#include "host/graph/type.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace format = module_format;

Json dims_json(const flatbuffers::Vector<uint32_t>* expressions, const ManifestDims& dims) {
  Json list = Json::array();
  for (uint32_t i = 0; expressions != nullptr && i < expressions->size(); ++i)
    list.push_back(dim_json(dims.get(expressions->Get(i))));
  return list;
}

void add_launches(const format::Kernel& kernel, Json& json) {
  json["device"] = name_of(kernel.device());
  json["launches"] = Json::array();
  for (uint32_t i = 0; i < launch_count(kernel); ++i) {
    const auto* launch = kernel.launches()->Get(i);
    json["launches"].push_back({{"symbol", string_of(launch->symbol())},
                                {"threads", launch->threads()},
                                {"shared_bytes", launch->shared_bytes()},
                                {"loop", launch->loop()}});
  }
}

Json call_json(const format::CallKernel& call, const ManifestDims& dims) {
  Json json;
  json["kernel"] = call.kernel();
  json["buffers"] = std::vector<uint32_t>(call.buffers()->begin(), call.buffers()->end());
  json["nodes"] = Json::array();
  if (call.origin() != nullptr) {
    for (const auto* node : *call.origin()) json["nodes"].push_back(node->str());
  }
  json["flops"] = dim_json(dims.get(call.flops()));
  json["bytes"] = dim_json(dims.get(call.bytes()));
  if (call.grids() != nullptr && call.grids()->size() != 0) {
    json["grids"] = dims_json(call.grids(), dims);
    json["loops"] = dims_json(call.loops(), dims);
  }
  return json;
}

}  // namespace

Dim ManifestDims::get(uint32_t expression) const {
  std::vector<Dim> stack;
  for (const format::DimStep* step : *manifest_.dim_exprs()->Get(expression)->steps()) apply(*step, stack);
  internal_check(stack.size() == 1, "a dimension expression leaves {} values", stack.size());
  return stack[0];
}

std::string ManifestDims::shape(const flatbuffers::Vector<uint32_t>& dims) const {
  Shape shape;
  for (uint32_t dim : dims) shape.push_back(get(dim));
  return to_string(shape);
}

void ManifestDims::apply(const format::DimStep& step, std::vector<Dim>& stack) const {
  using Op = format::DimOpcode;
  if (step.opcode() == Op::Constant) return stack.push_back(Dim(step.value()));
  if (step.opcode() == Op::Symbol) {
    return stack.push_back(
        Dim::symbol(manifest_.symbols()->Get(static_cast<uint32_t>(step.value()))->string_view()));
  }
  const Dim b = stack.back();
  stack.pop_back();
  const Dim a = stack.back();
  switch (step.opcode()) {
    case Op::Add:
      stack.back() = a + b;
      break;
    case Op::Mul:
      stack.back() = a * b;
      break;
    case Op::FloorDiv:
      stack.back() = floordiv(a, b);
      break;
    case Op::Mod:
      stack.back() = mod(a, b);
      break;
    case Op::Max:
      stack.back() = max(a, b);
      break;
    default:
      stack.back() = min(a, b);
      break;
  }
}

std::string string_of(const flatbuffers::String* text) {
  return text == nullptr ? "" : text->str();
}

const char* name_of(format::Device device) {
  switch (device) {
    case format::Device::Cpu:
      return "cpu";
    case format::Device::Cuda:
      return "cuda";
    case format::Device::CudaEmulated:
      return "cuda-emulated";
  }
  return "unknown";
}

bool is_cuda(const format::Variant& variant) {
  return variant.device() == format::Device::Cuda;
}

size_t launch_count(const format::Kernel& kernel) {
  return kernel.launches() == nullptr ? 0 : kernel.launches()->size();
}

std::vector<KernelUse> kernel_uses(const format::Variant& variant, const ManifestDims& dims) {
  std::vector<KernelUse> uses(variant.kernels()->size());
  const auto count = [&](const auto& steps) {
    for (const auto* step : steps) {
      const auto* call = step->action_as_CallKernel();
      if (call == nullptr) continue;
      KernelUse& use = uses[call->kernel()];
      ++use.calls;
      use.flops = use.flops + dims.get(call->flops());
      use.bytes = use.bytes + dims.get(call->bytes());
    }
  };
  count(*variant.steps());
  // Each plan that steps run once, however often that is.
  for (uint32_t i = 0; variant.plans() != nullptr && i < variant.plans()->size(); ++i)
    count(*variant.plans()->Get(i)->steps());
  return uses;
}

Json dim_json(const Dim& dim) {
  return dim.is_constant() ? Json(dim.value()) : Json(dim.str());
}

Json kernels_json(const format::Variant& variant, const ManifestDims& dims) {
  Json list = Json::array();
  const auto uses = kernel_uses(variant, dims);
  for (uint32_t i = 0; i < variant.kernels()->size(); ++i) {
    const auto* kernel = variant.kernels()->Get(i);
    list.push_back({{"symbol", string_of(kernel->symbol())},
                    {"name", string_of(kernel->name())},
                    {"op", string_of(kernel->op())},
                    {"calls", uses[i].calls},
                    {"flops", dim_json(uses[i].flops)},
                    {"bytes", dim_json(uses[i].bytes)}});
    if (is_cuda(variant)) add_launches(*kernel, list.back());
  }
  return list;
}

Json builtin_buffers(const flatbuffers::Vector<flatbuffers::Offset<format::BuiltinTensor>>* tensors) {
  Json list = Json::array();
  for (uint32_t i = 0; tensors != nullptr && i < tensors->size(); ++i)
    list.push_back(tensors->Get(i)->buffer());
  return list;
}

Json steps_json(const format::Variant& variant, const ManifestDims& dims) {
  Json list = Json::array();
  for (const auto* step : *variant.steps()) {
    Json json;
    if (const auto* call = step->action_as_CallKernel()) {
      json = call_json(*call, dims);
    } else if (const auto* copy = step->action_as_CopyBuffer()) {
      json["copy"] = {{"source", copy->source()}, {"target", copy->target()}};
    } else if (const auto* binding = step->action_as_BindSymbols()) {
      json["bind"] = {{"symbols", std::vector<uint32_t>(binding->symbols()->begin(), binding->symbols()->end())}};
      if (binding->buffer() >= 0) json["bind"]["buffer"] = binding->buffer();
      if (binding->buffer() < 0) json["bind"]["values"] = dims_json(binding->values(), dims);
    } else if (const auto* branch = step->action_as_RunIf()) {
      json["if"] = {{"condition", branch->condition()}, {"then_plan", branch->then_plan()}, {"else_plan", branch->else_plan()}};
    } else if (const auto* loop = step->action_as_RunLoop()) {
      json["loop"] = {{"plan", loop->plan()}, {"states", loop->states()}};
    } else if (const auto* builtin = step->action_as_CallBuiltin()) {
      json["builtin"] = {{"function", string_of(builtin->function())},
                         {"inputs", builtin_buffers(builtin->inputs())},
                         {"outputs", builtin_buffers(builtin->outputs())}};
    }
    list.push_back(std::move(json));
  }
  return list;
}

Json buffers_json(const format::Variant& variant, const ManifestDims& dims) {
  Json list = Json::array();
  for (const auto* buffer : *variant.buffers()) {
    Json json;
    std::string kind = format::EnumNameBufferKind(buffer->kind());
    std::transform(kind.begin(), kind.end(), kind.begin(), [](unsigned char c) { return std::tolower(c); });
    json["kind"] = kind;
    if (buffer->kind() == format::BufferKind::Kept) json["stretch"] = buffer->index();
    if (buffer->kind() == format::BufferKind::Workspace || buffer->kind() == format::BufferKind::Kept) {
      json["offset"] = dim_json(dims.get(buffer->offset()));
    } else {
      json["index"] = buffer->index();
    }
    json["bytes"] = dim_json(dims.get(buffer->bytes()));
    if (is_cuda(variant)) json["device"] = name_of(buffer->device());
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace gantry::cli
