// In the place of instruction_counter.cpp and step_instructions.cpp, for applications: they count no instructions.
#include "device_runtime/src/step_instructions.h"

namespace gantry::runtime {
namespace {

Status left_out() {
  return failure(GANTRY_INCOMPATIBLE, "this runtime counts no instructions: gantry-device does");
}

}  // namespace

InstructionCounter::~InstructionCounter() = default;
InstructionCounter& InstructionCounter::operator=(InstructionCounter&&) noexcept = default;

Result<StepInstructions> StepInstructions::create(ThreadPool&, size_t) {
  return left_out();
}
void StepInstructions::begin(const GantryKernelHost&) {}
void StepInstructions::begin_step(size_t) {}
void StepInstructions::end_step() {}
Result<std::vector<uint64_t>> StepInstructions::end() {
  return left_out();
}

}  // namespace gantry::runtime
