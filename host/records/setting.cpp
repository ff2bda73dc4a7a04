#include "host/records/setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "host/machine/target.h"
#include "host/records/generator.h"

namespace gantry::records {

Setting setting_of(const Target& target, std::string machine, int threads, std::string_view optimize) {
  std::vector<std::string> features = host_target(target).features;
  std::ranges::sort(features);
  return {.target = target.name,
          .machine = std::move(machine),
          .features = fmt::format("{}", fmt::join(features, ",")),
          .threads = threads,
          .precision = std::string(name_of(target.precision)),
          .optimize = std::string(optimize),
          .generator = generator_version()};
}

}  // namespace gantry::records
