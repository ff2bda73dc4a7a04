#include "host/driver/left_to_cpu.h"

#include <fmt/format.h>

#include "host/ops/bind_dims.h"
#include "host/ops/builtin.h"

namespace gantry {

std::string why_left_to_cpu(const Function& main, const Target& target) {
  if (!target.for_gpu()) return "";
  const bool builtins = calls_builtins(main);
  if (!builtins && !binds_symbols(main)) return "";
  return fmt::format(
      "{}: {}, so the whole model runs on the CPU", target.name,
      builtins ? "it decodes images, makes strings or looks into them" : "sizes depend on data");
}

Target cpu_by_name_of(const Target& target) {
  Target cpu = host_target(target);
  cpu.name = target.name;
  return cpu;
}

}  // namespace gantry
