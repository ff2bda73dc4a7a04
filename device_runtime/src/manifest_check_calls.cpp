#include <string_view>

#include "device_runtime/src/builtins.h"
#include "device_runtime/src/data_type.h"
#include "device_runtime/src/manifest_checker.h"
#include "device_runtime/src/module_format.h"

namespace gantry::runtime::manifest {
namespace {

constexpr uint32_t kMostNestedPlans = 128;

}  // namespace

Status ManifestChecker::check_branches(const Variant& variant, const PlanParts& plan, const RunIf& step) {
  if (count(plan.stretches) == 0) return damaged("a step runs plans, but its own plan has no stretches");
  GANTRY_TRY(check_flag(plan, step.condition(), "a condition"));
  GANTRY_TRY(spend_texts(step.origin()));
  GANTRY_TRY(check_called(variant, plan, step.then_plan(), step.then_inputs(), 0));
  GANTRY_TRY(check_called(variant, plan, step.else_plan(), step.else_inputs(), 0));
  for (const uint32_t called : {step.then_plan(), step.else_plan()}) {
    const auto& outputs = *variant.plans()->Get(called)->outputs();
    if (step.first_result() > plan.results || outputs.size() > plan.results - step.first_result())
      return damaged("plan %u has more results than there are places", called);
    GANTRY_TRY(spend(count(step.symbols())));
    for (uint32_t i = 0; i < count(step.symbols()); ++i) {
      const OutputSymbol& known = *step.symbols()->Get(i);
      const bool there =
          known.output() < outputs.size() && known.axis() < outputs.Get(known.output())->shape()->size();
      if (!there || known.symbol() >= count(manifest_.symbols()))
        return damaged("a step binds a symbol to a dimension that plan %u does not have", called);
    }
  }
  return Status();
}

Status ManifestChecker::check_loop(const Variant& variant, const PlanParts& plan, const RunLoop& step) {
  if (count(plan.stretches) == 0) return damaged("a step runs plans, but its own plan has no stretches");
  GANTRY_TRY(spend_texts(step.origin()));
  if (step.count() >= 0) GANTRY_TRY(check_flag(plan, static_cast<uint32_t>(step.count()), "a loop's count"));
  if (step.condition() >= 0)
    GANTRY_TRY(check_flag(plan, static_cast<uint32_t>(step.condition()), "a condition"));
  GANTRY_TRY(check_called(variant, plan, step.plan(), step.inputs(), 2));
  const Plan& body = *variant.plans()->Get(step.plan());
  const uint32_t outputs = body.outputs()->size();
  if (outputs < 1 || step.states() > outputs - 1 || step.states() > count(step.inputs()))
    return damaged("plan %u cannot hand on %u states", step.plan(), step.states());
  if (step.first_result() > plan.results || outputs - 1 > plan.results - step.first_result())
    return damaged("plan %u has more results than there are places", step.plan());
  GANTRY_TRY(check_loop_symbols(step, body, step.entry(), step.states()));
  return check_loop_symbols(step, body, step.symbols(), outputs - 1);
}

Status ManifestChecker::check_loop_symbols(const RunLoop& step, const Plan& body,
                                           const flatbuffers::Vector<const LoopSymbol*>* symbols,
                                           uint32_t results) {
  GANTRY_TRY(spend(count(symbols)));
  for (uint32_t i = 0; i < count(symbols); ++i) {
    const LoopSymbol& symbol = *symbols->Get(i);
    if (symbol.symbol() >= count(manifest_.symbols()) || !is_dim(symbol.initial()))
      return damaged("a loop binds a symbol or reads a dimension that is not there");
    if (symbol.result() >= results) return damaged("a loop binds a symbol to a result that it does not have");
    const uint32_t rank = body.outputs()->Get(1 + symbol.result())->shape()->size();
    if (symbol.axis() >= rank + (symbol.result() < step.states() ? 0 : 1))
      return damaged("a loop binds a symbol to a dimension that its result does not have");
  }
  return Status();
}

Status ManifestChecker::check_called(const Variant& variant, const PlanParts& plan, uint32_t called,
                                     const flatbuffers::Vector<uint32_t>* inputs, uint32_t own) {
  if (called < plan.next_plan || called >= count(variant.plans()))
    return damaged("a step runs a plan that is not there");
  if (depths_[called] != 0) return damaged("plan %u is run by two steps", called);
  if (plan.depth == kMostNestedPlans) return damaged("plan %u is nested too deep", called);
  depths_[called] = plan.depth + 1;
  GANTRY_TRY(spend(count(inputs)));
  const Plan& found = *variant.plans()->Get(called);
  if (count(found.stretches()) == 0) return damaged("plan %u has no stretches", called);
  if (found.inputs() < own || count(inputs) != found.inputs() - own)
    return damaged("a step gives %u inputs to plan %u, which takes %u", count(inputs) + own, called,
                   found.inputs());
  for (uint32_t i = 0; i < count(inputs); ++i) {
    if (inputs->Get(i) >= plan.buffers.size())
      return damaged("a step gives plan %u a buffer that is not there", called);
  }
  return Status();
}

// One that the runtime reads.
Status ManifestChecker::check_flag(const PlanParts& plan, uint32_t buffer, const char* what) {
  if (buffer >= plan.buffers.size()) return damaged("%s is in a buffer that is not there", what);
  if (plan.buffers.Get(buffer)->device() != Device::Cpu) return damaged("%s is in the GPU's memory", what);
  return Status();
}

Status ManifestChecker::check_builtin(const PlanParts& plan, const CallBuiltin& call) {
  if (count(plan.stretches) == 0) return damaged("a step calls a builtin, but the plan has no stretches");
  GANTRY_TRY(spend(call.function()->size() + uint64_t{count(call.integers())} + count(call.inputs()) +
                   count(call.outputs()) + (call.text() == nullptr ? 0 : call.text()->size())));
  GANTRY_TRY(spend_texts(call.origin()));
  const char* name = call.function()->c_str();
  if (!has_strings_ && !has_images_)
    return damaged("a step calls %s, but the module does not require it", name);
  for (const auto* tensors : {call.inputs(), call.outputs()}) {
    for (uint32_t i = 0; i < count(tensors); ++i) {
      const module_format::BuiltinTensor& tensor = *tensors->Get(i);
      GANTRY_TRY(spend(tensor.shape()->size()));
      const bool known = tensor.buffer() < plan.buffers.size() && tensor.shape()->size() <= kMaxRank &&
                         static_cast<uint8_t>(tensor.dtype()) < kElementTypeCount;
      if (!known) return damaged("a tensor of %s is not there or of no type that there is", name);
      const Buffer& buffer = *plan.buffers.Get(tensor.buffer());
      const bool is_given = buffer.kind() == BufferKind::Input || buffer.kind() == BufferKind::Constant;
      if (buffer.device() != Device::Cpu || (tensors == call.outputs() && is_given))
        return damaged("a tensor of %s cannot be there", name);
      for (uint32_t dim : *tensor.shape()) {
        if (!is_dim(dim)) return damaged("a tensor of %s has a dimension that is not in the list", name);
      }
    }
  }
  const std::string_view feature = builtin_part()->feature_of(call.function()->string_view());
  if (feature.empty())
    return failure(
        GANTRY_INCOMPATIBLE,
        "the module calls %s, which this runtime (gantry %s) does not have: update gantry on this machine",
        name, gantry_version());
  const bool required = feature == kImages ? has_images_ : has_strings_;
  return required ? Status() : damaged("a step calls %s, but the module does not require it", name);
}

}  // namespace gantry::runtime::manifest
