#include "host/passes/work_digest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device_runtime/src/sha256.h"
#include "host/graph/dim_renamer.h"
#include "host/ops/op.h"

namespace gantry {
namespace {

// What is written differs where this does: change it with what the text says.
constexpr const char* kVersion = "work 1\n";
constexpr const char* kNetworkVersion = "network 1";

std::string hexadecimal(const ConstantData& constant) {
  const std::span<const std::byte> bytes(constant.bytes, constant.size);
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

/// Values are numbered in the order in which the text meets them.
class WorkText {
 public:
  explicit WorkText(std::string head) : text_(std::move(head)) {}

  void add(const Node& node) {
    const std::vector<std::string> inputs = references(node.inputs);
    const std::string attrs = to_string(*renamer_.rename(*node.attrs));
    const std::vector<std::string> results = references(node.results);
    text_ += fmt::format("{} = {}({}) {{{}}}\n", fmt::join(results, ", "), node.op->name,
                         fmt::join(inputs, ", "), attrs);
  }
  /// Functions that its nodes call have been optimised by now, and are computed as they are whatever is
  /// decided here.
  void add(const Function& function) {
    text_ += fmt::format("of ({})\n", fmt::join(references(function.parameters), ", "));
    for (const Node* node : function.nodes()) {
      add(*node);
      if (node->decision) text_ += to_string(*node->decision) + "\n";
      if (!node->bodies.empty()) text_ += fmt::format("calls {}\n", node->bodies.size());
    }
    text_ += fmt::format("return {}\n", fmt::join(references(function.outputs), ", "));
  }
  const std::string& text() const { return text_; }

 private:
  std::vector<std::string> references(const std::vector<Value*>& values) {
    std::vector<std::string> said;
    for (const Value* value : values) said.push_back(value == nullptr ? "none" : reference(*value));
    return said;
  }
  /// With what is to be said of the value where it is met first.
  std::string reference(const Value& value) {
    const auto [entry, is_new] = numbers_.try_emplace(&value, numbers_.size());
    std::string said = fmt::format("%{}", entry->second);
    if (!is_new) return said;
    said += ": " + renamer_.rename(value.type).str();
    if (!value.is_constant()) return said;
    return said + (is_immediate(value) ? " = " + hexadecimal(*value.constant) : " constant");
  }

  DimRenamer renamer_;
  std::map<const Value*, size_t> numbers_;
  std::string text_;
};

std::string digest_of(const std::string& text) {
  return runtime::to_hex(runtime::sha256(std::as_bytes(std::span(text))));
}

/// The node that a kernel of the node takes in behind it; null if there is none.
const Node* follower(const Function& function, const Node& node) {
  if (node.results.size() != 1) return nullptr;
  const Node* user = function.only_user(node.results[0]);
  if (user == nullptr || user->results.size() != 1) return nullptr;
  const FusionClass fusion = op_def(*user).fusion;
  const bool pointwise = fusion == FusionClass::kElementwise || fusion == FusionClass::kBroadcast;
  return pointwise && user->results[0]->type.shape == node.results[0]->type.shape ? user : nullptr;
}

}  // namespace

std::vector<const Node*> work_nodes(const Function& function, const Node& node) {
  std::vector<const Node*> nodes;
  for (const Node* step = &node; step != nullptr; step = follower(function, *step)) nodes.push_back(step);
  return nodes;
}

std::string work_text(const Function& function, const Node& node) {
  WorkText text(kVersion);
  for (const Node* step : work_nodes(function, node)) text.add(*step);
  return text.text();
}

std::string work_digest(const Function& function, const Node& node) {
  return digest_of(work_text(function, node));
}

std::string network_text(const Function& function, NetworkQuestion question) {
  WorkText text(fmt::format("{}, {}\n", kNetworkVersion, name_of(question)));
  text.add(function);
  return text.text();
}

std::string network_digest(const Function& function, NetworkQuestion question) {
  return digest_of(network_text(function, question));
}

}  // namespace gantry
