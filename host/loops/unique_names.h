// Names of one kernel, each given once. Private to host/loops.
#pragma once

#include <map>
#include <string>

namespace gantry {

class UniqueNames {
 public:
  /// The name itself where it is new, else with a number behind it.
  std::string operator()(const std::string& name) {
    const int count = counts_[name]++;
    return count == 0 ? name : (*this)(name + "_" + std::to_string(count));
  }

 private:
  std::map<std::string, int> counts_;
};

}  // namespace gantry
