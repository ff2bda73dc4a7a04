// Parser of the text form; its grammar is in docs/ir.md.
#include <algorithm>

#include "host/graph/function_parser.h"
#include "host/graph/graph.h"
#include "host/graph/parse.h"
#include "host/support/error.h"
#include "host/support/suggest.h"
#include "host/support/words.h"

namespace gantry {
namespace {

void parse_version(TextCursor& cursor) {
  const size_t place = cursor.place();
  const std::string version = cursor.name("a version");
  if (version == std::to_string(kTextVersion)) return;
  TextCursor::fail_at(place, fmt::format("this is version {} of the text form; this gantry reads version {}: "
                                         "use the one that wrote it, or a newer one",
                                         version, kTextVersion));
}

void parse_weights(ParseContext& context) {
  const size_t place = context.cursor.place();
  const std::string file = context.cursor.string();
  if (context.program == nullptr) return;
  try {
    context.program->weights->open(file);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUser) throw;
    TextCursor::fail_at(place, error.what());
  }
}

void parse_passes(ParseContext& context, Graph& graph) {
  TextCursor& cursor = context.cursor;
  do {
    const size_t place = cursor.place();
    const std::string name = cursor.name("a pass's name");
    if (context.passes != nullptr && std::ranges::find(*context.passes, name) == context.passes->end()) {
      TextCursor::fail_at(place, fmt::format("there is no pass '{}'{}", name, did_you_mean(name, *context.passes)));
    }
    graph.passes.push_back(name);
  } while (cursor.accept(","));
}

/// What stands where the function should.
[[noreturn]] void fail_without_function(TextCursor& cursor) {
  const size_t place = cursor.place();
  for (const char* word : {"gir", "model", "weights", "passes"}) {
    if (!cursor.accept(word)) continue;
    TextCursor::fail_at(
        place, fmt::format("'{}' stands here a second time, or too late: before fn there may be gir, "
                           "model, weights and passes, each once and in this order",
                           word));
  }
  cursor.fail_expected("the function ('fn @main(…) -> … { … }')");
}

Graph parse_all(ParseContext& context) {
  TextCursor& cursor = context.cursor;
  Graph graph;
  if (cursor.accept("gir")) parse_version(cursor);
  if (cursor.accept("model")) graph.model_name = cursor.string();
  if (cursor.accept("weights")) parse_weights(context);
  if (cursor.accept("passes")) parse_passes(context, graph);
  if (!cursor.accept("fn")) fail_without_function(cursor);
  graph.main = FunctionParser(context, 0).parse_after_keyword();
  if (!cursor.at_end()) cursor.fail_expected("nothing behind the function");
  return graph;
}

/// The text without the mark, wherever it stands; an empty one stands nowhere.
std::string without(std::string_view text, std::string_view mark) {
  std::string rest;
  for (;;) {
    const size_t found = mark.empty() ? std::string_view::npos : text.find(mark);
    rest += text.substr(0, found);
    if (found == std::string_view::npos) return rest;
    text.remove_prefix(found + mark.size());
  }
}

/// What is wrong at a place of the text, which both are shown without the marks of ProgramSource.
[[noreturn]] void fail_located(const ParseContext& context, std::string_view text, const std::string& name,
                               size_t place, std::string_view what) {
  const std::string_view mark = context.program == nullptr ? std::string_view() : context.program->mark;
  const size_t shown_place = without(text.substr(0, place), mark).size();
  throw Error(ErrorKind::kUser, located(without(text, mark), name, shown_place, without(what, mark)));
}

Graph parse(ParseContext& context, std::string_view text, const std::string& name) {
  // Whatever quotes one would end there; gantry writes \x00.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    fail_located(context, text, name, zero, "a byte of 0 stands here, which no text has");
  try {
    return parse_all(context);
  } catch (const TextError& error) {
    fail_located(context, text, name, error.place(), error.what());
  } catch (const Error& error) {
    // Of dimensions that are too large, met on the way.
    if (error.kind() != ErrorKind::kUser) throw;
    fail_located(context, text, name, context.cursor.place(), error.what());
  }
}

}  // namespace

Graph parse_graph(std::string_view text, const OpTable& ops,
                  const std::map<std::string, ConstantPtr>& constants) {
  ParseContext context{TextCursor(text), ops, &constants, nullptr, nullptr, {}, {}};
  return parse(context, text, "");
}

Graph parse_program(std::string_view text, const OpTable& ops, const std::vector<std::string>& passes,
                    const ProgramSource& source) {
  internal_check(source.weights != nullptr, "a program is read without a source of weights");
  text = without_byte_order_mark(text);
  ParseContext context{TextCursor(text), ops, nullptr, &source, &passes, {}, {}};
  return parse(context, text, source.name);
}

}  // namespace gantry
