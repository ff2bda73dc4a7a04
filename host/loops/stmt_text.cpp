// Text of loop nests and kernels.
#include <fmt/format.h>

#include <array>
#include <set>
#include <unordered_map>

#include "host/loops/stmt.h"

namespace gantry {
namespace {

std::string_view scope_text(BufferScope scope) {
  return scope == BufferScope::kShared ? "shared" : scope == BufferScope::kThread ? "thread" : "local";
}

std::string describe(const Buffer& buffer) {
  return to_string(*buffer);
}

/// What a statement writes to itself, without those in it; null for none.
const BufferNode* written_by(const Stmt& s) {
  switch (s->kind) {
    case StmtKind::kStore:
      return s.as<StoreNode>()->buffer.get();
    case StmtKind::kShuffle:
      return s.as<ShuffleNode>()->target.get();
    case StmtKind::kMma:
      return s.as<MmaNode>()->d.get();
    case StmtKind::kTile:
      return s.as<TileNode>()->op == TileNode::Op::kStore ? s.as<TileNode>()->buffer.get() : nullptr;
    default:
      return nullptr;
  }
}

/// The statements of a statement.
std::vector<Stmt> parts_of(const Stmt& s) {
  switch (s->kind) {
    case StmtKind::kFor:
      return {s.as<ForNode>()->body};
    case StmtKind::kIf:
      return {s.as<IfNode>()->then_case, s.as<IfNode>()->else_case};
    case StmtKind::kBlock:
      return s.as<BlockNode>()->statements;
    case StmtKind::kAllocate:
      return {s.as<AllocateNode>()->body};
    case StmtKind::kLet:
      return {s.as<LetStmtNode>()->body};
    case StmtKind::kLaunch:
      return {s.as<LaunchNode>()->body};
    case StmtKind::kOnce:
      return {s.as<OnceNode>()->body};
    default:
      return {};
  }
}

/// Which statements begin the work of another op or node than those before them.
class Comments {
 public:
  Comments() = default;
  explicit Comments(const LoopKernel& kernel) : kernel_(&kernel) {
    collect(kernel.body);
    place(kernel.body);
  }
  /// Empty for none.
  std::string_view before(const Stmt& s) const {
    const auto found = comments_.find(s.get());
    return found == comments_.end() ? std::string_view() : found->second;
  }

 private:
  using Sources = std::set<std::string_view>;

  const Sources& collect(const Stmt& s) {
    Sources& sources = sources_[s.get()];
    if (!s || !sources.empty()) return sources;  // a statement may stand in several places
    if (const BufferNode* buffer = written_by(s)) {
      const auto found = kernel_->sources.find(buffer->name);
      if (found != kernel_->sources.end()) sources.insert(found->second);
    }
    for (const Stmt& part : parts_of(s)) {
      const Sources& inner = collect(part);
      sources_[s.get()].insert(inner.begin(), inner.end());
    }
    return sources_[s.get()];
  }

  void place(const Stmt& s) {
    if (!s) return;
    const Sources& sources = sources_[s.get()];
    if (sources.empty()) return;
    if (sources.size() == 1 && s->kind != StmtKind::kBlock) {
      const std::string_view source = *sources.begin();
      if (source != last_) comments_[s.get()] = source;
      last_ = source;
      return;
    }
    for (const Stmt& part : parts_of(s)) place(part);
  }

  const LoopKernel* kernel_ = nullptr;
  std::unordered_map<const StmtNode*, Sources> sources_;
  std::unordered_map<const StmtNode*, std::string_view> comments_;
  std::string_view last_;
};

void print(const Stmt& s, int indent, std::string& text, const Comments& comments);

void line(std::string& text, int indent, std::string_view content) {
  text.append(static_cast<size_t>(indent) * 2, ' ').append(content).append("\n");
}

void print_store(const StoreNode* node, int indent, std::string& text) {
  std::string predicate = node->predicate ? " if " + to_string(node->predicate) : "";
  line(text, indent,
       fmt::format("{}[{}] = {}{}", node->buffer->name, to_string(node->index), to_string(node->value),
                   predicate));
}

void print_if(const IfNode* node, int indent, std::string& text, const Comments& comments) {
  line(text, indent, fmt::format("if {} {{", to_string(node->condition)));
  print(node->then_case, indent + 1, text, comments);
  if (node->else_case) {
    line(text, indent, "} else {");
    print(node->else_case, indent + 1, text, comments);
  }
  line(text, indent, "}");
}

std::string mma_text(const MmaNode& node) {
  auto fragment = [](const Buffer& buffer, const Expr& index) {
    return fmt::format("{}[{}]", buffer->name, to_string(index));
  };
  return fmt::format("mma.{} {} += {} * {}", geometry_of(node.shape).name, fragment(node.d, node.d_index),
                     fragment(node.a, node.a_index), fragment(node.b, node.b_index));
}

std::string tile_text(const TileNode& node) {
  auto rows = [&] {
    return fmt::format("{}[{}], rows {} apart", node.buffer->name, to_string(node.index),
                       to_string(node.stride));
  };
  switch (node.op) {
    case TileNode::Op::kConfigure:
      if (!geometry_of(node.unit).fewer_rows) return fmt::format("tiles.configure {}", name_of(node.unit));
      return fmt::format("tiles.configure {} rows before tile{}", node.rows, node.b_begin);
    case TileNode::Op::kRelease:
      return "tiles.release";
    case TileNode::Op::kZero:
      return fmt::format("tile{} = 0", node.tile);
    case TileNode::Op::kLoad:
      return fmt::format("tile{} = {}", node.tile, rows());
    case TileNode::Op::kStore:
      return fmt::format("{} = tile{}", rows(), node.tile);
    case TileNode::Op::kDot:
      return fmt::format("tile{} += tile{} * tile{}", node.tile, node.a, node.b);
  }
  return "?";
}

std::string launch_head(const LaunchNode& node) {
  std::string text = "launch";
  for (size_t i = 0; i < 3; ++i)
    text += fmt::format(" {} < {},", to_string(node.block_vars[i]), to_string(node.grid[i]));
  return text + fmt::format(" {} < {} threads {{", to_string(node.thread_var), node.threads);
}

void print(const Stmt& s, int indent, std::string& text, const Comments& comments) {
  if (!s) return;
  if (const std::string_view comment = comments.before(s); !comment.empty())
    line(text, indent, fmt::format("// {}", comment));
  switch (s->kind) {
    case StmtKind::kStore:
      print_store(s.as<StoreNode>(), indent, text);
      break;
    case StmtKind::kFor: {
      const auto* node = s.as<ForNode>();
      line(text, indent,
           fmt::format("{} {} in [{}, +{}){} {{", loop_word(node->loop), to_string(node->var),
                       to_string(node->low), to_string(node->extent),
                       node->rounds == 1 ? "" : fmt::format(" in {} rounds", node->rounds)));
      print(node->body, indent + 1, text, comments);
      line(text, indent, "}");
      break;
    }
    case StmtKind::kIf:
      print_if(s.as<IfNode>(), indent, text, comments);
      break;
    case StmtKind::kBlock:
      for (const Stmt& inner : s.as<BlockNode>()->statements) print(inner, indent, text, comments);
      break;
    case StmtKind::kAllocate:
      line(text, indent,
           fmt::format("{} {} {{", scope_text(s.as<AllocateNode>()->buffer->scope),
                       describe(s.as<AllocateNode>()->buffer)));
      print(s.as<AllocateNode>()->body, indent + 1, text, comments);
      line(text, indent, "}");
      break;
    case StmtKind::kLet:
      line(text, indent,
           fmt::format("let {} = {} {{", to_string(s.as<LetStmtNode>()->var),
                       to_string(s.as<LetStmtNode>()->value)));
      print(s.as<LetStmtNode>()->body, indent + 1, text, comments);
      line(text, indent, "}");
      break;
    case StmtKind::kLaunch:
      line(text, indent, launch_head(*s.as<LaunchNode>()));
      print(s.as<LaunchNode>()->body, indent + 1, text, comments);
      line(text, indent, "}");
      break;
    case StmtKind::kBarrier:
      line(text, indent, "barrier");
      break;
    case StmtKind::kShuffle: {
      const auto* node = s.as<ShuffleNode>();
      line(text, indent,
           fmt::format("{}[{}] = lane ^ {}: {}", node->target->name, to_string(node->index), node->lane_mask,
                       to_string(node->value)));
      break;
    }
    case StmtKind::kPrefetch: {
      const auto* node = s.as<PrefetchNode>();
      constexpr std::array<const char*, 3> kHints{"prefetch", "prefetch1", "prefetchw"};
      line(text, indent,
           fmt::format("{} {}[{}]", kHints[static_cast<size_t>(node->fetch)], node->buffer->name,
                       to_string(node->index)));
      break;
    }
    case StmtKind::kTranspose: {
      const auto* node = s.as<TransposeNode>();
      line(text, indent,
           fmt::format("{0} = transpose {1}[{2} + {4} rows of {4}, {3} apart]", node->rows->name,
                       node->source->name, to_string(node->index), to_string(node->stride), node->side));
      break;
    }
    case StmtKind::kOnce:
      line(text, indent, "once a thread {");
      print(s.as<OnceNode>()->body, indent + 1, text, comments);
      line(text, indent, "}");
      break;
    case StmtKind::kMma:
      line(text, indent, mma_text(*s.as<MmaNode>()));
      break;
    case StmtKind::kTile:
      line(text, indent, tile_text(*s.as<TileNode>()));
      break;
  }
}

}  // namespace

std::string_view loop_word(LoopKind kind) {
  switch (kind) {
    case LoopKind::kSerial:
      return "for";
    case LoopKind::kParallel:
      return "parallel for";
    case LoopKind::kVectorized:
      return "vectorized for";
    case LoopKind::kUnrolled:
      return "unrolled for";
    case LoopKind::kBlock:
      return "block for";
    case LoopKind::kThread:
      return "thread for";
    case LoopKind::kEmulatedBlock:
      return "emulated block for";
    case LoopKind::kEmulatedThread:
      return "emulated thread for";
  }
  return "for";
}

std::string to_string(const BufferNode& buffer) {
  return fmt::format("{}: {}[{}] align {}", buffer.name, name_of(buffer.dtype), to_string(buffer.element_count),
                     buffer.alignment);
}

std::string to_string(const Stmt& stmt, int indent) {
  std::string text;
  print(stmt, indent, text, {});
  return text;
}

namespace {

std::string head_of(const LoopKernel& kernel) {
  std::string text = fmt::format("kernel {}\n", kernel.name);
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    bool input = static_cast<int>(i) < kernel.input_count;
    line(text, 1, fmt::format("{} {}", input ? "input" : "output", describe(kernel.arguments[i])));
  }
  for (const Buffer& buffer : kernel.scratch) line(text, 1, "scratch " + describe(buffer));
  for (const std::string& symbol : kernel.symbols) line(text, 1, "symbol " + symbol);
  return text;
}

}  // namespace

std::string to_string(const LoopKernel& kernel) {
  return head_of(kernel) + kernel.stages + to_string(kernel.body, 1);
}

std::string to_annotated_string(const LoopKernel& kernel) {
  std::string text = head_of(kernel) + kernel.stages;
  print(kernel.body, 1, text, Comments(kernel));
  return text;
}

}  // namespace gantry
