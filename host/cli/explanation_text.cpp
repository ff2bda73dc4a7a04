#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/cli/explanation.h"
#include "host/cli/json_values.h"
#include "host/cli/plan_json.h"
#include "host/cli/style.h"
#include "host/cli/text.h"

namespace gantry::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string heading(const std::string& text) {
  return styled(text, Style::kHeading, stdout) + "\n";
}

/// "1.23 M cycles, 4.5 % of what is predicted"; empty where nothing is.
std::string cost_text(const PredictedCost& cost) {
  if (!cost.cycles && !cost.ms) return "";
  const std::string amount = cost.ms ? duration_text(*cost.ms) : count_text(*cost.cycles) + " cycles";
  return fmt::format("{}, {:.1f} % of what is predicted", amount, 100 * cost.share);
}

std::string amount(const Dim& bytes) {
  return bytes.is_constant() ? bytes_text(static_cast<double>(bytes.value())) : bytes.str() + " bytes";
}

/// Lines behind a first column that is `begin` columns wide, broken to fit the terminal.
std::string lines(const std::string& first, size_t begin, const std::string& text, size_t width) {
  constexpr size_t kLeast = 20;
  std::string out;
  for (const std::string& line :
       wrap(text, width == 0 ? 0 : std::max(kLeast, width - std::min(begin, width)))) {
    const std::string& margin = out.empty() ? first : "";
    const size_t missing = begin - std::min(begin, display_width(margin));
    out += margin + std::string(missing, ' ') + line + "\n";
  }
  return out;
}

std::string misfit_text(const std::string& misfit) {
  return "without tiles, as the schedule with tiles asks for more than there is: " + misfit;
}

/// "#3"; "-" where the plan does it itself.
std::string step_text(const Explanations::Kernel& kernel) {
  return kernel.step ? fmt::format("#{}", *kernel.step) : "-";
}

std::string kernel_text(const Explanations& all, const Explanations::Kernel& kernel, size_t width) {
  constexpr size_t kIndent = 6;
  const std::string name = kernel.step ? visible_line(kernel.name) : "the plan itself, without a kernel";
  std::string text = heading(fmt::format("{:<5} {}: {}", step_text(kernel), kernel.symbol, name));
  const std::string margin(kIndent, ' ');
  const std::string from = fmt::format("{}", fmt::join(kernel.nodes, ", "));
  if (!from.empty()) text += lines(margin, kIndent, "computes " + visible_line(from), width);
  const std::string cost = cost_text(kernel.cost);
  if (!kernel.decision.empty() || !cost.empty()) {
    text +=
        lines(margin, kIndent,
              kernel.decision.empty() ? cost : kernel.decision + (cost.empty() ? "" : "; " + cost), width);
  }
  if (kernel.rule != nullptr) {
    text += lines(margin, kIndent,
                  fmt::format("scheduled by rule {}: {} ({})", kernel.rule->name, kernel.rule->takes,
                              kernel.rule->file),
                  width);
  }
  size_t column = 0;
  const auto name_of_member = [](const Explanations::Member& member) {
    return member.value.empty() ? member.op : fmt::format("{} = {}", visible_line(member.value), member.op);
  };
  if (!kernel.misfit.empty()) text += lines(margin, kIndent, misfit_text(kernel.misfit), width);
  for (const Explanations::Member& member : kernel.members)
    column = std::max(column, kIndent + display_width(name_of_member(member)) + 2);
  column = std::min<size_t>(column, 36);
  for (const Explanations::Member& member : kernel.members)
    text += lines(margin + name_of_member(member) + "  ", column, member.why.text, width);
  for (const Explanations::Read& read : kernel.reads) {
    const Explanations::Kernel& other = all.kernels[read.from];
    const std::string through =
        read.views.empty() ? "" : fmt::format(", through {}", fmt::join(read.views, ", "));
    text += lines(margin, kIndent + 2,
                  fmt::format("reads {} of {} {}{}: {}", visible_line(read.value), step_text(other),
                              other.symbol, through, read.why.text),
                  width);
  }
  return text;
}

std::string conversion_text(const Explanations& all, const Explanations::Conversion& conversion,
                            size_t width) {
  const Explanations::Kernel& kernel = all.kernels[conversion.kernel];
  const std::string nodes =
      conversion.origin.empty() ? "" : fmt::format(" ({})", fmt::join(conversion.origin, ", "));
  const std::string reader =
      conversion.reader.empty() ? "an output of the model" : conversion.reader + visible_line(nodes);
  const std::string cost = cost_text(conversion.cost);
  const std::string work =
      conversion.on_the_way
          ? fmt::format("on the way, {} read in another order", amount(conversion.bytes))
          : fmt::format("{} moved{}", amount(conversion.bytes), cost.empty() ? "" : "; " + cost);
  return lines(fmt::format("{:<5} ", step_text(kernel)), 8,
               fmt::format("{} = {} in {}: {}, for {}; {}", visible_line(conversion.value), conversion.op,
                           kernel.symbol, conversion.wish, reader, work),
               width);
}

Json cost_json(const PredictedCost& cost) {
  const bool known = cost.cycles || cost.ms;
  return {{"cycles", shown(cost.cycles)},
          {"ms", shown(cost.ms)},
          {"share", known ? Json(cost.share) : Json(nullptr)}};
}

Json kernel_json(const Explanations& all, const Explanations::Kernel& kernel) {
  Json json{{"step", shown(kernel.step)},  {"symbol", kernel.symbol},
            {"name", kernel.name},         {"nodes", kernel.nodes},
            {"decision", kernel.decision}, {"predicted", cost_json(kernel.cost)}};
  json["schedule_rule"] =
      kernel.rule == nullptr
          ? Json(nullptr)
          : Json{{"name", kernel.rule->name}, {"takes", kernel.rule->takes}, {"file", kernel.rule->file}};
  json["misfit"] = said(kernel.misfit);
  json["members"] = Json::array();
  for (const Explanations::Member& member : kernel.members) {
    json["members"].push_back(
        {{"op", member.op}, {"value", member.value}, {"rule", member.why.rule}, {"why", member.why.text}});
  }
  json["reads"] = Json::array();
  for (const Explanations::Read& read : kernel.reads) {
    json["reads"].push_back({{"step", shown(all.kernels[read.from].step)},
                             {"symbol", all.kernels[read.from].symbol},
                             {"value", read.value},
                             {"views", read.views},
                             {"rule", read.why.rule},
                             {"why", read.why.text}});
  }
  return json;
}

Json conversion_json(const Explanations& all, const Explanations::Conversion& conversion) {
  return {{"step", shown(all.kernels[conversion.kernel].step)},
          {"symbol", all.kernels[conversion.kernel].symbol},
          {"op", conversion.op},
          {"value", conversion.value},
          {"layout", conversion.wish},
          {"reader", said(conversion.reader)},
          {"nodes", conversion.origin},
          {"on_the_way", conversion.on_the_way},
          {"bytes", dim_json(conversion.bytes)},
          {"predicted", cost_json(conversion.cost)}};
}

}  // namespace

std::string misfits_text(const LoweredProgram& program, const std::string& node) {
  std::string text;
  for (const KernelStep& step : program.steps) {
    const bool is_of_node = std::ranges::find(step.node->origin, node) != step.node->origin.end();
    if (is_of_node && !step.misfit.empty())
      text += fmt::format("{}: {}\n", program.kernels[step.kernel].name, misfit_text(step.misfit));
  }
  return text;
}

std::string to_text(const Explanations& explanations, size_t width) {
  const auto kernels = std::ranges::count_if(
      explanations.kernels, [](const Explanations::Kernel& kernel) { return kernel.step.has_value(); });
  std::string text = fmt::format("for {}: {} kernels\n\n", explanations.target, kernels);
  for (const Explanations::Kernel& kernel : explanations.kernels)
    text += kernel_text(explanations, kernel, width);
  text += '\n';
  text += heading(fmt::format("layout conversions: {}", explanations.conversions.size()));
  for (const Explanations::Conversion& conversion : explanations.conversions)
    text += conversion_text(explanations, conversion, width);
  if (explanations.memories.empty()) text += "\nno value needs planned memory\n";
  for (const MemoryMap& map : explanations.memories) {
    text += '\n';
    text += to_text(map, width);
  }
  return text;
}

Json to_json(const Explanations& explanations) {
  Json json{{"target", explanations.target}};
  for (const char* list : {"kernels", "conversions", "memories"}) json[list] = Json::array();
  for (const Explanations::Kernel& kernel : explanations.kernels)
    json["kernels"].push_back(kernel_json(explanations, kernel));
  for (const Explanations::Conversion& conversion : explanations.conversions)
    json["conversions"].push_back(conversion_json(explanations, conversion));
  for (const MemoryMap& map : explanations.memories) json["memories"].push_back(to_json(map));
  return json;
}

}  // namespace gantry::cli
