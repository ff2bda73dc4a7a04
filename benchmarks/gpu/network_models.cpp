#include <fmt/format.h>

#include <algorithm>

#include "benchmarks/gpu/networks_section.h"

namespace gantry::gpu_bundle {
namespace {

constexpr double kLongestExport = 90, kLongestZoo = 30, kLongestReference = 60, kLongestCompilation = 90;

std::string stem(const Context& context, const std::string& network, int batch) {
  return (context.work / fmt::format("{}_{}", network, batch)).string();
}

/// Runs a command for each of `names`, side by side; none is begun that could not end before `until`. `done`
/// does not hear of what `until` has cut off.
template <typename CommandOf, typename Done>
void for_each(Context& context, const std::vector<std::string>& names, Clock::time_point until,
              CommandOf command_of, Done done) {
  size_t at = 0;
  run_many(
      static_cast<int>(models_at_once(context)),
      [&](Command& command) {
        if (at == names.size() || !context.has_time(until, 1)) return false;
        command = command_of(names[at++]);
        return true;
      },
      [&](size_t number, const Outcome& outcome) {
        if (outcome.end != Outcome::End::kTimedOut || !Context::is_over(until)) done(names[number], outcome);
      });
}

}  // namespace

const std::vector<Network>& networks() {
  static const std::vector<Network> all = {{"resnet50"},
                                           {"bert_base"},
                                           {"mobilenet_v2"},
                                           {"resnet18"},
                                           {"efficientnet_b0"},
                                           {"densenet121"},
                                           {"vgg16"},
                                           {"squeezenet1_1"},
                                           {"lstm"},
                                           {"se_resnet101_ibn_a", /*in_zoo=*/false}};
  return all;
}

bool is_in_zoo(const std::string& name) {
  return std::any_of(networks().begin(), networks().end(),
                     [&](const Network& network) { return network.name == name && network.in_zoo; });
}

size_t models_at_once(const Context& context) {
  constexpr int kThreadsOfOne = 2;  // each compiles on several
  return static_cast<size_t>(std::max(1, context.machine.cpus / kThreadsOfOne));
}

std::string row_name(const std::string& network, const Setting& setting) {
  return fmt::format("{}, batch {}, {}", network, setting.batch, setting.precision);
}

void Models::make(Context& context, const std::vector<Network>& wanted, int batch, Clock::time_point until) {
  std::vector<std::string> exported, written;
  std::map<std::string, std::string> problems;
  for (const Network& network : wanted) {
    if (has(network.name, batch)) continue;
    if (context.machine.has_torch)
      exported.push_back(network.name);
    else if (network.in_zoo)
      written.push_back(network.name);
    else
      models_[{network.name, batch}] = {
          "", "only PyTorch has it, which is not here with a GPU and torchvision", "", {}};
  }
  const auto path = [&](const std::string& name) { return stem(context, name, batch); };
  for_each(
      context, exported, until,
      [&](const std::string& name) {
        return context.command({context.machine.python, (context.options.bundle / "torch_bench.py").string(),
                                "export", name, std::to_string(batch), path(name)},
                               kLongestExport, until);
      },
      [&](const std::string& name, const Outcome& outcome) {
        if (!outcome.ok()) {
          problems[name] = "PyTorch's export: " + outcome.why();
          if (is_in_zoo(name)) return written.push_back(name);
          models_[{name, batch}] = {"", problems[name], "", {}};
          return;
        }
        models_[{name, batch}] = {path(name) + ".onnx",
                                  "",
                                  "PyTorch",
                                  {"--input", path(name) + ".in.npy", "--expect", path(name) + ".out.npy"}};
      });
  std::vector<std::string> to_reference;
  for_each(
      context, written, until,
      [&](const std::string& name) {
        return context.command({context.program("gantry"), "zoo", name, "--batch", std::to_string(batch),
                                "-o", path(name) + ".onnx", "--force"},
                               kLongestZoo, until);
      },
      [&](const std::string& name, const Outcome& outcome) {
        if (outcome.ok()) return to_reference.push_back(name);
        const std::string before = problems.count(name) != 0 ? problems[name] + "; " : "";
        models_[{name, batch}] = {"", before + "gantry zoo: " + outcome.why(), "", {}};
      });
  for_each(
      context, to_reference, until,
      [&](const std::string& name) {
        return context.command({context.program("gantry"), "run", path(name) + ".onnx", "--precision", "fp32",
                                "--random=1", "--output", path(name) + ".ref.npy", "--force"},
                               kLongestReference, until);
      },
      [&](const std::string& name, const Outcome& outcome) {
        Model model{path(name) + ".onnx", "", "gantry on the CPU", {"--random=1"}};
        if (outcome.ok())
          model.data.insert(model.data.end(), {"--expect", path(name) + ".ref.npy"});
        else
          model.reference = "none: " + one_line(outcome.why());
        models_[{name, batch}] = std::move(model);
      });
}

const Models::Model& Models::get(const std::string& network, int batch) const {
  static const Model none{"", "not reached: no time left", "", {}};
  const auto found = models_.find({network, batch});
  return found == models_.end() ? none : found->second;
}

std::string module_path(const Context& context, const std::string& network, const Setting& setting) {
  return fmt::format("{}.{}.gmod", stem(context, network, setting.batch), setting.precision);
}

std::map<std::string, std::string> compile(Context& context, const Models& models,
                                           const std::vector<Network>& wanted, const Setting& setting,
                                           Clock::time_point until) {
  std::vector<std::string> names;
  for (const Network& network : wanted) {
    if (!models.get(network.name, setting.batch).path.empty()) names.push_back(network.name);
  }
  std::map<std::string, std::string> problems;
  for_each(
      context, names, until,
      [&](const std::string& name) {
        return context.command({context.program("gantry"), "compile", models.get(name, setting.batch).path,
                                "--target", "cuda:" + context.machine.architecture + "/native", "--precision",
                                setting.precision, "-o", module_path(context, name, setting), "--force"},
                               kLongestCompilation, until);
      },
      [&](const std::string& name, const Outcome& outcome) {
        if (!outcome.ok()) problems[row_name(name, setting)] = outcome.why();
      });
  return problems;
}

}  // namespace gantry::gpu_bundle
