#include "host/codegen/launches.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/MDBuilder.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "host/codegen/llvm_target.h"
#include "host/codegen/value_types.h"
#include "host/support/error.h"

namespace gantry {

using llvm::Value;

namespace {

constexpr unsigned kGlobalSpace = 1;
constexpr int64_t kMaxBlocksX = INT32_MAX, kMaxBlocksYZ = 65535;

std::set<const BufferNode*> stored_buffers(const Stmt& s) {
  std::set<const BufferNode*> stored;
  walk(s,
       [&](const Stmt& inner) {
         if (auto* store = inner.as<StoreNode>()) stored.insert(store->buffer.get());
       },
       {});
  return stored;
}

}  // namespace

Launches::Launches(llvm::IRBuilder<>& builder, llvm::Module& module, const LoopKernel& kernel,
                   const Target& target, FunctionScope& scope, Expressions& expressions, Buffers& buffers,
                   NarrowIndices& narrow, std::function<void(const Stmt&)> body)
    : b_(builder),
      module_(module),
      kernel_(kernel),
      target_(target),
      scope_(scope),
      expressions_(expressions),
      buffers_(buffers),
      narrow_(narrow),
      body_(std::move(body)) {}

void Launches::emit(const Stmt& s, const ForNode* loop) {
  if (!s) return;
  if (auto* block = s.as<BlockNode>()) {
    for (const Stmt& statement : block->statements) emit(statement, loop);
  } else if (auto* launch = s.as<LaunchNode>()) {
    emit_launch(*launch, loop);
  } else if (auto* outer = s.as<ForNode>(); outer && loop == nullptr) {
    emit(outer->body, outer);
  } else {
    internal_error("kernel {}: something else than launches and one loop around them", kernel_.name);
  }
}

llvm::Function* Launches::make_entry(const LaunchNode& launch, const ForNode* loop) {
  std::vector<llvm::Type*> types(kernel_.arguments.size() + kernel_.scratch.size(),
                                 b_.getPtrTy(kGlobalSpace));
  types.insert(types.end(), kernel_.symbols.size() + (loop ? 1 : 0), b_.getInt64Ty());
  auto* function = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), types, false),
                                          llvm::Function::ExternalLinkage,
                                          fmt::format("{}_{}", kernel_.name, count_), module_);
  function->setCallingConv(llvm::CallingConv::PTX_Kernel);

  scope_ = {};
  scope_.function = function;
  scope_.entry = llvm::BasicBlock::Create(b_.getContext(), "entry", function);
  b_.SetInsertPoint(scope_.entry);
  expressions_.forget();
  bind_parameters(launch.body, loop);
  return function;
}

void Launches::bind_parameters(const Stmt& body, const ForNode* loop) {
  llvm::Function* function = scope_.function;
  std::vector<Buffer> buffers = kernel_.arguments;
  buffers.insert(buffers.end(), kernel_.scratch.begin(), kernel_.scratch.end());
  const std::set<const BufferNode*> stored = stored_buffers(body);
  std::set<const BufferNode*> written;
  for (unsigned i = 0; i < buffers.size(); ++i) {
    const BufferNode* buffer = buffers[i].get();
    function->getArg(i)->setName(buffer->name);
    scope_.buffers[buffer] = function->getArg(i);
    function->addParamAttr(i,
                           llvm::Attribute::getWithAlignment(b_.getContext(), llvm::Align(kDeviceAlignment)));
    if (stored.contains(buffer)) {
      // Not "noalias": other threads write it too, and a barrier must count as such a write. That no two
      // buffers overlap is in the alias scopes of the accesses.
      written.insert(buffer);
    } else {
      function->addParamAttr(i, llvm::Attribute::NoAlias);
      function->addParamAttr(i, llvm::Attribute::ReadOnly);
    }
  }
  buffers_.set_written(std::move(written));
  unsigned next = static_cast<unsigned>(buffers.size());
  for (const std::string& symbol : kernel_.symbols) {
    function->getArg(next)->setName(symbol);
    scope_.symbols[symbol] = function->getArg(next++);
  }
  if (loop) {
    function->getArg(next)->setName("iteration");
    Value* iteration = b_.CreateNSWAdd(expressions_.emit(loop->low), function->getArg(next));
    narrow_.bind_loop(*loop, iteration, narrow_.range(*loop));
  }
}

void Launches::emit_launch(const LaunchNode& launch, const ForNode* loop) {
  llvm::Function* function = make_entry(launch, loop);
  const llvm::Intrinsic::ID block_index[] = {llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
                                             llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_y,
                                             llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_z};
  for (size_t i = 0; i < 3; ++i) {
    if (!launch.block_vars[i]) continue;
    auto* blocks = launch.grid[i].as<IntImmNode>();
    bind_index(launch.block_vars[i], block_index[i],
               blocks ? blocks->value : (i == 0 ? kMaxBlocksX : kMaxBlocksYZ));
  }
  if (launch.thread_var) {
    bind_index(launch.thread_var, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, launch.threads);
  }
  if (launch.body) body_(launch.body);
  b_.CreateRetVoid();
  annotate(function, launch.threads);
  set_function_attributes(*function, target_);
  ++count_;
}

void Launches::annotate(llvm::Function* entry, int64_t threads) {
  llvm::LLVMContext& context = b_.getContext();
  llvm::NamedMDNode* annotations = module_.getOrInsertNamedMetadata("nvvm.annotations");
  auto add = [&](const char* name, int64_t value) {
    annotations->addOperand(
        llvm::MDNode::get(context, {llvm::ValueAsMetadata::get(entry), llvm::MDString::get(context, name),
                                    llvm::ValueAsMetadata::get(b_.getInt32(static_cast<uint32_t>(value)))}));
  };
  add("kernel", 1);
  add("reqntidx", threads);
  add("reqntidy", 1);
  add("reqntidz", 1);
}

void Launches::bind_index(const Expr& var, llvm::Intrinsic::ID special_register, int64_t limit) {
  llvm::CallInst* index = b_.CreateIntrinsic(special_register, {}, {});
  index->setMetadata(llvm::LLVMContext::MD_range,
                     llvm::MDBuilder(b_.getContext())
                         .createRange(llvm::APInt(32, 0), llvm::APInt(32, static_cast<uint64_t>(limit))));
  index->setName(var.as<VarNode>()->name);
  narrow_.bind_i32(var, index, {0, limit - 1});
}

}  // namespace gantry
