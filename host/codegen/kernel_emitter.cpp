#include "host/codegen/kernel_emitter.h"

#include <llvm/IR/IRBuilder.h>

#include "host/codegen/access_reports.h"
#include "host/codegen/block_statements.h"
#include "host/codegen/buffer_elements.h"
#include "host/codegen/buffers.h"
#include "host/codegen/conversions.h"
#include "host/codegen/cpu_codegen.h"
#include "host/codegen/device_loops.h"
#include "host/codegen/expressions.h"
#include "host/codegen/float_arithmetic.h"
#include "host/codegen/host_table.h"
#include "host/codegen/integer_arithmetic.h"
#include "host/codegen/launches.h"
#include "host/codegen/llvm_target.h"
#include "host/codegen/loads.h"
#include "host/codegen/math.h"
#include "host/codegen/math_calls.h"
#include "host/codegen/memory_parts.h"
#include "host/codegen/memory_statements.h"
#include "host/codegen/multiply_adds.h"
#include "host/codegen/narrow_indices.h"
#include "host/codegen/parallel_loops.h"
#include "host/codegen/serial_loops.h"
#include "host/codegen/stack_buffers.h"
#include "host/codegen/statements.h"
#include "host/codegen/target_emitter.h"
#include "host/codegen/thread_memory.h"
#include "host/codegen/tile_statements.h"
#include "host/codegen/vector_lanes.h"
#include "host/codegen/warp_statements.h"

namespace gantry {

using llvm::Value;

namespace {

bool is_gpu_code(const Target& target) {
  return target.family == nullptr;
}

/// What is known while a kernel is being written, and its memory.
struct KernelState {
  KernelState(llvm::Module& module, const LoopKernel& kernel, const Target& target);

  llvm::IRBuilder<> builder;
  FunctionScope scope;
  IndexSigns signs;
  IndexRanges index_ranges;
  IndexRanges* ranges;  ///< null on CPUs
  Buffers buffers;
  AccessReports reports;
  BufferElements elements;
};

KernelState::KernelState(llvm::Module& module, const LoopKernel& kernel, const Target& target)
    : builder(module.getContext()),
      ranges(is_gpu_code(target) ? &index_ranges : nullptr),
      buffers(builder, module, scope, kernel, ranges),
      reports(builder, scope, reports_accesses(kernel, target)),
      elements(builder, scope, buffers, reports, is_gpu_code(target)) {
  // Multiplications and additions may become fma; nothing else is relaxed.
  llvm::FastMathFlags flags;
  flags.setAllowContract(true);
  builder.setFastMathFlags(flags);
}

/// The parts of expressions, put together. Some refer to ones that are made after them, which they do not ask
/// before all are there.
struct ExpressionParts {
  ExpressionParts(KernelState& state, const LoopKernel& kernel, const Target& target);

  CpuInstructions instructions;
  MathBuilder math;
  Conversions conversions;
  IntegerArithmetic integers;
  FloatArithmetic floats;
  MultiplyAdds multiply_adds;
  MathCalls calls;
  VectorLanes lanes;
  MemoryParts memory;
  Loads loads;
  NarrowIndices narrow;
  Expressions expressions;
};

ExpressionParts::ExpressionParts(KernelState& s, const LoopKernel& kernel, const Target& target)
    : instructions(instructions_of(target)),
      math(s.builder, instructions.multiply_add, instructions.vector_math),
      conversions(s.builder, instructions, is_gpu_code(target)),
      integers(s.builder, s.signs, kernel.name),
      floats(s.builder, math, conversions, instructions, kernel),
      multiply_adds(s.builder, expressions, math, conversions, instructions),
      calls(s.builder, expressions, math, conversions, multiply_adds, instructions, kernel.name),
      lanes(s.builder, expressions, integers, conversions, s.elements),
      memory{s.builder, expressions, lanes,     conversions,
             s.buffers, s.elements,  s.reports, is_gpu_code(target)},
      loads(memory),
      narrow(s.builder, s.scope, s.index_ranges, s.signs, integers),
      expressions(s.builder, s.scope, kernel.name,
                  {conversions, integers, floats, multiply_adds, calls, lanes, loads,
                   is_gpu_code(target) ? &narrow : nullptr}) {}

/// The parts of statements, put together in the same way.
struct StatementParts {
  StatementParts(llvm::Module& module, KernelState& state, ExpressionParts& values, const LoopKernel& kernel,
                 const Target& target);

  MemoryStatements memory;
  TargetEmitter target_emitter;
  TileStatements tiles;
  StackBuffers stack;
  HostTable host;
  SerialLoops serial;
  ParallelLoops parallel;
  ThreadMemory thread_memory;
  DeviceLoops device_loops;
  BlockStatements blocks;
  WarpStatements warps;
  Launches launches;
  Statements statements;
};

StatementParts::StatementParts(llvm::Module& module, KernelState& s, ExpressionParts& values,
                               const LoopKernel& kernel, const Target& target)
    : memory(values.memory, kernel.name),
      target_emitter(s.builder, module, s.scope, values.expressions, s.buffers),
      tiles(target_emitter, values.expressions, target, kernel.name),
      stack(s.builder, s.scope, target, kernel.name),
      host(s.builder, s.scope),
      serial(s.builder, s.scope, s.signs),
      parallel(s.builder, module, s.scope, values.expressions, host, serial, kernel.name),
      thread_memory(s.builder, s.scope, values.expressions, host),
      device_loops(s.builder, s.scope, values.expressions, values.narrow, s.index_ranges),
      blocks(s.builder, module, s.scope, values.expressions, kernel.name),
      warps(s.builder, values.expressions, values.conversions, s.buffers, s.elements, kernel.name),
      launches(s.builder, module, kernel, target, s.scope, values.expressions, s.buffers, values.narrow,
               [this](const Stmt& body) { statements.emit(body); }),
      statements(
          s.builder, s.scope, values.expressions, s.signs, s.ranges,
          {memory, tiles, stack, serial, parallel, thread_memory, s.reports, device_loops, blocks, warps},
          kernel, target) {}

/// What the parameters `buffers` and `dims` point to becomes what the scope's names stand for.
void bind_arguments(const LoopKernel& kernel, Value* buffers, Value* dims, llvm::IRBuilder<>& b,
                    FunctionScope& scope) {
  unsigned slot = 0;
  auto bind = [&](const Buffer& buffer) {
    Value* address = b.CreateConstInBoundsGEP1_64(b.getPtrTy(), buffers, slot++);
    scope.buffers[buffer.get()] = b.CreateLoad(b.getPtrTy(), address, buffer->name);
  };
  for (const Buffer& buffer : kernel.arguments) bind(buffer);
  for (const Buffer& buffer : kernel.scratch) bind(buffer);
  unsigned dim = 0;
  for (const std::string& symbol : kernel.symbols) {
    Value* address = b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), dims, dim++);
    scope.symbols[symbol] = b.CreateLoad(b.getInt64Ty(), address, symbol);
  }
}

/// The kernel's function (GantryKernelFn), without code.
llvm::Function* declare_function(const LoopKernel& kernel, llvm::Module& module, llvm::IRBuilder<>& b) {
  auto* type = llvm::FunctionType::get(b.getInt32Ty(), {b.getPtrTy(), b.getPtrTy(), b.getPtrTy()}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, kernel.name, module);
  function->setVisibility(llvm::GlobalValue::ProtectedVisibility);
  for (unsigned i = 0; i < 3; ++i) function->addParamAttr(i, llvm::Attribute::NoAlias);
  function->getArg(0)->setName("host");
  function->getArg(1)->setName("buffers");
  function->getArg(2)->setName("dims");
  return function;
}

}  // namespace

void emit_kernel(llvm::Module& module, const LoopKernel& kernel, const Target& target) {
  KernelState state(module, kernel, target);
  ExpressionParts values(state, kernel, target);
  StatementParts parts(module, state, values, kernel, target);
  if (is_gpu_code(target)) return parts.launches.emit(kernel.body);

  llvm::IRBuilder<>& b = state.builder;
  llvm::Function* function = declare_function(kernel, module, b);
  state.scope.function = function;
  state.scope.host = function->getArg(0);
  state.scope.entry = llvm::BasicBlock::Create(module.getContext(), "entry", function);
  b.SetInsertPoint(state.scope.entry);
  bind_arguments(kernel, function->getArg(1), function->getArg(2), b, state.scope);
  if (state.reports.active()) {
    state.reports.begin(kernel, state.buffers,
                        [&](const Expr& e) { return values.expressions.emit_index(e); });
  }
  parts.statements.emit(kernel.body);
  b.CreateRet(b.getInt32(0));
  for (llvm::Function& f : module) {
    if (!f.isDeclaration()) set_function_attributes(f, target);
  }
}

}  // namespace gantry
