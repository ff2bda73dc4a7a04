#include "host/records/json_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "host/records/columns.h"
#include "host/support/error.h"

namespace gantry::records {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kVersion = 1;
constexpr size_t kMostLine = size_t{4} << 20;

Field field_of(const Json& value, const Column& column) {
  switch (column.kind) {
    case ColumnKind::kInteger:
      if (!value.is_number_integer()) break;
      // A number that is too large for the type becomes another one.
      if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) break;
      return value.get<int64_t>();
    case ColumnKind::kReal:
      if (!value.is_number()) break;
      return value.get<double>();
    case ColumnKind::kText:
      if (!value.is_string()) break;
      return value.get<std::string>();
  }
  user_error("{}: is no {}", column.name, column.kind == ColumnKind::kText ? "text" : "number");
}

Record record_of(const Json& object) {
  Row row;
  std::set<std::string> known;
  for (const Column& column : columns()) {
    const std::string name(column.name);
    known.insert(name);
    const auto found = object.find(name);
    if (found != object.end()) {
      row.push_back(field_of(*found, column));
    } else if (column.may_be_null) {
      row.emplace_back();
    } else {
      user_error("{}: is missing", name);
    }
  }
  for (const auto& [name, value] : object.items()) {
    if (!known.contains(name)) user_error("'{}' is no field of a record", name);
  }
  return records::record_of(0, row);
}

WorkProgram program_of(const Json& object) {
  const auto text = object.find("text");
  if (object.size() != 2 || text == object.end() || !text->is_string() || !object["program_of"].is_string())
    user_error("program_of: has a digest and a text, and nothing else");
  WorkProgram program{object["program_of"].get<std::string>(), text->get<std::string>()};
  check(program);
  return program;
}

bool is_head(const Json& line) {
  return line.is_object() && line.contains("schema") && line["schema"] == "gantry-records" &&
         line.contains("version") && line["version"].is_number_integer();
}

void expect_head(const std::string& line, const std::string& name) {
  const Json head = Json::parse(line, nullptr, false);
  if (!is_head(head))
    user_error("{}: is no file of records: its first line is not that of `gantry records export`", name);
  if (head["version"].get<int64_t>() != kVersion)
    user_error("{}: has records of version {}; this gantry reads version {}: update it, or who exports", name,
               head["version"].get<int64_t>(), kVersion);
}

/// False at the end of the file. A line that is too long is read no further.
bool next_line(std::istream& file, std::string& line, const std::string& place) {
  line.clear();
  for (int c = file.get(); c != std::istream::traits_type::eof(); c = file.get()) {
    if (c == '\n') return true;
    line += static_cast<char>(c);
    if (line.size() > kMostLine) user_error("{}: is longer than lines of records are", place);
  }
  return !line.empty();
}

void read_line(const std::string& line, JsonLines& read) {
  Json object;
  try {
    object = Json::parse(line);
  } catch (const Json::parse_error& error) {
    if (error.byte > line.size())
      user_error("is no JSON: it ends in the middle, as where a file was cut off");
    user_error("is no JSON: something else is expected at byte {}", error.byte);
  } catch (const Json::exception& error) {
    user_error("is no JSON: {}", error.what());  // a number that is too large for any
  }
  if (!object.is_object()) user_error("is no object");
  if (object.contains("program_of")) {
    read.programs.push_back(program_of(object));
  } else {
    read.records.push_back(record_of(object));
  }
}

}  // namespace

std::string json_head() {
  return fmt::format("{{\"schema\":\"gantry-records\",\"version\":{}}}\n", kVersion);
}

std::string json_line(const Record& record) {
  const Row row = row_of(record);
  Json object = Json::object();
  for (size_t i = 0; i < row.size(); ++i) {
    const std::string name(columns()[i].name);
    if (const auto* number = std::get_if<int64_t>(&row[i])) object[name] = *number;
    if (const auto* number = std::get_if<double>(&row[i])) object[name] = *number;
    if (const auto* text = std::get_if<std::string>(&row[i])) object[name] = *text;
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string json_line(const WorkProgram& program) {
  Json object = {{"program_of", program.work}, {"text", program.text}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

JsonLines read_json_lines(std::istream& file, const std::string& name,
                          const std::function<void(const std::string&)>& warn) {
  JsonLines read;
  std::string line;
  size_t number = 1;
  for (; next_line(file, line, fmt::format("{}:{}", name, number)); ++number) {
    if (number == 1) {
      expect_head(line, name);
      continue;
    }
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    // Exports one behind the other are one.
    if (line.starts_with("{\"schema\"") && is_head(Json::parse(line, nullptr, false))) {
      expect_head(line, name);
      continue;
    }
    try {
      read_line(line, read);
    } catch (const Error& error) {
      ++read.left_out;
      if (warn) warn(fmt::format("{}:{}: is left out: {}", name, number, error.what()));
    }
  }
  if (file.bad()) user_error("{}: cannot be read to its end", name);
  if (number == 1) user_error("{}: is empty, not a file of records", name);
  return read;
}

}  // namespace gantry::records
