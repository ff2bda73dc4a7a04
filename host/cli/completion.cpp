// Candidates for the word at the cursor, from the commands' own descriptions of what they take.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "host/cli/boards_file.h"
#include "host/cli/commands.h"
#include "host/cli/help.h"
#include "host/codegen/find_target.h"
#include "host/driver/compile.h"
#include "host/machine/target.h"
#include "host/support/error.h"
#include "host/zoo/zoo.h"

namespace gantry::cli {
namespace {

struct Candidate {
  std::string text, description;
};
/// What may stand at the cursor.
struct Candidates {
  std::vector<Candidate> words;
  bool files = false;
  std::vector<std::string> extensions;  ///< of those files; none: any
};

Candidates words_of(const std::vector<std::string>& names) {
  Candidates result;
  for (const std::string& name : names) result.words.push_back({name, ""});
  return result;
}

Candidates files_with(std::vector<std::string> extensions) {
  return {{}, true, std::move(extensions)};
}

Candidates boards() {
  Candidates result;
  try {
    const BoardsFile file = BoardsFile::read(boards_path());
    for (const auto& [name, entry] : file.boards()) result.words.push_back({name, entry.address});
  } catch (const Error&) {
    // A file that cannot be read names no boards; the command itself says why.
  }
  return result;
}

Candidates targets() {
  Candidates result;
  result.words.push_back({"native", "this machine"});
  for (const Target& target : known_targets()) result.words.push_back({target.name, target.description});
  return result;
}

Candidates networks() {
  Candidates result;
  for (const ZooNetwork& network : zoo_networks()) {
    result.words.push_back({network.name, network.description});
  }
  return result;
}

Candidates passes() {
  std::vector<std::string> names = {"import"};
  for (const std::string& pass : pass_names(3)) names.push_back(pass);
  return words_of(names);
}

/// "cpu|cuda" and "0..3" list what may stand there.
std::vector<std::string> fixed_choices(const std::string& type) {
  if (type.size() == 4 && type.substr(1, 2) == ".." && std::isdigit(type[0]) && std::isdigit(type[3])) {
    std::vector<std::string> numbers;
    for (char digit = type[0]; digit <= type[3]; ++digit) numbers.emplace_back(1, digit);
    return numbers;
  }
  const bool plain = std::all_of(type.begin(), type.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-' || c == '|';
  });
  if (!plain || std::islower(static_cast<unsigned char>(type[0])) == 0) return {};
  if (type.find('|') == std::string::npos) return {};
  return CLI::detail::split(type, '|');
}

/// By what an option's help says that it takes.
Candidates values_of(const std::string& type) {
  if (const auto choices = fixed_choices(type); !choices.empty()) return words_of(choices);
  if (type == "BOARD") return boards();
  if (type == "TARGET") return targets();
  if (type.starts_with("PASS")) return passes();
  for (const char* extension : {"npy", "onnx", "gir", "gmod", "json", "jsonl"}) {
    if (type.ends_with(std::string(".") + extension)) return files_with({extension});
  }
  if (type == "PATH" || type == "RECORDS" || type.find("FILE") != std::string::npos) return files_with({});
  return {};
}

Candidates values_of(const CLI::App& command, const CLI::Option& positional) {
  const std::string& name = positional.get_name(true, false);
  const std::string place = command.get_name() + " " + name;
  if (name == "MODEL" || place == "inspect FILE") return files_with({"onnx", "gir", "gmod"});
  if (place == "compare A" || place == "compare B" || place == "trace FILE")
    return files_with({"onnx", "gir", "gmod", "json"});
  if (place == "info BOARD" || place == "remove NAME" || place == "update NAME" || place == "uninstall NAME")
    return boards();
  if (place == "zoo NAME") return networks();
  if (place == "keygen FILE" || name == "RECORDS") return files_with({});
  if (place == "import FILE") return files_with({"jsonl"});
  return values_of(positional.get_type_name());
}

/// Of the word at the cursor, what stands before the value that is being written: "a,b," of lists.
std::string before_last(const std::string& type, const std::string& current) {
  const bool list = type.find(",") != std::string::npos && type.starts_with("PASS");
  const size_t comma = list ? current.rfind(',') : std::string::npos;
  return comma == std::string::npos ? "" : current.substr(0, comma + 1);
}

const CLI::Option* find_option(const CLI::App* command, const std::string& name) {
  for (; command != nullptr; command = command->get_parent()) {
    if (const CLI::Option* option = command->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

bool wants_value(const CLI::Option& option) {
  return option.get_items_expected_min() > 0;
}

Candidates options_of(const CLI::App* command) {
  Candidates result;
  for (; command != nullptr; command = command->get_parent()) {
    for (const CLI::Option* option : command->get_options()) {
      if (!option->nonpositional() || option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames()) {
        const std::string text = "--" + name;
        const bool known = std::any_of(result.words.begin(), result.words.end(),
                                       [&](const Candidate& other) { return other.text == text; });
        if (!known) result.words.push_back({text, option->get_description()});
      }
    }
  }
  return result;
}

Candidates commands_of(const CLI::App& command) {
  Candidates result;
  for (const CLI::App* each : shown_commands(command)) {
    result.words.push_back({each->get_name(), each->get_description()});
  }
  return result;
}

/// Where the words before the cursor lead to.
struct Place {
  const CLI::App* command;
  const CLI::Option* option = nullptr;   ///< whose value is next
  std::vector<std::string> positionals;  ///< of the command, so far
  bool options_ended = false;            ///< by "--"
};

Place place_after(const CLI::App& app, const std::vector<std::string>& words, size_t count) {
  Place place{&app};
  for (size_t i = 0; i < count; ++i) {
    const std::string& word = words[i];
    if (place.option != nullptr) {
      place.option = nullptr;
    } else if (!place.options_ended && word == "--") {
      place.options_ended = true;
    } else if (!place.options_ended && word.size() > 1 && word[0] == '-') {
      const CLI::Option* option = find_option(place.command, word);
      if (option != nullptr && wants_value(*option)) place.option = option;
    } else {
      const CLI::App* next = nullptr;
      for (const CLI::App* each : shown_commands(*place.command)) {
        if (each->get_name() == word && place.positionals.empty()) next = each;
      }
      if (next != nullptr) {
        place.command = next;
      } else {
        place.positionals.push_back(word);
      }
    }
  }
  return place;
}

/// What may stand at the place where no option waits for its value.
Candidates positional_candidates(const CLI::App& app, const Place& place) {
  if (place.command->get_name() == "help" && place.command->get_parent() == &app) {
    try {
      return commands_of(find_command(app, place.positionals));
    } catch (const Error&) {
      return {};
    }
  }
  Candidates result = place.positionals.empty() ? commands_of(*place.command) : Candidates();
  const auto positionals =
      place.command->get_options([](const CLI::Option* option) { return option->get_positional(); });
  if (place.positionals.size() < positionals.size()) {
    Candidates values = values_of(*place.command, *positionals[place.positionals.size()]);
    values.words.insert(values.words.begin(), result.words.begin(), result.words.end());
    return values;
  }
  return result.words.empty() ? options_of(place.command) : result;
}

}  // namespace

std::string complete(const CLI::App& app, const std::vector<std::string>& words) {
  const std::string current = words.empty() ? "" : words.back();
  const Place place = place_after(app, words, words.empty() ? 0 : words.size() - 1);
  Candidates candidates;
  std::string before;  // of the word, what is no part of the value
  const size_t equals = current.find('=');
  if (place.option != nullptr) {
    candidates = values_of(place.option->get_type_name());
    before = before_last(place.option->get_type_name(), current);
  } else if (!place.options_ended && current.starts_with("--") && equals != std::string::npos) {
    before = current.substr(0, equals + 1);
    const CLI::Option* option = find_option(place.command, current.substr(0, equals));
    if (option != nullptr) candidates = values_of(option->get_type_name());
  } else if (!place.options_ended && current.starts_with("-")) {
    candidates = options_of(place.command);
  } else {
    candidates = positional_candidates(app, place);
  }
  std::string text;
  for (const Candidate& candidate : candidates.words) {
    const std::string word = before + candidate.text;
    if (word.starts_with(current)) text += word + "\t" + candidate.description + "\n";
  }
  if (candidates.files) text += fmt::format(":files {}\n", fmt::join(candidates.extensions, " "));
  return text;
}

}  // namespace gantry::cli
