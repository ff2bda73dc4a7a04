// A kernel that calls a custom one: it puts together what gantry/custom_op.h describes, on its stack and in
// constants.
#include <llvm/IR/IRBuilder.h>

#include <array>

#include "device_runtime/include/gantry/custom_op.h"
#include "host/codegen/compiled_module.h"
#include "host/codegen/custom_code.h"
#include "host/codegen/llvm_target.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using llvm::Constant;
using llvm::Value;

static_assert(static_cast<int>(DType::kF32) == GANTRY_CUSTOM_F32 &&
              static_cast<int>(DType::kI64) == GANTRY_CUSTOM_I64 &&
              static_cast<int>(DType::kBool) == GANTRY_CUSTOM_BOOL);

class CallEmitter {
 public:
  CallEmitter(llvm::Module& module, const NamedCustomCall& named)
      : module_(module), named_(named), call_(*named.call), b_(module.getContext()) {}

  void emit(const Target& target) {
    llvm::Type* pointer = b_.getPtrTy();
    auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {pointer, pointer, pointer}, false);
    auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, named_.name, module_);
    function->setVisibility(llvm::GlobalValue::ProtectedVisibility);
    host_ = function->getArg(0);
    buffers_ = function->getArg(1);
    dims_ = function->getArg(2);
    b_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", function));
    Value* call = fill_call();
    auto* kernel_type = llvm::FunctionType::get(b_.getInt32Ty(), {pointer}, false);
    auto* kernel = llvm::Function::Create(kernel_type, llvm::Function::ExternalLinkage,
                                          linked_name(*call_.code), module_);
    kernel->setVisibility(llvm::GlobalValue::HiddenVisibility);
    b_.CreateRet(b_.CreateCall(kernel, {call}));
    set_function_attributes(*function, target);
  }

 private:
  Value* stack(uint64_t bytes) {
    llvm::AllocaInst* memory = b_.CreateAlloca(llvm::ArrayType::get(b_.getInt8Ty(), bytes));
    memory->setAlignment(llvm::Align(8));
    return memory;
  }
  void store(Value* value, Value* base, uint64_t offset) {
    b_.CreateStore(value, b_.CreateConstInBoundsGEP1_64(b_.getInt8Ty(), base, offset));
  }
  Constant* constant(Constant* initializer, const char* name) {
    auto* variable = new llvm::GlobalVariable(module_, initializer->getType(), /*isConstant=*/true,
                                              llvm::GlobalValue::PrivateLinkage, initializer, name);
    variable->setAlignment(llvm::Align(64));
    return variable;
  }
  Constant* text(const std::string& value) {
    return constant(llvm::ConstantDataArray::getString(module_.getContext(), value), "text");
  }
  Constant* null() { return llvm::ConstantPointerNull::get(b_.getPtrTy()); }

  /// A dimension when the program runs: what the type has is a constant or one of the kernel's symbols.
  Value* size(const Dim& dim) {
    if (dim.is_constant()) return b_.getInt64(static_cast<uint64_t>(dim.value()));
    for (size_t i = 0; i < named_.symbols.size(); ++i) {
      if (dim == Dim::symbol(named_.symbols[i]))
        return b_.CreateLoad(b_.getInt64Ty(), b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), dims_, i));
    }
    internal_error("kernel {}: {} is none of its dimensions", named_.name, dim.str());
  }
  Value* buffer(int index) {
    return b_.CreateLoad(
        b_.getPtrTy(), b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), buffers_, static_cast<uint64_t>(index)));
  }

  Value* fill_tensor(const CustomCall::Tensor& tensor) {
    if (!tensor.present) return null();
    Value* shape = stack(std::max<uint64_t>(8, 8 * tensor.type.shape.size()));
    Value* count = b_.getInt64(1);
    for (size_t i = 0; i < tensor.type.shape.size(); ++i) {
      Value* extent = size(tensor.type.shape[i]);
      store(extent, shape, 8 * i);
      count = b_.CreateMul(count, extent);
    }
    Value* data =
        tensor.buffer >= 0
            ? buffer(tensor.buffer)
            : constant(llvm::ConstantDataArray::getString(module_.getContext(), tensor.immediate, false),
                       "data");
    Value* filled = stack(sizeof(GantryCustomTensor));
    store(b_.getInt32(sizeof(GantryCustomTensor)), filled, offsetof(GantryCustomTensor, struct_size));
    store(b_.getInt32(static_cast<uint32_t>(tensor.type.dtype)), filled, offsetof(GantryCustomTensor, type));
    store(b_.getInt32(static_cast<uint32_t>(tensor.type.rank())), filled, offsetof(GantryCustomTensor, rank));
    store(b_.getInt32(0), filled, offsetof(GantryCustomTensor, reserved));
    store(data, filled, offsetof(GantryCustomTensor, data));
    store(shape, filled, offsetof(GantryCustomTensor, shape));
    store(count, filled, offsetof(GantryCustomTensor, count));
    return filled;
  }

  Value* fill_list(const std::vector<CustomCall::Tensor>& tensors) {
    Value* list = stack(std::max<uint64_t>(8, 8 * tensors.size()));
    for (size_t i = 0; i < tensors.size(); ++i) store(fill_tensor(tensors[i]), list, 8 * i);
    return list;
  }

  /// The values' address as the member of their kind; the others are null.
  std::array<Constant*, 3> values_of(const CustomAttribute& attribute) {
    std::array<Constant*, 3> members = {null(), null(), null()};
    llvm::LLVMContext& context = module_.getContext();
    std::vector<uint64_t> words;
    if (const auto* integers = std::get_if<std::vector<int64_t>>(&attribute.values)) {
      words.assign(integers->begin(), integers->end());
      members[0] = constant(llvm::ConstantDataArray::get(context, words), "integers");
    } else if (const auto* numbers = std::get_if<std::vector<double>>(&attribute.values)) {
      members[1] = constant(llvm::ConstantDataArray::get(context, *numbers), "numbers");
    } else {
      std::vector<Constant*> texts;
      for (const std::string& value : std::get<std::vector<std::string>>(attribute.values))
        texts.push_back(text(value));
      members[2] = constant(
          llvm::ConstantArray::get(llvm::ArrayType::get(b_.getPtrTy(), texts.size()), texts), "strings");
    }
    return members;
  }

  Constant* attribute_constant(const CustomAttribute& attribute) {
    static_assert(sizeof(GantryCustomAttribute) == 40 && offsetof(GantryCustomAttribute, name) == 8 &&
                  offsetof(GantryCustomAttribute, integers) == 16 &&
                  offsetof(GantryCustomAttribute, numbers) == 24 &&
                  offsetof(GantryCustomAttribute, strings) == 32);
    const auto count = std::visit([](const auto& values) { return values.size(); }, attribute.values);
    const auto [integers, numbers, strings] = values_of(attribute);
    return constant(llvm::ConstantStruct::getAnon({b_.getInt32(sizeof(GantryCustomAttribute)),
                                                   b_.getInt32(static_cast<uint32_t>(count)),
                                                   text(attribute.name), integers, numbers, strings}),
                    "attribute");
  }

  Constant* attribute_list() {
    std::vector<Constant*> all;
    for (const CustomAttribute& attribute : call_.attributes) all.push_back(attribute_constant(attribute));
    return constant(llvm::ConstantArray::get(llvm::ArrayType::get(b_.getPtrTy(), all.size()), all),
                    "attributes");
  }

  Value* fill_call() {
    Value* inputs = fill_list(call_.inputs);
    Value* outputs = fill_list(call_.outputs);
    Value* filled = stack(sizeof(GantryCustomCall));
    const auto number = [&](uint64_t value, uint64_t offset) {
      store(b_.getInt32(static_cast<uint32_t>(value)), filled, offset);
    };
    number(sizeof(GantryCustomCall), offsetof(GantryCustomCall, struct_size));
    number(GANTRY_CUSTOM_OP_VERSION, offsetof(GantryCustomCall, version));
    number(call_.inputs.size(), offsetof(GantryCustomCall, input_count));
    number(call_.outputs.size(), offsetof(GantryCustomCall, output_count));
    number(call_.attributes.size(), offsetof(GantryCustomCall, attribute_count));
    number(0, offsetof(GantryCustomCall, reserved));
    store(inputs, filled, offsetof(GantryCustomCall, inputs));
    store(outputs, filled, offsetof(GantryCustomCall, outputs));
    store(attribute_list(), filled, offsetof(GantryCustomCall, attributes));
    store(call_.scratch >= 0 ? buffer(call_.scratch) : null(), filled, offsetof(GantryCustomCall, scratch));
    store(size(call_.scratch_bytes), filled, offsetof(GantryCustomCall, scratch_bytes));
    store(host_, filled, offsetof(GantryCustomCall, host));
    return filled;
  }

  llvm::Module& module_;
  const NamedCustomCall& named_;
  const CustomCall& call_;
  llvm::IRBuilder<> b_;
  Value *host_ = nullptr, *buffers_ = nullptr, *dims_ = nullptr;
};

}  // namespace

std::string linked_name(const CustomKernel& code, const std::string& function) {
  constexpr size_t kDigits = 16;
  return "gantry_custom_" + code.digest.substr(0, kDigits) + "_" + function;
}

std::string linked_name(const CustomKernel& code) {
  return linked_name(code, code.function);
}

std::string custom_call_object(const NamedCustomCall& call, const Target& target) {
  CompiledModule compiled;
  start_module(call.name, target, compiled);
  CallEmitter(*compiled.module, call).emit(target);
  finish_module(compiled, target);
  return generate_file(compiled, llvm::CodeGenFileType::ObjectFile, call.name);
}

}  // namespace gantry
