// Variants for GPUs: what the module says of kernels, launches, memories and copies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "device_runtime/src/module_reader.h"
#include "host/codegen/find_target.h"
#include "host/driver/compile.h"
#include "host/ops/op.h"
#include "host/support/error.h"

namespace gantry {
namespace {

namespace mf = module_format;

Graph chain() {
  return parse_graph(
      "fn @main(%x: Tensor[(1, 16, 8, 8), f32]) -> Tensor[(1, 16, 8, 8), f32] {\n"
      "  %a = add(%x, @offset: Tensor[(1, 16, 8, 8), f32])\n"
      "  %b = nn.relu(%a)\n"
      "  %c = nn.softmax(%b, axis=1)\n  return %c\n}\n",
      op_set());
}
Graph symbolic() {
  return parse_graph(
      "fn @main(%x: Tensor[(N, 300), f32]) -> Tensor[(N, 300), f32] {\n"
      "  %a = multiply(%x, @scale: Tensor[(300), f32])\n  %b = nn.relu(%a)\n  return %b\n}\n",
      op_set());
}

ModuleFile compile(const Graph& graph, const std::vector<std::string>& targets,
                   Precision precision = Precision::kFp32) {
  CompileOptions options;
  for (const std::string& target : targets) options.targets.push_back(find_target(target));
  options.precision = precision;
  options.verify = true;
  return compile_graph(graph, options);
}

/// Every launch is an entry of the PTX, has a grid in each call, and sees buffers of the GPU only.
void expect_consistent(const ModuleFile& module, const mf::VariantT& variant) {
  ASSERT_GE(variant.ptx_segment, 0);
  const auto ptx_index = static_cast<size_t>(variant.ptx_segment);
  EXPECT_EQ(module.segment_kinds[ptx_index], mf::SegmentKind::Ptx);
  const auto& bytes = module.segments[ptx_index].pieces[0].bytes;
  const std::string ptx(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const auto& step : variant.steps) {
    const auto* call = step->action.AsCallKernel();
    if (!call) continue;
    const mf::KernelT& kernel = *variant.kernels[call->kernel];
    EXPECT_EQ(call->grids.size(), 3 * kernel.launches.size()) << kernel.symbol;
    EXPECT_EQ(call->buffers.size(), kernel.buffer_count) << kernel.symbol;
    for (uint32_t buffer : call->buffers)
      EXPECT_EQ(variant.buffers[buffer]->device, kernel.device) << kernel.symbol;
    for (const auto& launch : kernel.launches) {
      EXPECT_NE(ptx.find(".entry " + launch->symbol + "("), std::string::npos) << launch->symbol;
      EXPECT_GE(launch->threads, 1u);
      EXPECT_LE(launch->threads, 1024u);
      EXPECT_LE(launch->shared_bytes, 48u << 10);
      EXPECT_LT(launch->loop, static_cast<int>(call->loops.size()));
    }
  }
}

TEST(GpuModule, HoldsPtxAndThePlanOfItsLaunches) {
  const ModuleFile module = compile(chain(), {"cuda:sm_80/x86-64-v3"});
  const mf::VariantT& variant = *module.manifest.variants[0];
  EXPECT_EQ(variant.target, "cuda:sm_80/x86-64-v3");
  EXPECT_EQ(variant.device, mf::Device::Cuda);
  EXPECT_EQ(variant.gpu_arch, "sm_80");
  EXPECT_EQ(variant.architecture, mf::Architecture::X86_64);
  EXPECT_EQ(variant.features, find_target("x86-64-v3").features);
  EXPECT_EQ(
      std::ranges::count_if(variant.kernels, [](const auto& k) { return k->device == mf::Device::Cuda; }),
      static_cast<std::ptrdiff_t>(variant.kernels.size()));
  expect_consistent(module, variant);
}

TEST(GpuModule, GridsFollowSymbolicDimensions) {
  ModuleFile module = compile(symbolic(), {"cuda:sm_75"});
  const mf::VariantT& variant = *module.manifest.variants[0];
  expect_consistent(module, variant);
  bool symbolic_grid = false;
  for (const auto& step : variant.steps) {
    for (uint32_t grid : step->action.AsCallKernel()->grids) {
      for (const mf::DimStep& part : module.manifest.dim_exprs[grid]->steps) {
        symbolic_grid = symbolic_grid || part.opcode() == mf::DimOpcode::Symbol;
      }
    }
  }
  EXPECT_TRUE(symbolic_grid);
}

TEST(GpuModule, StandsBesideOtherVariantsAndIsReadBack) {
  ModuleFile module = compile(chain(), {"cuda:sm_75", "cuda:sm_90", "x86-64-v2", "aarch64", "cuda-emulated"});
  ASSERT_EQ(module.manifest.variants.size(), 5u);
  EXPECT_EQ(module.manifest.variants[4]->device, mf::Device::CudaEmulated);
  EXPECT_EQ(module.manifest.variants[4]->ptx_segment, -1);
  for (const auto& variant : module.manifest.variants) {
    for (const auto& buffer : variant->buffers) {
      EXPECT_EQ(buffer->device == mf::Device::Cuda, variant->device == mf::Device::Cuda);
    }
  }
  const std::string path = testing::TempDir() + "gpu_module_test.gmod";
  write_module(module, path);
  auto read = runtime::ModuleContents::open(path);
  EXPECT_TRUE(read.ok()) << read.status().message();
  std::remove(path.c_str());
}

TEST(GpuModule, IsTheSameForTheSameModel) {
  ModuleFile first = compile(chain(), {"cuda:sm_80"}), second = compile(chain(), {"cuda:sm_80"});
  EXPECT_EQ(serialize_module(first), serialize_module(second));
}

/// relu as a loop nest that was written for CPUs only.
OpDef relu_of_cpus() {
  OpDef op = *op_set().find("nn.relu");
  op.fusion = FusionClass::kOpaque;
  op.compute = [](const Node&, const std::vector<Tensor>& in) {
    auto body = [count = in[0].shape()[0]](LoopBuilder& builder) {
      builder.loop("i", count, [&](Expr i) {
        builder.emit(store(builder.result(0), i, max(load(builder.input(0), i), float_imm(DType::kF32, 0))));
      });
    };
    return extern_kernel({in[0]}, {in[0].shape()}, {in[0].dtype()}, body, "relu");
  };
  return op;
}

TEST(GpuModule, CopiesValuesThatCrossBetweenTheDevices) {
  Graph graph = parse_graph(
      "fn @main(%x: Tensor[(65536), f32]) -> Tensor[(65536), f32] {\n"
      "  %a = exp(%x)\n  %b = nn.relu(%a)\n  %c = tanh(%b)\n  return %c\n}\n",
      op_set());
  const OpDef on_cpu = relu_of_cpus();
  graph.main.nodes()[1]->op = &on_cpu;
  CompileOptions options;
  options.targets = {find_target("cuda:sm_80")};
  options.opt_level = 0;  // one kernel a node
  const ModuleFile module = compile_graph(graph, options);
  const mf::VariantT& variant = *module.manifest.variants[0];
  expect_consistent(module, variant);
  std::vector<std::string> steps;
  auto name = [&](uint32_t buffer) { return variant.buffers[buffer]->device == mf::Device::Cuda ? "gpu" : "cpu"; };
  for (const auto& step : variant.steps) {
    if (const auto* copy = step->action.AsCopyBuffer()) {
      steps.push_back(std::string("copy ") + name(copy->source) + " " + name(copy->target));
    } else {
      const mf::KernelT& kernel = *variant.kernels[step->action.AsCallKernel()->kernel];
      steps.emplace_back(kernel.device == mf::Device::Cuda ? "gpu" : "cpu");
    }
  }
  EXPECT_THAT(steps, testing::ElementsAre("gpu", "copy gpu cpu", "cpu", "copy cpu gpu", "gpu"));
}

TEST(GpuModule, EmptyResultsTakeNoKernel) {
  const Graph graph = parse_graph(
      "fn @main(%x: Tensor[(7, 5), f32]) -> (Tensor[(0, 5), f32], Tensor[(7, 5), f32]) {\n"
      "  %0 = strided_slice(%x, begin=(7, 0), end=(7, 5), strides=[1, 1])\n"
      "  %1 = nn.relu(%x)\n"
      "  return %0, %1\n}\n",
      op_set());
  for (const char* target : {"cuda:sm_80", "cuda-emulated:sm_80/x86-64-v2", "x86-64-v2"}) {
    const ModuleFile module = compile(graph, {target});
    EXPECT_EQ(module.manifest.variants[0]->kernels.size(), 1u) << target;
    EXPECT_EQ(module.manifest.variants[0]->steps.size(), 1u) << target;
  }
}

TEST(GpuModule, PrecisionsThatTheTargetLacksAreRefused) {
  EXPECT_THROW(compile(chain(), {"x86-64-v3"}, Precision::kTf32), Error);
  EXPECT_THROW(compile(chain(), {"cuda:sm_75"}, Precision::kBf16), Error);
  EXPECT_NO_THROW(compile(chain(), {"cuda:sm_80"}, Precision::kTf32));
}

TEST(GpuModule, SaysThePrecisionOfWhatComputes) {
  const Graph left_to_the_cpu = parse_graph(
      "fn @main(%x: Tensor[(4), f32]) -> Tensor[(1, n), i64] {\n  %0 = cast(%x, to=i64)\n"
      "  %1 = sum(%0, axes=[0], keepdims=false)\n  %2 = bind_dims(%1, symbols=(n))\n"
      "  %3 = nonzero_positions(%x, extents=(n))\n  return %3\n}\n",
      op_set());
  const auto precision = [](const Graph& graph, const std::string& target) {
    return compile(graph, {target}, Precision::kBf16).manifest.variants[0]->precision;
  };
  EXPECT_EQ(precision(chain(), "cuda:sm_80"), "bf16");
  EXPECT_EQ(precision(left_to_the_cpu, "cuda:sm_80"), "fp32");
}

}  // namespace
}  // namespace gantry
