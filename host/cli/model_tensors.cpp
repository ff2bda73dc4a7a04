#include "host/cli/model_tensors.h"

#include <fmt/ranges.h>

#include "host/support/error.h"
#include "host/support/suggest.h"

namespace gantry::cli {

std::vector<std::string> names_of(const std::vector<rpc::TensorDescription>& tensors) {
  std::vector<std::string> names;
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  return names;
}

size_t find_tensor(const std::vector<rpc::TensorDescription>& tensors, const std::string& name,
                   const std::string& kind, const std::string& option, const std::string& advice) {
  const std::vector<std::string> names = names_of(tensors);
  if (name.empty()) {
    if (tensors.size() == 1) return 0;
    const size_t space = option.find(' ');
    user_error("{}: the model has {} {}s; say which: {}NAME={}, with NAME one of {}", option, tensors.size(),
               kind, option.substr(0, space + 1), option.substr(space + 1), fmt::join(names, ", "));
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == name) return i;
  }
  const std::string hint = did_you_mean(name, names);
  user_error("{}: the model has no {} '{}'{} Its {}s: {}{}", option, kind, name, hint.empty() ? "." : hint,
             kind, fmt::join(names, ", "), advice);
}

bool shape_fits(const std::vector<int64_t>& wanted, const std::vector<int64_t>& given) {
  if (wanted.size() != given.size()) return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] >= 0 && given[i] >= 0 && wanted[i] != given[i]) return false;
  }
  return true;
}

void check_input(const rpc::TensorDescription& wanted, const rpc::ElementType& type,
                 const std::vector<int64_t>& shape, const std::string& source) {
  if (type != wanted.type) {
    user_error("{}: holds {}, but input '{}' takes {}", source, type_name(type), wanted.name,
               type_name(wanted.type));
  }
  if (!shape_fits(wanted.shape, shape)) {
    user_error("{}: has shape {}, but input '{}' takes {}", source, shape_text(shape), wanted.name,
               shape_text(wanted.shape));
  }
}

}  // namespace gantry::cli
