// The nests of a program's root stages, and the launches that they are on a GPU.
#include "host/loops/nest_builder.h"
#include "host/support/error.h"

namespace gantry {
namespace {

class VarReplacer : public StmtMutator {
 public:
  explicit VarReplacer(const std::map<const VarNode*, Expr>& values) : values_(values) {}

 protected:
  Expr mutate_var(const VarNode* node, const Expr& self) override {
    auto it = values_.find(node);
    return it == values_.end() ? self : it->second;
  }

 private:
  const std::map<const VarNode*, Expr>& values_;
};

}  // namespace

Stmt replace_vars(const Stmt& s, const std::map<const VarNode*, Expr>& values) {
  return VarReplacer(values).mutate_stmt(s);
}

Stmt NestBuilder::with_threads(const StageState& root, Stmt body) const {
  return for_loop(root.thread_var, Expr(0), Expr(root.block_threads), LoopKind::kThread, std::move(body));
}

/// The nest of a root stage: block loops, one thread loop, everything else.
Stmt NestBuilder::build_launch(StageState& root) {
  Stmt nest = build_stage(root);
  if (last_block_leaf(root) < 0) {
    nest = for_loop(make_var(unique_("block")), Expr(0), Expr(1), LoopKind::kBlock, with_threads(root, nest));
  }
  return replace_vars(nest, program_.thread_values);
}

Stmt NestBuilder::build_extern(const StageState& state) {
  std::vector<Buffer> inputs, results;
  for (const Tensor& input : state.op().extern_inputs)
    inputs.push_back(program_.buffer_of(input.op().get(), input.result()));
  for (size_t i = 0; i < state.op().result_shapes.size(); ++i) {
    Buffer& buffer = program_.fixed_buffers[{state.stage, static_cast<int>(i)}];
    if (!buffer) {
      buffer = std::make_shared<BufferNode>(
          BufferNode{unique_(state.op().name), state.op().result_dtypes[i],
                     simplifier_.simplify(product(state.op().result_shapes[i])), BufferScope::kScratch, 64});
      program_.kernel.scratch.push_back(buffer);
    }
    results.push_back(buffer);
  }
  LoopBuilder builder(std::move(inputs), std::move(results),
                      [this](const std::string& name) { return unique_(name); });
  const auto& write_nest = program_.schedule.for_gpu ? state.op().extern_gpu_body : state.op().extern_body;
  internal_check(write_nest != nullptr, "{} of kernel {} has no nest for {}", state.op().name, program_.kernel.name,
                 program_.schedule.for_gpu ? "a GPU" : "a CPU");
  write_nest(builder);
  Stmt body = builder.take();
  for (Buffer& buffer : builder.take_scratch()) program_.kernel.scratch.push_back(buffer);
  return body;
}

Stmt NestBuilder::build() {
  std::vector<Stmt> roots;
  for (const auto& state : program_.states) {
    if (state->op().kind == OperationNode::Kind::kExtern) {
      roots.push_back(build_extern(*state));
    } else if (state->stage->attachment().is_root()) {
      roots.push_back(program_.schedule.for_gpu ? build_launch(*state) : build_stage(*state));
    }
  }
  return block(std::move(roots));
}

}  // namespace gantry
