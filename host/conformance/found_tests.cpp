#include "host/conformance/found_tests.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "host/support/error.h"

namespace gantry::conformance {

namespace fs = std::filesystem;

namespace {

constexpr const char* kModel = "model.onnx";
constexpr std::string_view kDataSet = "test_data_set_";

/// The number behind `prefix`; -1 where there is none.
int number_of(const std::string& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return -1;
  int number = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, number);
  return error == std::errc() && stop == end ? number : -1;
}

/// Whether a folder has a model, or data of one that is missing.
bool is_test(const fs::path& folder) {
  std::error_code code;
  return fs::exists(folder / kModel, code) || fs::is_directory(folder / fmt::format("{}0", kDataSet), code);
}

/// The folders of tests below one folder, by path. A test's own folders are not looked into.
std::vector<fs::path> test_folders(const fs::path& root) {
  std::error_code code;
  if (!fs::is_directory(root, code)) user_error("{}: is no folder of tests", root.string());
  std::vector<fs::path> found;
  if (is_test(root)) return {root};
  const auto options = fs::directory_options::follow_directory_symlink;
  fs::recursive_directory_iterator entry(root, options, code);
  constexpr int kDeepest = 32;  // where links go in circles
  for (; !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    std::error_code ignored;
    if (entry.depth() >= kDeepest) entry.disable_recursion_pending();
    if (!entry->is_directory(ignored) || !is_test(entry->path())) continue;
    entry.disable_recursion_pending();
    found.push_back(entry->path());
  }
  if (code) user_error("{}: cannot be read: {}", root.string(), code.message());
  std::sort(found.begin(), found.end());
  return found;
}

std::string name_of_folder(const fs::path& folder) {
  const fs::path path = folder.lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

/// A field that is a finite number from 0 on; else `usual` where there is none.
double tolerance_field(const nlohmann::json& json, const char* name, double usual, const fs::path& file) {
  if (!json.contains(name)) return usual;
  if (!json[name].is_number() || !(json[name].get<double>() >= 0))
    user_error("{}: '{}' is no tolerance: {}", file.string(), name, json[name].dump());
  return json[name].get<double>();
}

}  // namespace

std::vector<FoundTest> find_tests(const std::vector<fs::path>& folders,
                                  const std::function<void(const std::string&)>& warn) {
  std::map<std::string, fs::path> tests;
  for (const fs::path& root : folders) {
    std::map<std::string, fs::path> here;
    for (const fs::path& folder : test_folders(root)) {
      auto [place, added] = here.emplace(name_of_folder(folder), folder);
      if (added) continue;
      if (warn) warn(fmt::format("{} is taken in place of {}", folder.string(), place->second.string()));
      place->second = folder;
    }
    if (here.empty()) user_error("{}: has no folder with a {} in it", root.string(), kModel);
    for (auto& [name, folder] : here) tests[name] = folder;
  }
  std::vector<FoundTest> list;
  for (const auto& [name, folder] : tests) list.push_back({name, folder});
  return list;
}

bool is_like(const std::string& name, const std::string& filter) {
  if (filter.find_first_of("*?[") == std::string::npos) return name.find(filter) != std::string::npos;
  return ::fnmatch(filter.c_str(), name.c_str(), 0) == 0;
}

std::vector<fs::path> data_sets(const fs::path& test) {
  std::map<int, fs::path> sets;
  std::error_code code;
  for (fs::directory_iterator entry(test, code), end; !code && entry != end; entry.increment(code)) {
    const int number = number_of(entry->path().filename().string(), kDataSet);
    if (number >= 0 && entry->is_directory()) sets.emplace(number, entry->path());
  }
  std::vector<fs::path> list;
  for (const auto& [number, path] : sets) list.push_back(path);
  return list;
}

std::vector<fs::path> values_of(const fs::path& data_set, const std::string& kind) {
  std::vector<fs::path> files;
  std::error_code code;
  for (;;) {
    fs::path file = data_set / fmt::format("{}_{}.pb", kind, files.size());
    if (!fs::exists(file, code)) return files;
    files.push_back(std::move(file));
  }
}

Tolerance tolerance_of(const fs::path& test) {
  Tolerance tolerance;
  for (const char* name : {"test_data.json", "data.json"}) {
    const fs::path path = test / name;
    std::ifstream file(path, std::ios::binary);
    if (!file) continue;
    const nlohmann::json json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) user_error("{}: is no JSON object with a test's tolerances", path.string());
    tolerance.relative = tolerance_field(json, "rtol", tolerance.relative, path);
    tolerance.absolute = tolerance_field(json, "atol", tolerance.absolute, path);
    break;
  }
  return tolerance;
}

}  // namespace gantry::conformance
