// Double-buffered tiles: while a block computes on one tile, the next one is on its way.
//
//   fill part 0 with tile 0; barrier
//   for k:
//     if k + 1 < n: registers = tile k + 1 from global memory
//     compute on part k % 2
//     if k + 1 < n: part (k + 1) % 2 = registers
//     barrier
//
// What waits for global memory is the store to shared memory, behind the computation. One barrier an
// iteration is enough: it separates the stores of a tile from its readers, and its readers from the next
// stores to its part.
#include "host/loops/nest_builder.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

/// Divides the nest that fills a tile into one that loads to registers and one that stores from there.
class FillSplitter : public StmtMutator {
 public:
  FillSplitter(Buffer tile, bool loads) : tile_(std::move(tile)), loads_(loads) {}

  /// Elements that a thread fills; known after the nest was rewritten.
  int64_t elements() const { return elements_; }
  void set_registers(Buffer registers) { registers_ = std::move(registers); }

 protected:
  Stmt mutate_for(const ForNode* node, const Stmt&) override {
    auto extent = constant_of(node->extent);
    internal_check(extent && constant_of(node->low) == 0,
                   "{}: a loop of {} iterations fills a double-buffered tile; that must be constant",
                   tile_->name, to_string(node->extent));
    Expr outer = position_;
    position_ = position_ * Expr(*extent) + node->var;
    elements_ *= *extent;
    Stmt body = mutate_stmt(node->body);
    position_ = outer;
    LoopKind kind = node->loop == LoopKind::kSerial ? LoopKind::kUnrolled : node->loop;
    return for_loop(node->var, node->low, node->extent, kind, body);
  }
  Stmt mutate_store(const StoreNode* node, const Stmt&) override {
    internal_check(node->buffer == tile_, "{}: a double-buffered tile must be filled by single stores",
                   tile_->name);
    if (!registers_) return {};
    if (loads_) return store(registers_, position_, node->value, node->predicate);
    return store(tile_, node->index, load(registers_, position_), node->predicate);
  }

 private:
  Buffer tile_, registers_;
  bool loads_;
  Expr position_ = Expr(0);
  int64_t elements_ = 1;
};

}  // namespace

bool takes_turns(const StageState& producer) {
  return producer.root && producer.is_cooperative() && producer.stage->memory().double_buffered;
}

/// Where the part of the current iteration starts.
Expr NestBuilder::turn_offset(const StageState& producer) const {
  const StageState& consumer = *program_.by_stage.at(producer.stage->attachment().consumer());
  int leaf = consumer.leaf_index(producer.stage->attachment().axis().get());
  return mod(consumer.leaf_vars[static_cast<size_t>(leaf)], Expr(2)) * Expr(producer.copy_elements);
}

std::vector<StageState*> NestBuilder::tiles_in_turn(const StageState& state, int leaf) const {
  std::vector<StageState*> tiles;
  for (StageState* producer : state.attached) {
    if (takes_turns(*producer) && state.leaf_index(producer->stage->attachment().axis().get()) == leaf)
      tiles.push_back(producer);
  }
  return tiles;
}

Stmt NestBuilder::build_pipelined_loop(StageState& state, int leaf, LoopKind kind, Stmt body) {
  auto at = static_cast<size_t>(leaf);
  const Expr &var = state.leaf_vars[at], &extent = state.leaf_extents[at];
  internal_check(kind == LoopKind::kSerial || kind == LoopKind::kUnrolled,
                 "{}: double-buffered tiles are attached to {}, which is not a serial loop", state.op().name,
                 state.stage->leaves()[at]->name());
  std::vector<Stmt> first, loads, stores;
  std::vector<Buffer> registers;
  std::vector<StageState*> tiles = tiles_in_turn(state, leaf);
  for (StageState* tile : tiles) {
    internal_check(!tile->body.as<ReduceNode>() && tile->attached.empty(),
                   "{}: only an element-by-element stage can be double-buffered", tile->op().name);
    Stmt fill = build_stage(*tile);
    first.push_back(replace_vars(fill, {{var.as<VarNode>(), Expr(0)}}));
    Stmt next = replace_vars(fill, {{var.as<VarNode>(), var + Expr(1)}});
    FillSplitter count(tile->buffer, true), load_part(tile->buffer, true), store_part(tile->buffer, false);
    count.mutate_stmt(next);
    registers.push_back(
        std::make_shared<BufferNode>(BufferNode{unique_(tile->op().name + ".next"), tile->buffer->dtype,
                                                Expr(count.elements()), BufferScope::kLocal, 64}));
    load_part.set_registers(registers.back());
    store_part.set_registers(registers.back());
    loads.push_back(load_part.mutate_stmt(next));
    stores.push_back(store_part.mutate_stmt(next));
  }
  Stmt prologue = if_stmt(lt(Expr(0), extent), block(std::move(first)));
  first = {prologue, barrier()};
  Expr more = lt(var + Expr(1), extent);
  body = block(
      {if_stmt(more, block(std::move(loads))), body, if_stmt(more, block(std::move(stores))), barrier()});
  for (const Buffer& buffer : registers) body = allocate(buffer, body);
  first.push_back(for_loop(var, Expr(0), extent, kind, body));
  Stmt nest = block(std::move(first));
  for (StageState* tile : tiles) nest = allocate(tile->buffer, nest);
  return nest;
}

}  // namespace gantry
