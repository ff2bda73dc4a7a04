// Text of loop nests and kernels.
#include <fmt/format.h>

#include "host/loops/stmt.h"

namespace gantry {
namespace {

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
  }
  return "for";
}

std::string describe(const Buffer& buffer) {
  return fmt::format("{}: {}[{}] align {}", buffer->name, name_of(buffer->dtype),
                     to_string(buffer->element_count), buffer->alignment);
}

void print(const Stmt& s, int indent, std::string& text);

void line(std::string& text, int indent, std::string_view content) {
  text.append(static_cast<size_t>(indent) * 2, ' ').append(content).append("\n");
}

void print_store(const StoreNode* node, int indent, std::string& text) {
  std::string predicate = node->predicate ? " if " + to_string(node->predicate) : "";
  line(text, indent,
       fmt::format("{}[{}] = {}{}", node->buffer->name, to_string(node->index), to_string(node->value),
                   predicate));
}

void print_if(const IfNode* node, int indent, std::string& text) {
  line(text, indent, fmt::format("if {} {{", to_string(node->condition)));
  print(node->then_case, indent + 1, text);
  if (node->else_case) {
    line(text, indent, "} else {");
    print(node->else_case, indent + 1, text);
  }
  line(text, indent, "}");
}

void print(const Stmt& s, int indent, std::string& text) {
  if (!s) return;
  switch (s->kind) {
    case StmtKind::kStore:
      print_store(s.as<StoreNode>(), indent, text);
      break;
    case StmtKind::kFor: {
      const auto* node = s.as<ForNode>();
      line(text, indent,
           fmt::format("{} {} in [{}, +{}) {{", loop_word(node->loop), to_string(node->var),
                       to_string(node->low), to_string(node->extent)));
      print(node->body, indent + 1, text);
      line(text, indent, "}");
      break;
    }
    case StmtKind::kIf:
      print_if(s.as<IfNode>(), indent, text);
      break;
    case StmtKind::kBlock:
      for (const Stmt& inner : s.as<BlockNode>()->statements) print(inner, indent, text);
      break;
    case StmtKind::kAllocate:
      line(text, indent, fmt::format("local {} {{", describe(s.as<AllocateNode>()->buffer)));
      print(s.as<AllocateNode>()->body, indent + 1, text);
      line(text, indent, "}");
      break;
    case StmtKind::kLet:
      line(text, indent,
           fmt::format("let {} = {} {{", to_string(s.as<LetStmtNode>()->var),
                       to_string(s.as<LetStmtNode>()->value)));
      print(s.as<LetStmtNode>()->body, indent + 1, text);
      line(text, indent, "}");
      break;
  }
}

}  // namespace

std::string to_string(const Stmt& stmt, int indent) {
  std::string text;
  print(stmt, indent, text);
  return text;
}

std::string to_string(const LoopKernel& kernel) {
  std::string text = fmt::format("kernel {}\n", kernel.name);
  for (size_t i = 0; i < kernel.arguments.size(); ++i) {
    bool input = static_cast<int>(i) < kernel.input_count;
    line(text, 1, fmt::format("{} {}", input ? "input" : "output", describe(kernel.arguments[i])));
  }
  for (const Buffer& buffer : kernel.scratch) line(text, 1, "scratch " + describe(buffer));
  for (const std::string& symbol : kernel.symbols) line(text, 1, "symbol " + symbol);
  return text + to_string(kernel.body, 1);
}

}  // namespace gantry
