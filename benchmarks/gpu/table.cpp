// The results as Markdown. Whatever is missing from the document is left out or said to be so: it may be one
// that was cut off anywhere.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "benchmarks/gpu/context.h"
#include "benchmarks/gpu/report.h"

namespace gantry::gpu_bundle {
namespace {

constexpr const char* kNotReached = "not reached: no time left";
constexpr size_t kMostListed = 60;

/// Text in a cell.
std::string cell(const std::string& text, size_t most = 240) {
  std::string result;
  for (const char c : one_line(text, most)) {
    if (c == '|') result += '\\';
    result += c;
  }
  return result;
}

std::string text_of(const Json& row, const char* field) {
  return row.contains(field) && row[field].is_string() ? row[field].get<std::string>() : "";
}

std::string number(const Json& row, const char* field, const char* format, double scale = 1) {
  if (!row.contains(field) || row[field].is_null()) return "";
  if (!row[field].is_number()) return row[field].is_string() ? row[field].get<std::string>() : "";
  return fmt::format(fmt::runtime(format), row[field].get<double>() * scale);
}

std::string row_of(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string head_of(const std::vector<std::string>& names) {
  std::string line = "|";
  for (size_t i = 0; i < names.size(); ++i) line += " --- |";
  return row_of(names) + line + "\n";
}

/// "3 of 12 steps; not reached: no time left: 9"
std::string progress(const Json& section, bool whole_is_over) {
  const std::string state = section["state"];
  if (state == "not selected") return state;
  if (state == "not reached") return kNotReached;
  const int done = section["done"];
  std::string text = whole_is_over || state == "done" ? state : "running, or cut off here";
  text += section["steps"].is_number() ? fmt::format("; {} of {} steps", done, section["steps"].get<int>())
                                       : fmt::format("; {} steps", done);
  const int left = section["steps"].is_number() ? section["steps"].get<int>() - done : 0;
  if (state != "done" && left > 0) text += fmt::format("; {}: {}", kNotReached, left);
  return text;
}

/// How often each result came: "412 pass, 3 wrong".
std::string counts_text(const std::map<std::string, int>& counts) {
  std::vector<std::string> parts;
  for (const auto& [result, count] : counts) parts.push_back(fmt::format("{} {}", count, result));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::map<std::string, int> counts_on(const Json& rows, const char* device) {
  std::map<std::string, int> counts;
  for (const Json& row : rows) {
    if (row.contains(device)) ++counts[text_of(row[device], "result")];
  }
  return counts;
}

std::string results_text(const Json& section) {
  const Json& rows = section["rows"];
  if (section["name"] == "cases")
    return rows.empty() ? ""
                        : fmt::format("cuda: {}; cuda-emulated: {}", counts_text(counts_on(rows, "cuda")),
                                      counts_text(counts_on(rows, "cuda-emulated")));
  std::map<std::string, int> counts;
  for (const Json& row : rows) {
    if (const std::string result = text_of(row, "result"); !result.empty()) ++counts[result];
  }
  return counts_text(counts);
}

std::string plain_table(const Json& rows) {
  std::string text = head_of({"what", "result", ""});
  size_t listed = 0;
  for (const Json& row : rows) {
    if (text_of(row, "result") == "clean") continue;
    if (++listed > kMostListed) break;
    text +=
        row_of({cell(text_of(row, "name")), cell(text_of(row, "result")), cell(text_of(row, "text"), 1000)});
  }
  return text;
}

std::string cases_table(const Json& section) {
  const Json& rows = section["rows"];
  std::string text = head_of({"device", "results"});
  for (const char* device : {"cuda", "cuda-emulated"})
    text += row_of({device, counts_text(counts_on(rows, device))});
  if (section["facts"].contains("passed_before"))
    text += fmt::format("\nNot run again, as they passed in a former run: {}\n",
                        section["facts"]["passed_before"].get<int>());
  if (section["facts"].contains("given_up")) text += "\n" + text_of(section["facts"], "given_up") + "\n";
  std::string failing;
  size_t listed = 0, more = 0;
  for (const Json& row : rows) {
    const Json on_gpu = row.value("cuda", Json::object());
    const Json beside = row.value("cuda-emulated", Json::object());
    const bool fine = (on_gpu.empty() || text_of(on_gpu, "result") == "pass") &&
                      (beside.empty() || text_of(beside, "result") == "pass");
    if (fine) continue;
    if (++listed > kMostListed) {
      ++more;
      continue;
    }
    failing += row_of({cell(text_of(row, "name")), cell(text_of(row, "op")), cell(text_of(on_gpu, "result")),
                       cell(text_of(beside, "result")), cell(text_of(on_gpu, "text"), 400)});
  }
  if (failing.empty()) return text;
  text += "\nCases that do not pass:\n\n" +
          head_of({"case", "op", "cuda", "cuda-emulated", "what cuda says"}) + failing;
  if (more > 0) text += fmt::format("\n{} more are in results.json.\n", more);
  return text;
}

std::string peer(const Json& row, const char* name, const char* field) {
  if (!row.contains(name)) return "";
  const std::string time = number(row[name], field, "{:.3f}");
  return time.empty() && row[name].contains("problem") ? "failed" : time;
}

std::string networks_table(const Json& section) {
  const Json& rows = section["rows"];
  std::string text;
  if (section["facts"].contains("peaks") && section["facts"]["peaks"].is_object())
    text += "Peaks measured: " + text_of(section["facts"]["peaks"], "text") + "\n\n";
  text += head_of({"network", "batch", "precision", "result", "error", "beside", "gantry, ms", "gantry, MB",
                   "PyTorch eager, ms", "graph, ms", "compile, ms", "ONNX Runtime, ms"});
  std::string problems, kernels;
  for (const Json& row : rows) {
    if (!row.contains("network")) {
      if (text_of(row, "result") != "measured")
        problems += fmt::format("- {}: {}\n", text_of(row, "name"), cell(text_of(row, "text"), 1000));
      continue;
    }
    text += row_of({text_of(row, "network"), number(row, "batch", "{:.0f}"), text_of(row, "precision"),
                    text_of(row, "result"), number(row, "error", "{:.1e}"), text_of(row, "beside"),
                    number(row, "median_ms", "{:.3f}"), number(row, "memory_bytes", "{:.0f}", 1e-6),
                    peer(row, "torch", "eager_ms"), peer(row, "torch", "graph_ms"),
                    peer(row, "torch", "compile_ms"), peer(row, "onnxruntime", "ms")});
    if (const std::string problem = text_of(row, "text"); !problem.empty())
      problems += fmt::format("- {}: {}\n", text_of(row, "name"), cell(problem, 1000));
    if (row.value("kernels", Json::array()).empty()) continue;
    kernels += fmt::format("\n{}:\n\n", text_of(row, "name")) +
               head_of({"kernel", "ops", "ms", "of the network", "of its roof", "bound by"});
    for (const Json& kernel : row["kernels"])
      kernels += row_of({text_of(kernel, "symbol"), cell(text_of(kernel, "name"), 80),
                         number(kernel, "total_ms", "{:.4f}"), number(kernel, "share", "{:.0f} %", 100),
                         number(kernel, "of_roof", "{:.0f} %", 100), text_of(kernel, "bound_by")});
  }
  if (!problems.empty()) text += "\nWhat went wrong:\n\n" + problems;
  if (!kernels.empty()) text += "\n### Slowest kernels\n" + kernels;
  return text;
}

}  // namespace

std::string markdown(const Json& document) {
  const bool over = document["state"] != "running";
  std::string text = fmt::format("# gantry on this machine's GPU\n\n{}, {:.0f} of {:.0f} s, {}\n\n",
                                 document["date"].get<std::string>(), document["elapsed_s"].get<double>(),
                                 document["seconds"].get<double>(),
                                 over ? document["state"].get<std::string>() : "running, or cut off");
  text += head_of({"section", "state", "results"});
  for (const Json& section : document["sections"])
    text += row_of({text_of(section, "title"), progress(section, over), cell(results_text(section), 1000)});
  for (const Json& section : document["sections"]) {
    if (section["state"] == "not selected") continue;
    text += fmt::format("\n## {}\n\n", text_of(section, "title"));
    if (section["rows"].empty()) {
      text += section["state"] == "not reached" ? std::string(kNotReached) + "\n" : "Nothing yet.\n";
      continue;
    }
    const std::string name = section["name"];
    text += name == "cases"      ? cases_table(section)
            : name == "networks" ? networks_table(section)
                                 : plain_table(section["rows"]);
  }
  return text;
}

}  // namespace gantry::gpu_bundle
