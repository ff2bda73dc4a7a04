#include <algorithm>
#include <utility>

#include "host/loops/loop_limits.h"
#include "host/loops/stmt.h"
#include "host/loops/unique_names.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {

LoopBuilder::LoopBuilder(std::vector<Buffer> inputs, std::vector<Buffer> results, Namer unique_name)
    : unique_name_(std::move(unique_name)), inputs_(std::move(inputs)), results_(std::move(results)) {
  if (unique_name_) return;
  UniqueNames names;
  for (const auto* taken : {&inputs_, &results_})
    for (const Buffer& buffer : *taken) names(buffer->name);
  unique_name_ = names;
}

Buffer LoopBuilder::local(const std::string& name, DType dtype, Expr element_count) {
  auto buffer = std::make_shared<BufferNode>(
      BufferNode{unique_name(name), dtype, std::move(element_count), BufferScope::kLocal, 64});
  locals_.push_back(buffer);
  return buffer;
}

Buffer LoopBuilder::scratch(const std::string& name, DType dtype, Expr element_count) {
  auto buffer = std::make_shared<BufferNode>(
      BufferNode{unique_name(name), dtype, std::move(element_count), BufferScope::kScratch, 64});
  scratch_.push_back(buffer);
  return buffer;
}

Buffer LoopBuilder::shared(const std::string& name, DType dtype, Expr element_count) {
  auto buffer = std::make_shared<BufferNode>(
      BufferNode{unique_name(name), dtype, std::move(element_count), BufferScope::kShared, 16});
  locals_.push_back(buffer);
  return buffer;
}

Stmt LoopBuilder::collect(const std::function<void()>& body) {
  std::vector<Stmt> outer = std::exchange(statements_, {});
  body();
  Stmt collected = block(std::exchange(statements_, {}));
  statements_ = std::move(outer);
  return collected;
}

Stmt LoopBuilder::collect_with_locals(const std::function<void()>& body) {
  std::vector<Buffer> outer = std::exchange(locals_, {});
  Stmt inner = collect(body);
  for (auto it = locals_.rbegin(); it != locals_.rend(); ++it) inner = allocate(*it, inner);
  locals_ = std::move(outer);
  return inner;
}

void LoopBuilder::when(Expr condition, const std::function<void()>& body) {
  if (Stmt inner = collect(body)) emit(if_stmt(std::move(condition), inner));
}

void LoopBuilder::let(const std::string& name, Expr value, const std::function<void(Expr)>& body) {
  Expr var = make_var(name, value.type().dtype);
  if (Stmt inner = collect([&] { body(var); })) emit(gantry::let(var, std::move(value), inner));
}

void LoopBuilder::launch(std::vector<Expr> grid, int64_t threads, const LaunchBody& body) {
  const std::array<Expr, 3> blocks{make_var("block"), make_var("block_y"), make_var("block_z")};
  const Expr thread = make_var("thread");
  Stmt inner = collect_with_locals([&] { body(blocks, thread); });
  internal_check(grid.size() <= blocks.size(), "a grid of {} dimensions", grid.size());
  std::array<Expr, 3> extents{1, 1, 1};
  std::ranges::copy(grid, extents.begin());
  emit(gantry::launch(blocks, extents, thread, threads, inner));
}

void LoopBuilder::launch_flat(const Expr& count, const std::function<void(Expr)>& body) {
  constexpr int64_t kThreads = 128;
  launch({floordiv(count + (kThreads - 1), kThreads)}, kThreads, [&](const auto& block, const Expr& thread) {
    let("i", block[0] * kThreads + thread, [&](Expr i) { when(lt(i, count), [&] { body(i); }); });
  });
}

void LoopBuilder::loop(const std::string& name, Expr extent, const std::function<void(Expr)>& body,
                       LoopKind kind) {
  const std::string excess = excess_of(kind, constant_of(extent).value_or(0));
  internal_check(excess.empty(), "{}: the loop {} {}", results_.empty() ? "loops" : results_.front()->name,
                 name, excess);
  Expr var = make_var(name);
  Stmt inner =
      kind == LoopKind::kParallel ? collect_with_locals([&] { body(var); }) : collect([&] { body(var); });
  if (Stmt nest = for_loop(var, Expr(0), std::move(extent), kind, inner)) emit(nest);
}

Stmt LoopBuilder::take() {
  Stmt body = block(std::move(statements_));
  statements_.clear();
  for (auto it = locals_.rbegin(); it != locals_.rend(); ++it) body = allocate(*it, body);
  locals_.clear();
  return body;
}

}  // namespace gantry
