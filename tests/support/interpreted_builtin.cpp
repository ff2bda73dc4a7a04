#include "tests/support/interpreted_builtin.h"

#include <deque>

#include "device_runtime/src/builtins.h"
#include "host/graph/strings.h"
#include "host/ops/builtin.h"
#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry::testing {
namespace {

/// The strings of this process.
class ProcessStrings : public runtime::SessionStrings {
 public:
  runtime::Status set_input(uint32_t, uint64_t, std::span<const std::byte>) override { return {}; }
  runtime::Status begin_run(uint64_t) override { return {}; }
  runtime::Status write_input(uint32_t, uint64_t*, uint64_t) override { return {}; }
  runtime::Result<uint64_t> intern(std::string_view text) override { return gantry::intern(text); }
  runtime::Result<std::string_view> text(uint64_t number) const override { return string_of(number); }
  uint64_t bytes() const override { return 0; }
};

}  // namespace

std::vector<ConstantPtr> interpret_builtin(const Node& node, const std::vector<ConstantPtr>& inputs) {
  const BuiltinAttributes attributes = builtin_attributes(node).value();
  std::deque<std::vector<int64_t>> shapes;
  const auto tensor = [&](const TensorType& type, const std::byte* bytes) {
    shapes.push_back(*constant_shape(type.shape));
    const auto count = static_cast<uint64_t>(element_count(type.shape).value());
    return runtime::BuiltinTensor{static_cast<runtime::ElementType>(type.dtype), shapes.back(),
                                  const_cast<std::byte*>(bytes), count};
  };
  std::vector<runtime::BuiltinTensor> in, out;
  for (const ConstantPtr& input : inputs) {
    if (input) in.push_back(tensor(input->type, input->bytes));
  }
  std::vector<ConstantPtr> results;
  for (const Value* result : node.results) {
    std::byte* bytes = nullptr;
    results.push_back(allocate_constant(result->type, &bytes));
    out.push_back(tensor(result->type, bytes));
  }
  ProcessStrings strings;
  const runtime::Status status =
      runtime::builtin_part()->call({node.op->name, in, out, attributes.integers, attributes.text, &strings});
  if (!status.ok()) user_error("{}", status.message());
  return results;
}

}  // namespace gantry::testing
