// Products by a lane of a register.
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/PatternMatch.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Utils/LoopUtils.h>
#include <llvm/Transforms/Vectorize/LoadStoreVectorizer.h>

#include "host/targets/arm/codegen.h"

namespace gantry::arm {
namespace {

constexpr unsigned kRegisterBits = 128;
// Scalars that are broadcast in an iteration: fewer are no register tile.
constexpr int kLeastBroadcasts = 2;

/// Lanes of the register that the loop's broadcast scalars would fill; 0 where there is no such loop.
unsigned lanes_of_broadcasts(const llvm::Loop& loop, llvm::ScalarEvolution& evolution) {
  int broadcasts = 0;
  unsigned bits = 0;
  for (const llvm::BasicBlock* block : loop.blocks()) {
    for (const llvm::Instruction& instruction : *block) {
      const auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(&instruction);
      llvm::Value* scalar = nullptr;
      using namespace llvm::PatternMatch;  // NOLINT: matchers are written as expressions
      if (!shuffle || !shuffle->isZeroEltSplat() ||
          !match(shuffle->getOperand(0), m_InsertElt(m_Value(), m_Value(scalar), m_ZeroInt())))
        continue;
      auto* load = llvm::dyn_cast<llvm::LoadInst>(scalar);
      if (!load || !loop.contains(load)) continue;
      // Neighbours: the address grows by one element an iteration.
      const unsigned width = static_cast<unsigned>(load->getType()->getPrimitiveSizeInBits());
      const auto* address =
          llvm::dyn_cast<llvm::SCEVAddRecExpr>(evolution.getSCEV(load->getPointerOperand()));
      if (!address || address->getLoop() != &loop || width < 16) continue;
      const auto* step = llvm::dyn_cast<llvm::SCEVConstant>(address->getStepRecurrence(evolution));
      if (!step || step->getAPInt() != width / 8) continue;
      ++broadcasts;
      bits = width;
    }
  }
  return broadcasts >= kLeastBroadcasts ? kRegisterBits / bits : 0;
}

class UnrollBroadcasts : public llvm::PassInfoMixin<UnrollBroadcasts> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    auto& evolution = analyses.getResult<llvm::ScalarEvolutionAnalysis>(function);
    for (llvm::Loop* loop : analyses.getResult<llvm::LoopAnalysis>(function).getLoopsInPreorder()) {
      if (!loop->isInnermost()) continue;
      const unsigned lanes = lanes_of_broadcasts(*loop, evolution);
      const unsigned trips = evolution.getSmallConstantTripCount(loop);
      if (lanes < 2 || trips < 2 * lanes || trips % lanes != 0) continue;
      llvm::addStringMetadataToLoop(loop, "llvm.loop.unroll.count", lanes);
    }
    return llvm::PreservedAnalyses::all();
  }
};

}  // namespace

void add_passes(llvm::PassBuilder& builder) {
  builder.registerVectorizerStartEPCallback(
      [](llvm::FunctionPassManager& passes, llvm::OptimizationLevel) { passes.addPass(UnrollBroadcasts()); });
  builder.registerOptimizerLastEPCallback([](llvm::ModulePassManager& passes, llvm::OptimizationLevel) {
    llvm::FunctionPassManager functions;
    functions.addPass(llvm::LoadStoreVectorizerPass());
    functions.addPass(llvm::InstCombinePass());
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(functions)));
  });
}

}  // namespace gantry::arm
