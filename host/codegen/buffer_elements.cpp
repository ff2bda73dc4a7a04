#include "host/codegen/buffer_elements.h"

#include <iterator>

#include "host/codegen/value_types.h"

namespace gantry {

using llvm::Value;

BufferElements::BufferElements(llvm::IRBuilder<>& builder, const FunctionScope& scope, const Buffers& buffers,
                               AccessReports& reports, bool gpu)
    : b_(builder), scope_(scope), buffers_(buffers), reports_(reports), gpu_(gpu) {}

Value* BufferElements::blank_memory() {
  Value*& blank = blank_[scope_.function];
  if (!blank) {
    llvm::AllocaInst* memory = scope_.on_stack(b_.getInt64Ty(), "blank");
    llvm::IRBuilder<> entry(scope_.entry, std::next(memory->getIterator()));
    entry.CreateStore(entry.getInt64(0), memory);
    blank = memory;
  }
  return blank;
}

Value* BufferElements::load(const BufferNode& buffer, Value* index, Value* predicate,
                            llvm::MaybeAlign known) {
  reports_.access(buffer, false, index, 1, 1, predicate);
  llvm::Type* type = storage_type(b_.getContext(), buffer.dtype);
  if (gpu_ && predicate)
    return load_where(predicate, type, [&] { return load(buffer, index, nullptr, known); });
  Value* pointer = buffers_.element(buffer, index);
  // Lanes switched off read blank memory instead, which needs no branch and gives the 0 that they are to be.
  if (predicate) pointer = b_.CreateSelect(predicate, pointer, blank_memory());
  llvm::LoadInst* load = b_.CreateAlignedLoad(type, pointer, known.value_or(buffers_.alignment(buffer)));
  buffers_.annotate(load, buffer);  // nothing writes the blank memory later
  return load;
}

void BufferElements::store(const BufferNode& buffer, Value* index, Value* raw, Value* predicate,
                           llvm::MaybeAlign known) {
  reports_.access(buffer, true, index, 1, 1, predicate);
  Value* pointer = buffers_.element(buffer, index);
  auto write = [&](llvm::Align align) {
    buffers_.annotate(b_.CreateAlignedStore(raw, pointer, align), buffer);
  };
  const llvm::Align least = buffers_.alignment(buffer);
  if (!predicate) return write(known.value_or(least));
  store_where(predicate, [&] { write(least); });
}

Value* BufferElements::load_where(Value* predicate, llvm::Type* type, const std::function<Value*()>& load) {
  auto* then = scope_.new_block("load");
  auto* after = scope_.new_block("loaded");
  llvm::BasicBlock* before = b_.GetInsertBlock();
  b_.CreateCondBr(predicate, then, after);
  b_.SetInsertPoint(then);
  Value* value = load();
  llvm::BasicBlock* end = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  llvm::PHINode* phi = b_.CreatePHI(type, 2);
  phi->addIncoming(value, end);
  phi->addIncoming(llvm::Constant::getNullValue(type), before);
  return phi;
}

void BufferElements::store_where(Value* predicate, const std::function<void()>& store) {
  auto* then = scope_.new_block("store");
  auto* after = scope_.new_block("stored");
  b_.CreateCondBr(predicate, then, after);
  b_.SetInsertPoint(then);
  store();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

}  // namespace gantry
