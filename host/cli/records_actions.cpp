#include "host/cli/records_actions.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "host/cli/json_values.h"
#include "host/cli/records_filter.h"
#include "host/cli/records_use.h"
#include "host/cli/records_verify_network.h"
#include "host/cli/terminal.h"
#include "host/cli/text.h"
#include "host/records/json_lines.h"
#include "host/support/error.h"
#include "host/support/input_file.h"
#include "host/support/output_file.h"
#include "host/support/words.h"

namespace gantry::cli {
namespace {

using records::Record;
using records::Store;

std::string change_text(const Record& record) {
  if (!record.timing) return std::string(records::name_of(record.outcome));
  const records::Timing& timing = *record.timing;
  return fmt::format("{:.3f} ({:.3f}..{:.3f})", timing.ratio, timing.ratio_low, timing.ratio_high);
}

/// Of a network how many nodes it is about, not each.
std::string decision_in_list(const Record& record) {
  const std::string text = to_string(record.decision);
  const size_t parts = record.parts.size();
  return parts == 0 ? text : fmt::format("{} of {}", text, counted(parts, "node"));
}

std::vector<std::string> row_of(const Record& record) {
  const records::Setting& setting = record.key.setting;
  return {std::to_string(record.id),
          record.date,
          record.confirmation ? "yes" : "",
          change_text(record),
          record.timing ? duration_text(record.timing->seconds * 1e3) : "",
          setting.target,
          std::to_string(setting.threads),
          setting.precision,
          record.op,
          decision_in_list(record),
          record.nodes};
}

/// The records that decide: of every setting's works the best one.
std::set<int64_t> deciding(Store& store, const records::Filter& filter) {
  std::set<records::Key> keys;
  records::Filter confirmed = filter;
  confirmed.confirmations = true;
  store.each(confirmed, [&](const Record& record) {
    keys.insert(record.key);
    return true;
  });
  std::set<int64_t> ids;
  const std::vector<records::Key> asked(keys.begin(), keys.end());
  for (const auto& best : store.best(asked)) {
    if (best) ids.insert(best->id);
  }
  return ids;
}

/// Those that pass, and of --best those of them that decide.
void for_each(Store& store, const RecordsOptions& options, const std::function<void(const Record&)>& visit) {
  const records::Filter filter = filter_of(options);
  check_words(store, filter);
  const std::set<int64_t> best = options.best ? deciding(store, filter) : std::set<int64_t>();
  store.each(filter, [&](const Record& record) {
    if (!options.best || best.contains(record.id)) visit(record);
    return true;
  });
}

nlohmann::ordered_json json_of(const Record& record) {
  nlohmann::ordered_json json{{"id", record.id}};
  json.update(nlohmann::ordered_json::parse(records::json_line(record)));
  return json;
}

std::string shown(const nlohmann::ordered_json& value) {
  return value.is_string() ? visible_line(value.get<std::string>()) : value.dump();
}

records::JsonLines read_file(const std::string& file, const Invocation& invocation) {
  const auto warn = [&](const std::string& message) { invocation.warn(visible_line(message)); };
  if (file == "-") return records::read_json_lines(std::cin, "stdin", warn);
  std::error_code code;
  if (std::filesystem::is_directory(file, code))
    user_error("{}: is a folder, not a file that `gantry records export` wrote", file);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) cannot_read(file, errno);
  return records::read_json_lines(stream, file, warn);
}

std::string verdict_of(const Verified& verified) {
  if (!verified.again) return "not measured: " + verified.why;
  const Record& again = *verified.again;
  if (!again.timing) return fmt::format("{}: {}", records::name_of(again.outcome), again.reason);
  return fmt::format("{}: {}",
                     records::is_gain(*again.timing) ? "still faster" : "not shown to be faster any more",
                     change_text(again));
}

/// User errors for what no record could be measured in.
void check_model(const VerifyOptions& options, const Invocation& invocation) {
  if (options.model.empty()) return;
  if (is_module(options.model, {}))
    user_error("--model {}: is compiled already; verify takes a model (.onnx) or graph text (.gir)",
               options.model);
  verified_model(options, Optimize::kSpeed, invocation);
}

}  // namespace

int list_records(const RecordsOptions& options, const Invocation& invocation) {
  const auto store = read_records(options.place, invocation);
  if (options.json) {
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for_each(*store, options, [&](const Record& record) { all.push_back(json_of(record)); });
    print_out(document_text(all, 1));
    return 0;
  }
  Table table({{"id", Table::Align::kRight},
               {"date", Table::Align::kLeft},
               {"confirmed", Table::Align::kLeft},
               {"time / baseline's", Table::Align::kLeft},
               {"time", Table::Align::kRight},
               {"target", Table::Align::kLeft},
               {"threads", Table::Align::kRight},
               {"precision", Table::Align::kLeft},
               {"op", Table::Align::kLeft},
               {"decision", Table::Align::kLeft},
               {"nodes", Table::Align::kLeft}});
  for_each(*store, options, [&](const Record& record) { table.row(row_of(record)); });
  if (table.empty()) {
    invocation.note(no_such_records(*store, filter_of(options)));
  } else {
    print_out(table.str(0, terminal_width()));
  }
  return 0;
}

int show_records(const RecordsOptions& options, const Invocation& invocation) {
  const auto store = read_records(options.place, invocation);
  std::set<int64_t> missing(options.ids.begin(), options.ids.end());
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for_each(*store, options, [&](const Record& record) {
    missing.erase(record.id);
    all.push_back(json_of(record));
    if (const auto program = store->program_of(record.key.work)) all.back()["program"] = *program;
  });
  if (!missing.empty()) user_error("{}: has no record {}", store->place(), *missing.begin());
  if (options.json) {
    print_out(document_text(all, 1));
    return 0;
  }
  std::string text;
  for (const auto& record : all) {
    if (!text.empty()) text += "\n";
    for (const auto& [name, value] : record.items()) {
      if (name == "program") {
        text += "program\n" + value.get<std::string>();
      } else {
        text += fmt::format("{:<25} {}\n", name, shown(value));
      }
    }
  }
  print_out(text);
  return 0;
}

int export_records(const RecordsOptions& options, const Invocation& invocation) {
  const auto store = read_records(options.place, invocation);
  if (options.place.find("://") == std::string::npos) invocation.outputs->reads(options.place, "the records");
  const bool is_named = !options.output.empty() && options.output != "-";
  const std::string output = is_named ? options.output : "/dev/stdout";
  invocation.outputs->writes(output, FileKind::kRecords, "-o", options.force);
  std::optional<OutputFile> file;  // none: stdout, whose reader may have seen enough
  if (invocation.outputs->on_stdout().empty()) file.emplace(output);
  const auto write = [&](const std::string& text) {
    if (file) {
      file->write(text);
    } else {
      write_out(text);
    }
  };
  write(records::json_head());
  std::set<std::string> works;
  int64_t count = 0;
  for_each(*store, options, [&](const Record& record) {
    works.insert(record.key.work);
    write(records::json_line(record));
    ++count;
  });
  for (const std::string& work : works) {
    if (const auto program = store->program_of(work))
      write(records::json_line(records::WorkProgram{work, *program}));
  }
  if (file) {
    file->commit();
    invocation.note(fmt::format("{}: {}", output, counted(count, "record")));
  }
  if (count == 0) invocation.note(no_such_records(*store, filter_of(options)));
  return 0;
}

int import_records(const RecordsOptions& options, const Invocation& invocation) {
  records::JsonLines read = read_file(options.file, invocation);
  const size_t all = read.records.size();
  if (all == 0) user_error("{}: has no records that can be read", options.file);
  records::StoreOptions how;
  how.create = true;
  how.warn = [&](const std::string& message) { invocation.warn(message); };
  const auto store = records::open_store(options.place, how);
  const size_t added = store->add_unknown(std::move(read.records), read.programs);
  const nlohmann::ordered_json report{
      {"records", store->place()}, {"imported", added}, {"known", all - added}, {"left_out", read.left_out}};
  if (options.json) {
    print_out(document_text(report));
  } else {
    print_out(fmt::format("{}: {} imported, {} there already, {} left out\n", store->place(),
                          counted(added, "record"), all - added, counted(read.left_out, "line")));
  }
  return 0;
}

int prune_records(const RecordsOptions& options, const Invocation& invocation) {
  const records::Filter filter = filter_of(options);
  if (filter == records::Filter())
    user_error("records prune: say which, by --id, --before, --other-generators or another of its options");
  records::StoreOptions how;
  how.read_only = options.dry_run;
  const auto store = records::open_store(options.place, how);
  check_words(*store, filter);
  const int64_t count = options.dry_run ? store->count(filter) : store->remove(filter);
  if (options.json) {
    print_out(document_text(nlohmann::ordered_json{{"records", store->place()},
                                                   {options.dry_run ? "would_remove" : "removed", count}}));
  } else {
    print_out(fmt::format("{}: {} {}\n", store->place(), counted(count, "record"),
                          options.dry_run ? "would be removed" : "removed"));
    if (count == 0) invocation.note(no_such_records(*store, filter));
  }
  return 0;
}

int verify_records(const RecordsOptions& options, const Invocation& invocation) {
  check_model(options.verify, invocation);
  records::StoreOptions how;
  how.warn = [&](const std::string& message) { invocation.warn(message); };
  const auto store = records::open_store(options.place, how);
  std::vector<Record> asked;
  RecordsOptions deciders = options;
  deciders.best = true;
  for_each(*store, deciders, [&](const Record& record) { asked.push_back(record); });
  if (asked.empty()) {
    const records::Filter filter = filter_of(options);
    if (store->count(filter) == 0) user_error("{}", no_such_records(*store, filter));
    user_error(
        "{}: has no such records that decide anything; `gantry records list {} --best` has those that do",
        store->place(), store->place());
  }
  // A board that there is not is no fault of a record.
  const rpc::BoardInfo machine = open_machine(options.verify.board, options.verify.key)->info();
  nlohmann::ordered_json report = nlohmann::ordered_json::array();
  for (const Record& record : asked) {
    const Verified verified = verify_record(record, *store, machine, options.verify, invocation);
    if (verified.again) store->add(std::vector{*verified.again});
    nlohmann::ordered_json again;
    if (verified.again) {
      again = json_of(*verified.again);
      again.erase("id");  // the store gave it one
    }
    report.push_back({{"id", record.id}, {"again", again}, {"why", verified.why}});
    if (!options.json)
      print_out(fmt::format("{} {} {}: {}\n", record.id, record.op, decision_in_list(record),
                            visible_line(verdict_of(verified))));
  }
  if (options.json) print_out(document_text(report, 1));
  return 0;
}

}  // namespace gantry::cli
