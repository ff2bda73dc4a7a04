#include "host/records/generator.h"

#include <fmt/format.h>

#include "generator_digest.h"
#include "host/codegen/llvm_version.h"

namespace gantry::records {

const std::string& generator_version() {
  static const std::string version =
      fmt::format("{}-{}-llvm{}", GANTRY_VERSION, GANTRY_GENERATOR_DIGEST, llvm_version());
  return version;
}

}  // namespace gantry::records
