#include "host/onnx/malformed.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace gantry {
namespace {

/// Further lines of a text are indented as its first one is.
std::string text_of(const std::vector<std::string>& texts, std::string_view what) {
  if (texts.size() == 1) return texts.front();
  std::string list = fmt::format("{} {} are wrong:", texts.size(), what);
  for (const std::string& text : texts) {
    list += "\n  ";
    for (const char c : text) list += c == '\n' ? std::string("\n  ") : std::string(1, c);
  }
  return list;
}

/// What may stand behind a name in a message; an inner node's name goes on with a slash, a repeated one with
/// a number.
bool ends_a_name(std::string_view rest) {
  return rest.empty() || std::string_view(" ,;:()'/#\n").find(rest.front()) != std::string_view::npos;
}

}  // namespace

MalformedModel::MalformedModel(std::vector<std::string> texts, std::string_view what, bool broken)
    : Error(ErrorKind::kUser, text_of(texts, what)), texts_(std::move(texts)), broken_(broken) {}

bool is_broken(const Error& error) {
  const auto* several = dynamic_cast<const MalformedModel*>(&error);
  return several != nullptr ? several->broken() : dynamic_cast<const BrokenModel*>(&error) != nullptr;
}

void throw_retold(const Error& error, std::vector<std::string> texts) {
  if (dynamic_cast<const MalformedModel*>(&error) != nullptr)
    throw MalformedModel(std::move(texts), "nodes", is_broken(error));
  if (is_broken(error)) throw BrokenModel(texts.front());
  throw Error(error.kind(), texts.front());
}

std::vector<std::string> texts_of(const Error& error) {
  const auto* several = dynamic_cast<const MalformedModel*>(&error);
  return several != nullptr ? several->texts() : std::vector<std::string>{error.what()};
}

void Malformed::add(const Error& error) {
  broken_ = broken_ || is_broken(error);
  for (const std::string& text : texts_of(error)) {
    if (std::ranges::find(texts_, text) == texts_.end()) texts_.push_back(text);
  }
}

void Malformed::throw_any(std::string_view what) const {
  if (!texts_.empty()) throw MalformedModel(texts_, what, broken_);
}

void WrongParts::run(const char* what, const std::function<void()>& read) try {
  read();
} catch (const Error& error) {
  if (error.kind() != ErrorKind::kUser) throw;
  malformed_.add(error);
  what_ = what_.empty() || what_ == what ? what : "parts of the model";
}

bool names_node(const std::string& message, const std::string& node) {
  const std::string_view text = message;
  if (text.starts_with(node) && ends_a_name(text.substr(node.size()))) return true;
  const std::string named = "node " + node;
  for (size_t at = text.find(named); at != std::string_view::npos; at = text.find(named, at + 1)) {
    if (ends_a_name(text.substr(at + named.size()))) return true;
  }
  return false;
}

}  // namespace gantry
