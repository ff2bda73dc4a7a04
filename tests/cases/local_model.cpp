#include "tests/cases/local_model.h"

#include <cstdlib>

namespace gantry::testing {

std::string device_for(const std::string& target) {
  for (const std::string device : {"cuda-emulated", "cuda"}) {
    if (target.starts_with(device)) return device;
  }
  return "cpu";
}

std::string gpu_test_target(const std::string& checks) {
  if (const char* given = std::getenv("GANTRY_TEST_GPU"); given != nullptr && *given != '\0') return given;
  return "cuda-emulated:sm_80" + checks;
}

}  // namespace gantry::testing
