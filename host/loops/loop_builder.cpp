#include "host/loops/stmt.h"
#include "host/support/error.h"

namespace gantry {

Buffer LoopBuilder::local(std::string name, DType dtype, Expr element_count) {
  auto buffer = std::make_shared<BufferNode>(
      BufferNode{std::move(name), dtype, std::move(element_count), BufferScope::kLocal, 64});
  locals_.push_back(buffer);
  return buffer;
}

Buffer LoopBuilder::scratch(std::string name, DType dtype, Expr element_count) {
  auto buffer = std::make_shared<BufferNode>(
      BufferNode{std::move(name), dtype, std::move(element_count), BufferScope::kScratch, 64});
  scratch_.push_back(buffer);
  return buffer;
}

void LoopBuilder::loop(const std::string& name, Expr extent, const std::function<void(Expr)>& body,
                       LoopKind kind) {
  std::vector<Stmt> outer = std::move(statements_);
  statements_.clear();
  Expr var = make_var(name);
  body(var);
  Stmt nest = for_loop(var, Expr(0), std::move(extent), kind, block(std::move(statements_)));
  statements_ = std::move(outer);
  if (nest) statements_.push_back(std::move(nest));
}

Stmt LoopBuilder::take() {
  Stmt body = block(std::move(statements_));
  statements_.clear();
  for (auto it = locals_.rbegin(); it != locals_.rend(); ++it) body = allocate(*it, body);
  locals_.clear();
  return body;
}

}  // namespace gantry
