// Functions that the objects of custom kernels may call: an image imports nothing, and compilers call some by
// themselves.
#include <llvm/IR/IRBuilder.h>

#include <algorithm>
#include <functional>
#include <map>

#include "host/codegen/compiled_module.h"
#include "host/codegen/cpu_codegen.h"
#include "host/codegen/custom_code.h"
#include "host/codegen/llvm_target.h"
#include "host/codegen/math.h"
#include "host/support/error.h"

namespace gantry {
namespace {

using llvm::Value;

/// Of memory that is copied or set at once.
constexpr uint64_t kWideBytes = 32;

const std::map<std::string, MathFn>& functions_of_one() {
  static const std::map<std::string, MathFn> all = {
      {"exp", MathFn::kExp},        {"log", MathFn::kLog},     {"sqrt", MathFn::kSqrt},
      {"tanh", MathFn::kTanh},      {"erf", MathFn::kErf},     {"sin", MathFn::kSin},
      {"cos", MathFn::kCos},        {"tan", MathFn::kTan},     {"asin", MathFn::kAsin},
      {"acos", MathFn::kAcos},      {"atan", MathFn::kAtan},   {"sinh", MathFn::kSinh},
      {"cosh", MathFn::kCosh},      {"asinh", MathFn::kAsinh}, {"acosh", MathFn::kAcosh},
      {"atanh", MathFn::kAtanh},    {"floor", MathFn::kFloor}, {"ceil", MathFn::kCeil},
      {"trunc", MathFn::kTrunc},    {"rint", MathFn::kRound},  {"fabs", MathFn::kAbs},
      {"nearbyint", MathFn::kRound}};
  return all;
}

class ProvidedEmitter {
 public:
  ProvidedEmitter(llvm::Module& module, const Target& target)
      : module_(module),
        target_(target),
        b_(module.getContext()),
        math_(b_, instructions_of(target).multiply_add) {}

  void emit(const std::string& name) {
    if (name == "memcpy") return emit_memcpy(name);
    if (name == "memmove") return emit_memmove(name);
    if (name == "memset") return emit_memset(name);
    if (name == "memcmp" || name == "bcmp") return emit_memcmp(name);
    const bool narrow = name.back() == 'f' && name != "erf";
    emit_math(name, narrow ? name.substr(0, name.size() - 1) : name,
              narrow ? b_.getFloatTy() : b_.getDoubleTy());
  }

 private:
  /// A function that only this image sees; the place is its beginning.
  llvm::Function* begin(const std::string& name, llvm::Type* result,
                        const std::vector<llvm::Type*>& parameters) {
    auto* type = llvm::FunctionType::get(result, parameters, false);
    function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
    function_->setVisibility(llvm::GlobalValue::HiddenVisibility);
    b_.SetInsertPoint(block("entry"));
    return function_;
  }
  void end() { set_function_attributes(*function_, target_); }
  llvm::BasicBlock* block(const char* name) {
    return llvm::BasicBlock::Create(module_.getContext(), name, function_);
  }

  /// i = start; while (condition(i)) i = step(i); gives the last i.
  Value* loop(Value* start, const std::function<Value*(Value*)>& condition,
              const std::function<Value*(Value*)>& step) {
    llvm::BasicBlock *before = b_.GetInsertBlock(), *head = block("head"), *body = block("body"),
                     *after = block("after");
    b_.CreateBr(head);
    b_.SetInsertPoint(head);
    llvm::PHINode* i = b_.CreatePHI(start->getType(), 2);
    i->addIncoming(start, before);
    b_.CreateCondBr(condition(i), body, after);
    b_.SetInsertPoint(body);
    Value* next = step(i);
    i->addIncoming(next, b_.GetInsertBlock());
    b_.CreateBr(head);
    b_.SetInsertPoint(after);
    return i;
  }

  Value* number(uint64_t value) { return b_.getInt64(value); }
  Value* at(Value* base, Value* offset) { return b_.CreateGEP(b_.getInt8Ty(), base, offset); }
  void copy(Value* target, Value* source, Value* i, uint64_t bytes) {
    llvm::Type* type = llvm::FixedVectorType::get(b_.getInt8Ty(), static_cast<unsigned>(bytes));
    Value* value = b_.CreateAlignedLoad(type, at(source, i), llvm::Align(1));
    b_.CreateAlignedStore(value, at(target, i), llvm::Align(1));
  }

  void copy_up(Value* target, Value* source, Value* size) {
    Value* i = number(0);
    for (const uint64_t bytes : {kWideBytes, uint64_t{1}}) {
      i = loop(
          i, [&](Value* at) { return b_.CreateICmpULE(b_.CreateAdd(at, number(bytes)), size); },
          [&](Value* at) {
            copy(target, source, at, bytes);
            return b_.CreateAdd(at, number(bytes));
          });
    }
  }
  void copy_down(Value* target, Value* source, Value* size) {
    Value* i = size;
    for (const uint64_t bytes : {kWideBytes, uint64_t{1}}) {
      i = loop(
          i, [&](Value* end) { return b_.CreateICmpUGE(end, number(bytes)); },
          [&](Value* end) {
            Value* begin = b_.CreateSub(end, number(bytes));
            copy(target, source, begin, bytes);
            return begin;
          });
    }
  }

  void emit_memcpy(const std::string& name) {
    llvm::Function* f = begin(name, b_.getPtrTy(), {b_.getPtrTy(), b_.getPtrTy(), b_.getInt64Ty()});
    copy_up(f->getArg(0), f->getArg(1), f->getArg(2));
    b_.CreateRet(f->getArg(0));
    end();
  }
  void emit_memmove(const std::string& name) {
    llvm::Function* f = begin(name, b_.getPtrTy(), {b_.getPtrTy(), b_.getPtrTy(), b_.getInt64Ty()});
    llvm::BasicBlock *up = block("up"), *down = block("down");
    // Upwards unless the target begins inside of the source: the difference wraps where it lies in front.
    Value* ahead = b_.CreateSub(b_.CreatePtrToInt(f->getArg(0), b_.getInt64Ty()),
                                b_.CreatePtrToInt(f->getArg(1), b_.getInt64Ty()));
    b_.CreateCondBr(b_.CreateICmpUGE(ahead, f->getArg(2)), up, down);
    b_.SetInsertPoint(up);
    copy_up(f->getArg(0), f->getArg(1), f->getArg(2));
    b_.CreateRet(f->getArg(0));
    b_.SetInsertPoint(down);
    copy_down(f->getArg(0), f->getArg(1), f->getArg(2));
    b_.CreateRet(f->getArg(0));
    end();
  }
  void emit_memset(const std::string& name) {
    llvm::Function* f = begin(name, b_.getPtrTy(), {b_.getPtrTy(), b_.getInt32Ty(), b_.getInt64Ty()});
    Value* byte = b_.CreateTrunc(f->getArg(1), b_.getInt8Ty());
    Value* i = number(0);
    for (const uint64_t bytes : {kWideBytes, uint64_t{1}}) {
      Value* value = b_.CreateVectorSplat(static_cast<unsigned>(bytes), byte);
      i = loop(
          i, [&](Value* at) { return b_.CreateICmpULE(b_.CreateAdd(at, number(bytes)), f->getArg(2)); },
          [&](Value* place) {
            b_.CreateAlignedStore(value, at(f->getArg(0), place), llvm::Align(1));
            return b_.CreateAdd(place, number(bytes));
          });
    }
    b_.CreateRet(f->getArg(0));
    end();
  }
  void emit_memcmp(const std::string& name) {
    llvm::Function* f = begin(name, b_.getInt32Ty(), {b_.getPtrTy(), b_.getPtrTy(), b_.getInt64Ty()});
    const auto byte = [&](unsigned argument, Value* i) {
      return b_.CreateZExt(b_.CreateLoad(b_.getInt8Ty(), at(f->getArg(argument), i)), b_.getInt32Ty());
    };
    llvm::BasicBlock* differ = block("differ");
    Value* index = nullptr;
    loop(
        number(0), [&](Value* i) { return b_.CreateICmpULT(i, f->getArg(2)); },
        [&](Value* i) {
          llvm::BasicBlock* equal = block("equal");
          index = i;
          b_.CreateCondBr(b_.CreateICmpEQ(byte(0, i), byte(1, i)), equal, differ);
          b_.SetInsertPoint(equal);
          return b_.CreateAdd(i, number(1));
        });
    b_.CreateRet(b_.getInt32(0));
    b_.SetInsertPoint(differ);
    b_.CreateRet(b_.CreateSub(byte(0, index), byte(1, index)));
    end();
  }

  void emit_math(const std::string& name, const std::string& wide, llvm::Type* type) {
    if (wide == "pow" || wide == "fmod") {
      llvm::Function* f = begin(name, type, {type, type});
      b_.CreateRet(wide == "pow" ? math_.pow(f->getArg(0), f->getArg(1))
                                 : math_.fmod(f->getArg(0), f->getArg(1)));
      return end();
    }
    llvm::Function* f = begin(name, type, {type});
    b_.CreateRet(math_.unary(functions_of_one().at(wide), f->getArg(0)));
    end();
  }

  llvm::Module& module_;
  const Target& target_;
  llvm::IRBuilder<> b_;
  MathBuilder math_;
  llvm::Function* function_ = nullptr;
};

}  // namespace

std::vector<std::string> provided_functions() {
  std::vector<std::string> names = {"memcpy", "memmove", "memset", "memcmp", "bcmp",
                                    "pow",    "powf",    "fmod",   "fmodf"};
  for (const auto& [name, function] : functions_of_one()) {
    names.push_back(name);
    names.push_back(name + "f");
  }
  std::ranges::sort(names);
  return names;
}

std::string provided_object(const std::vector<std::string>& functions, const Target& target) {
  CompiledModule compiled;
  start_module("provided", target, compiled);
  ProvidedEmitter emitter(*compiled.module, target);
  for (const std::string& function : functions) emitter.emit(function);
  finish_module(compiled, target);
  return generate_file(compiled, llvm::CodeGenFileType::ObjectFile, "the functions that custom kernels call");
}

}  // namespace gantry
