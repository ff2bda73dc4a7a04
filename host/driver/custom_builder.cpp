#include "host/driver/custom_builder.h"

#include <algorithm>
#include <array>

#include "host/ops/custom.h"
#include "host/support/error.h"

namespace gantry {
namespace {

class CallBuilder {
 public:
  CallBuilder(const KernelWork& work, const CustomAttrs& attrs)
      : work_(work), step_(work.steps().front()), attrs_(attrs) {}

  BuiltKernel build_launch(const std::string& name) {
    BuiltKernel built = build(name);
    LoopKernel& kernel = built.kernel;
    std::array<Expr, 3> grid = {Expr(1), Expr(1), Expr(1)}, blocks;
    for (size_t i = 0; i < grid.size(); ++i) {
      blocks[i] = make_var("block_" + std::to_string(i));
      if (i < attrs_.blocks.size()) grid[i] = Expr(attrs_.blocks[i]);
      built.sizes.grids.push_back(i < attrs_.blocks.size() ? attrs_.blocks[i] : Dim(1));
    }
    // Its threads run the user's code: of this launch only the shape counts.
    kernel.body = launch(blocks, grid, make_var("thread"), attrs_.code->gpu->threads, barrier());
    kernel.symbols.clear();
    built.sizes.dims = attrs_.sizes;
    for (const Dim& size : attrs_.sizes) {
      kernel.symbols.push_back("size." + std::to_string(kernel.symbols.size()));
      kernel.stages += fmt::format("    {} = {}\n", kernel.symbols.back(), size.str());
    }
    return built;
  }

  BuiltKernel build(const std::string& name) {
    built_.kernel.name = name;
    call_.code = attrs_.code;
    call_.attributes = parse_custom_attributes(attrs_.attributes);
    for (size_t i = 0; i < work_.buffer_slots().size(); ++i)
      add_argument("in" + std::to_string(i),
                   work_.slots()[static_cast<size_t>(work_.buffer_slots()[i])].type);
    built_.kernel.input_count = static_cast<int>(built_.kernel.arguments.size());
    for (size_t i = 0; i < step_.inputs.size(); ++i) add_input(step_.inputs[i]);
    for (const TensorType& type : step_.result_types) {
      call_.outputs.push_back({true, type, add_argument("out" + std::to_string(call_.outputs.size()), type)});
      note_symbols(type.shape);
    }
    add_scratch();
    built_.kernel.stages = to_string(call_);
    for (const std::string& symbol : built_.kernel.symbols) built_.sizes.dims.push_back(Dim::symbol(symbol));
    built_.custom = std::make_shared<const CustomCall>(std::move(call_));
    return std::move(built_);
  }

 private:
  int add_buffer(std::vector<Buffer>& list, const std::string& name, DType dtype, const Dim& count,
                 BufferScope scope) {
    auto buffer = std::make_shared<BufferNode>();
    buffer->name = name;
    buffer->dtype = dtype;
    buffer->element_count = Expr(count);
    buffer->scope = scope;
    list.push_back(std::move(buffer));
    return static_cast<int>(built_.kernel.arguments.size() + built_.kernel.scratch.size()) - 1;
  }
  int add_argument(const std::string& name, const TensorType& type) {
    return add_buffer(built_.kernel.arguments, name, type.dtype, element_count(type.shape),
                      BufferScope::kArgument);
  }

  void add_input(int slot) {
    if (slot == KernelWork::kAbsent) {
      call_.inputs.push_back({false, {}});
      return;
    }
    const KernelWork::Slot& read = work_.slots()[static_cast<size_t>(slot)];
    CustomCall::Tensor tensor{true, read.type};
    if (read.immediate) {
      tensor.immediate.assign(reinterpret_cast<const char*>(read.immediate->bytes), read.immediate->size);
    } else {
      const auto found = std::ranges::find(work_.buffer_slots(), slot);
      tensor.buffer = static_cast<int>(found - work_.buffer_slots().begin());
      note_symbols(read.type.shape);
    }
    call_.inputs.push_back(std::move(tensor));
  }

  void add_scratch() {
    if (attrs_.scratch == Dim(0)) return;
    call_.scratch_bytes = attrs_.scratch;
    call_.scratch =
        add_buffer(built_.kernel.scratch, "scratch", DType::kU8, attrs_.scratch, BufferScope::kScratch);
    built_.sizes.scratch_bytes.push_back(attrs_.scratch);
    note_symbols({attrs_.scratch});
  }

  void note_symbols(const Shape& dims) {
    auto& symbols = built_.kernel.symbols;
    for (const Dim& dim : dims) {
      if (!dim.is_constant() && std::ranges::find(symbols, dim.str()) == symbols.end())
        symbols.push_back(dim.str());
    }
  }

  const KernelWork& work_;
  const KernelWork::Step& step_;
  const CustomAttrs& attrs_;
  CustomCall call_;
  BuiltKernel built_;
};

}  // namespace

BuiltKernel build_custom_kernel(const KernelWork& work, const std::string& name) {
  const auto* attrs = dynamic_cast<const CustomAttrs*>(work.steps().front().attrs.get());
  internal_check(attrs != nullptr, "a kernel's step is no custom op");
  if (attrs->code == nullptr)
    user_error(
        "the custom op {} has no code here: give the folder or library that has its kernel with --custom-ops",
        attrs->op);
  return CallBuilder(work, *attrs).build(name);
}

BuiltKernel build_custom_launch(const KernelWork& work, const std::string& name) {
  const auto* attrs = dynamic_cast<const CustomAttrs*>(work.steps().front().attrs.get());
  internal_check(attrs != nullptr && attrs->code != nullptr && attrs->code->gpu,
                 "a kernel's step has no code for GPUs");
  return CallBuilder(work, *attrs).build_launch(name);
}

std::vector<NamedCustomCall> custom_calls(const Program& program, const Target& target, bool on_gpu) {
  const bool has_gpu = target.device == DeviceKind::kGpu;
  std::vector<NamedCustomCall> calls;
  for (const auto& [kernel, call] : program.custom) {
    if ((has_gpu && program.on_gpu[kernel]) != on_gpu) continue;
    calls.push_back({program.kernels[kernel].name, program.kernels[kernel].symbols, call});
  }
  return calls;
}

}  // namespace gantry
