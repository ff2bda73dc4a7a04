#include "benchmarks/gpu/report.h"

#include <cstdio>
#include <ctime>
#include <fstream>
#include <stdexcept>

namespace gantry::gpu_bundle {
namespace {

constexpr Seconds kLongestUnwritten{0.5};

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

void write_whole(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path partial = path.string() + ".partial";
  {
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    file << text;
    file.flush();
    if (!file) throw std::runtime_error(partial.string() + ": cannot be written");
  }
  std::filesystem::rename(partial, path);
}

}  // namespace

Report::Report(std::filesystem::path folder, double seconds, const std::vector<std::string>& command)
    : folder_(std::move(folder)) {
  std::filesystem::create_directories(folder_);
  document_["schema"] = "gantry-gpu-bundle";
  document_["schema_version"] = 1;
  document_["command"] = command;
  document_["date"] = utc_now();
  document_["seconds"] = seconds;
  document_["elapsed_s"] = 0.0;
  document_["state"] = "running";
  document_["sections"] = Json::array();
}

void Report::add_section(const std::string& name, const std::string& title, const std::string& state) {
  document_["sections"].push_back({{"name", name},
                                   {"title", title},
                                   {"state", state},
                                   {"steps", nullptr},
                                   {"done", 0},
                                   {"facts", Json::object()},
                                   {"rows", Json::array()}});
}

Json& Report::section(const std::string& name) {
  for (Json& entry : document_["sections"]) {
    if (entry["name"] == name) return entry;
  }
  throw std::logic_error("no section " + name);
}

void Report::set_state(const std::string& name, const std::string& state) {
  section(name)["state"] = state;
  write();
}
void Report::set_steps(const std::string& name, size_t count) {
  section(name)["steps"] = count;
}
int Report::done(const std::string& name) {
  return section(name)["done"];
}
void Report::set_done(const std::string& name, int count) {
  section(name)["done"] = count;
}
Json& Report::facts(const std::string& name) {
  return section(name)["facts"];
}

void Report::row(const std::string& name, const std::string& row_name, const Json& fields,
                 const std::string& line) {
  Json& entry = section(name);
  Json* found = nullptr;
  for (Json& row : entry["rows"]) {
    if (row["name"] == row_name) found = &row;
  }
  if (found == nullptr) {
    entry["rows"].push_back({{"name", row_name}});
    found = &entry["rows"].back();
  }
  for (const auto& [key, value] : fields.items()) (*found)[key] = value;
  entry["done"] = entry["done"].get<int>() + 1;
  if (!line.empty()) print(name + ": " + line);
  if (!line.empty() || Clock::now() - written_ > kLongestUnwritten) write();
}

void Report::print(const std::string& text) const {
  std::printf("[%6.1f s] %s\n", Seconds(Clock::now() - start_).count(), text.c_str());
  std::fflush(stdout);
}

void Report::finish(const std::string& state) {
  document_["state"] = state;
  write();
}

void Report::write() {
  document_["elapsed_s"] = Seconds(Clock::now() - start_).count();
  write_whole(folder_ / "results.json", document_.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  write_whole(folder_ / "table.md", markdown(document_));
  written_ = Clock::now();
}

}  // namespace gantry::gpu_bundle
