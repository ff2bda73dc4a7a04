#include "host/codegen/parallel_loops.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "device_runtime/include/gantry/kernel_abi.h"

namespace gantry {

using llvm::Value;

namespace {

constexpr uint32_t kRoundsVersion = 4;  // of the ABI that has parallel_rounds
constexpr uint32_t kFirstVersion = 5;   // of the ABI that has is_first_range

// Maps by address, in an order that does not depend on addresses: the same kernel gives the same code.
template <typename Key>
std::vector<std::pair<const Key*, Value*>> by_name(const std::map<const Key*, Value*>& values) {
  std::vector<std::pair<const Key*, Value*>> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.first->name < b.first->name; });
  return sorted;
}

bool makes_once(const Stmt& s) {
  bool found = false;
  walk(s, [&](const Stmt& inner) { found |= inner->kind == StmtKind::kOnce; }, {});
  return found;
}

}  // namespace

ParallelLoops::ParallelLoops(llvm::IRBuilder<>& builder, llvm::Module& module, FunctionScope& scope,
                             Expressions& expressions, HostTable& host, SerialLoops& serial,
                             const std::string& kernel)
    : b_(builder),
      module_(module),
      scope_(scope),
      expressions_(expressions),
      host_(host),
      serial_(serial),
      kernel_(kernel) {}

Value* ParallelLoops::is_first_range() {
  llvm::BasicBlock *look = scope_.new_block("look"), *ask = scope_.new_block("ask"),
                   *known = scope_.new_block("known");
  llvm::BasicBlock* entry = b_.GetInsertBlock();
  b_.CreateCondBr(host_.is_absent(), known, look);
  b_.SetInsertPoint(look);
  b_.CreateCondBr(host_.has_version(kFirstVersion), ask, known);
  b_.SetInsertPoint(ask);
  Value* function = host_.member(offsetof(GantryKernelHost, is_first_range));
  Value* context = host_.member(offsetof(GantryKernelHost, context));
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy()}, false);
  Value* answer = b_.CreateICmpNE(b_.CreateCall(type, function, {context}), b_.getInt32(0));
  b_.CreateBr(known);
  b_.SetInsertPoint(known);
  llvm::PHINode* first = b_.CreatePHI(b_.getInt1Ty(), 3);
  first->addIncoming(b_.getTrue(), entry);
  first->addIncoming(b_.getTrue(), look);
  first->addIncoming(answer, ask);
  return first;
}

ParallelLoops::Closure ParallelLoops::capture(Value* low) const {
  std::vector<Value*> values{low, scope_.host};
  for (const auto& [var, value] : by_name(scope_.vars)) values.push_back(value);
  for (const auto& [symbol, value] : scope_.symbols) values.push_back(value);
  for (const auto& [buffer, value] : by_name(scope_.buffers)) values.push_back(value);
  std::vector<llvm::Type*> types;
  for (Value* value : values) types.push_back(value->getType());
  return {llvm::StructType::get(b_.getContext(), types), std::move(values)};
}

Value* ParallelLoops::enter(llvm::Function* function, const Closure& closure) {
  FunctionScope inner;
  inner.function = function;
  inner.entry = llvm::BasicBlock::Create(b_.getContext(), "entry", function);
  b_.SetInsertPoint(inner.entry);
  unsigned member = 0;
  auto reload = [&]() -> Value* {
    Value* original = closure.values[member];
    Value* address = b_.CreateStructGEP(closure.type, function->getArg(0), member++);
    return b_.CreateLoad(original->getType(), address, original->getName());
  };
  Value* low = reload();
  inner.host = reload();
  for (const auto& [var, value] : by_name(scope_.vars)) inner.vars[var] = reload();
  for (const auto& [symbol, value] : scope_.symbols) inner.symbols[symbol] = reload();
  for (const auto& [buffer, value] : by_name(scope_.buffers)) inner.buffers[buffer] = reload();
  scope_ = std::move(inner);
  expressions_.forget();
  return low;
}

llvm::Function* ParallelLoops::outline(const ForNode& loop, const Closure& closure,
                                       const std::function<void()>& body) {
  auto* type =
      llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy(), b_.getInt64Ty(), b_.getInt64Ty()}, false);
  auto* function =
      llvm::Function::Create(type, llvm::Function::InternalLinkage, kernel_ + ".parallel", module_);
  function->addFnAttr(llvm::Attribute::NoInline);
  function->addParamAttr(0, llvm::Attribute::NoAlias);
  function->addParamAttr(0, llvm::Attribute::ReadOnly);

  FunctionScope outer = scope_;
  const llvm::IRBuilder<>::InsertPoint return_point = b_.saveIP();
  inside_ = true;
  Value* low = enter(function, closure);
  Value* begin = b_.CreateNSWAdd(low, function->getArg(1));
  Value* end = b_.CreateNSWAdd(low, function->getArg(2));
  Value* first = makes_once(loop.body) ? is_first_range() : nullptr;
  serial_.emit(begin, end, loop.var, [&] {
    Value* index = scope_.vars.at(loop.var.as<VarNode>());
    if (first) is_first_iteration_ = b_.CreateAnd(first, b_.CreateICmpEQ(index, begin), "once");
    body();
  });
  b_.CreateRet(b_.getInt32(0));

  inside_ = false;
  is_first_iteration_ = nullptr;
  scope_ = std::move(outer);
  expressions_.forget();
  b_.restoreIP(return_point);
  return function;
}

Value* ParallelLoops::call_pool(const ForNode& loop, llvm::Function* function, Value* closure, Value* count) {
  Value* context = host_.member(offsetof(GantryKernelHost, context));
  const std::vector<llvm::Type*> types{b_.getPtrTy(), b_.getPtrTy(), b_.getPtrTy(), b_.getInt64Ty()};
  auto in_a_range = [&]() -> Value* {
    Value* pool = host_.member(offsetof(GantryKernelHost, parallel_for));
    return b_.CreateCall(llvm::FunctionType::get(b_.getInt32Ty(), types, false), pool,
                         {context, function, closure, count});
  };
  if (loop.rounds == 1) return in_a_range();
  llvm::BasicBlock *by_rounds = scope_.new_block("by_rounds"), *by_range = scope_.new_block("by_range"),
                   *called = scope_.new_block("called");
  b_.CreateCondBr(host_.has_version(kRoundsVersion), by_rounds, by_range);
  b_.SetInsertPoint(by_rounds);
  Value* rounds = b_.getInt64(static_cast<uint64_t>(loop.rounds));
  std::vector<llvm::Type*> more = types;
  more.push_back(b_.getInt64Ty());
  Value* pool = host_.member(offsetof(GantryKernelHost, parallel_rounds));
  Value* first = b_.CreateCall(llvm::FunctionType::get(b_.getInt32Ty(), more, false), pool,
                               {context, function, closure, rounds, b_.CreateUDiv(count, rounds)});
  b_.CreateBr(called);
  b_.SetInsertPoint(by_range);
  Value* second = in_a_range();
  b_.CreateBr(called);
  b_.SetInsertPoint(called);
  llvm::PHINode* result = b_.CreatePHI(b_.getInt32Ty(), 2);
  result->addIncoming(first, by_rounds);
  result->addIncoming(second, by_range);
  return result;
}

void ParallelLoops::emit(const ForNode& loop, const std::function<void()>& body) {
  expressions_.forget();
  Value *low = expressions_.emit_index(loop.low), *count = expressions_.emit_index(loop.extent);
  const Closure closure = capture(low);
  llvm::Function* function = outline(loop, closure, body);

  Value* memory = scope_.on_stack(closure.type, "closure");
  for (unsigned i = 0; i < closure.values.size(); ++i) {
    b_.CreateStore(closure.values[i], b_.CreateStructGEP(closure.type, memory, i));
  }
  llvm::BasicBlock *check = scope_.new_block("check"), *shared = scope_.new_block("shared"),
                   *alone = scope_.new_block("alone"), *join = scope_.new_block("join"),
                   *fail = scope_.new_block("fail"), *after = scope_.new_block("after");
  b_.CreateCondBr(b_.CreateICmpSGT(count, b_.getInt64(0)), check, after);
  b_.SetInsertPoint(check);
  Value* is_alone = b_.CreateOr(host_.is_absent(), b_.CreateICmpEQ(count, b_.getInt64(1)));
  b_.CreateCondBr(is_alone, alone, shared);

  b_.SetInsertPoint(shared);
  Value* shared_result = call_pool(loop, function, memory, count);
  shared = b_.GetInsertBlock();
  b_.CreateBr(join);

  b_.SetInsertPoint(alone);
  Value* alone_result = b_.CreateCall(function, {memory, b_.getInt64(0), count});
  b_.CreateBr(join);

  b_.SetInsertPoint(join);
  llvm::PHINode* result = b_.CreatePHI(b_.getInt32Ty(), 2);
  result->addIncoming(shared_result, shared);
  result->addIncoming(alone_result, alone);
  b_.CreateCondBr(b_.CreateICmpEQ(result, b_.getInt32(0)), after, fail);
  b_.SetInsertPoint(fail);
  b_.CreateRet(result);
  b_.SetInsertPoint(after);
}

}  // namespace gantry
