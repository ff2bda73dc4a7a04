#include "host/codegen/buffers.h"

#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "host/codegen/value_types.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

namespace {

/// Those that have addresses of their own for as long as the kernel runs, in a fixed order.
std::vector<const BufferNode*> lasting_buffers(const LoopKernel& kernel) {
  std::vector<const BufferNode*> buffers;
  for (const Buffer& b : kernel.arguments) buffers.push_back(b.get());
  for (const Buffer& b : kernel.scratch) buffers.push_back(b.get());
  walk(kernel.body,
       [&](const Stmt& s) {
         auto* allocation = s.as<AllocateNode>();
         if (allocation && allocation->buffer->scope == BufferScope::kThread)
           buffers.push_back(allocation->buffer.get());
       },
       {});
  return buffers;
}

}  // namespace

Buffers::Buffers(llvm::IRBuilder<>& builder, const llvm::Module& module, const FunctionScope& scope,
                 const LoopKernel& kernel, IndexRanges* ranges)
    : b_(builder), module_(module), scope_(scope), kernel_(kernel.name), ranges_(ranges) {
  const std::vector<const BufferNode*> buffers = lasting_buffers(kernel);
  llvm::LLVMContext& context = module.getContext();
  llvm::MDBuilder metadata(context);
  llvm::MDNode* domain = metadata.createAnonymousAliasScopeDomain();
  std::vector<llvm::Metadata*> scopes;
  for (size_t i = 0; i < buffers.size(); ++i) scopes.push_back(metadata.createAnonymousAliasScope(domain));
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::vector<llvm::Metadata*> others = scopes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    alias_scopes_[buffers[i]] = {llvm::MDNode::get(context, {scopes[i]}), llvm::MDNode::get(context, others)};
  }
  walk(kernel.body,
       [&](const Stmt& s) {
         if (auto* store = s.as<StoreNode>()) written_.insert(store->buffer.get());
         if (auto* tile = s.as<TileNode>(); tile && tile->buffer) written_.insert(tile->buffer.get());
       },
       {});
}

Value* Buffers::address(const BufferNode& buffer) const {
  auto it = scope_.buffers.find(&buffer);
  internal_check(it != scope_.buffers.end(), "kernel {}: buffer {} is used outside of its lifetime", kernel_,
                 buffer.name);
  return it->second;
}

Value* Buffers::element(const BufferNode& buffer, Value* index) const {
  return b_.CreateInBoundsGEP(storage_type(b_.getContext(), buffer.dtype), address(buffer), index);
}

llvm::Align Buffers::alignment(const BufferNode& buffer) const {
  return module_.getDataLayout().getABITypeAlign(storage_type(b_.getContext(), buffer.dtype));
}

llvm::Align Buffers::alignment(const BufferNode& buffer, const Expr& index) const {
  const llvm::Align element = alignment(buffer);
  if (ranges_ == nullptr) return element;
  const auto multiple = static_cast<uint64_t>(ranges_->divisor(index)) * element.value();
  return llvm::Align(std::max(element.value(), std::gcd(multiple, kDeviceAlignment)));
}

void Buffers::annotate(llvm::Instruction* access, const BufferNode& buffer) const {
  auto it = alias_scopes_.find(&buffer);
  if (it == alias_scopes_.end()) return;  // of the stack
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, it->second.first);
  access->setMetadata(llvm::LLVMContext::MD_noalias, it->second.second);
  if (llvm::isa<llvm::LoadInst>(access) && !is_written(buffer)) {
    access->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(b_.getContext(), {}));
  }
}

}  // namespace gantry
