// Custom kernels for GPUs: PTX in modules.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "host/codegen/find_target.h"
#include "host/custom_ops/custom_ops.h"
#include "host/driver/compile.h"
#include "host/onnx/import.h"
#include "tests/support/message_of.h"

namespace gantry {
namespace {

using testing::message_of;

// y[i] = factor * x[i], factor an integer
constexpr const char* kPtx = R"(//
.version 7.1
.target sm_70
.address_size 64

.visible .entry scale(
	.param .u64 scale_x, .param .u64 scale_y, .param .u64 scale_count, .param .u64 scale_factor
)
{
	.reg .pred %p<2>;
	.reg .b32 %r<4>;
	.reg .f32 %f<4>;
	.reg .b64 %d<10>;
	ld.param.u64 %d1, [scale_x];
	ld.param.u64 %d2, [scale_y];
	ld.param.u64 %d3, [scale_count];
	ld.param.u64 %d4, [scale_factor];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %tid.x;
	mad.lo.u32 %r3, %r1, 128, %r2;
	cvt.u64.u32 %d5, %r3;
	setp.ge.s64 %p1, %d5, %d3;
	@%p1 bra done;
	shl.b64 %d6, %d5, 2;
	add.s64 %d7, %d1, %d6;
	add.s64 %d8, %d2, %d6;
	ld.global.f32 %f1, [%d7];
	cvt.rn.f32.s64 %f2, %d4;
	mul.f32 %f3, %f1, %f2;
	st.global.f32 [%d8], %f3;
done:
	ret;
}
)";

const std::string kOp =
    "[[op]]\ndomain = \"d\"\nname = \"Scale\"\ninputs = [\"x: f32[N, C]\"]\noutputs = [\"y: f32[N, C]\"]\n"
    "attributes = [\"factor: int\"]\n[op.kernel]\nfunction = \"f\"\nx86-64 = \"a.o\"\n[op.kernel.cuda]\ncode "
    "= \"a.ptx\"\n";
const std::string kLaunch =
    "entry = \"scale\"\nthreads = 128\nblocks = \"floordiv(N * C + 127, 128)\"\nsizes = [\"N * C\", "
    "\"factor\"]\n";

std::shared_ptr<const CustomOps> ops(const std::string& launch, const std::string& ptx = kPtx) {
  return std::make_shared<const CustomOps>(
      parse_custom_ops(kOp + launch, "ops.toml",
                       [&](const std::string& name) { return name == "a.ptx" ? ptx : "code"; }),
      std::vector<std::string>());
}

/// x -> Scale -> Scale -> y, of N rows of 4096 numbers.
Graph model(std::shared_ptr<const CustomOps> custom) {
  const auto node = [](const std::string& in, const std::string& out, int factor) {
    return "node { name: '" + out + "' domain: 'd' op_type: 'Scale' input: '" + in + "' output: '" + out +
           "' attribute { name: 'factor' type: INT i: " + std::to_string(factor) + " } } ";
  };
  const auto tensor = [](const std::string& kind, const std::string& name) {
    return kind + " { name: '" + name +
           "' type { tensor_type { elem_type: 1 shape { dim { dim_param: 'N' } dim { dim_value: 4096 } } } } "
           "} ";
  };
  onnx::ModelProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "ir_version: 8 opset_import { version: 17 } opset_import { domain: 'd' version: 1 } graph { name: "
      "'g' " +
          node("x", "m", 2) + node("m", "y", 3) + tensor("input", "x") + tensor("output", "y") + "}",
      &proto));
  ImportOptions options;
  options.custom_ops = std::move(custom);
  return import_onnx_bytes(proto.SerializeAsString(), "", options);
}

ModuleFile compiled(std::shared_ptr<const CustomOps> custom, const std::string& target) {
  CompileOptions options;
  options.targets = {find_target(target)};
  return compile_graph(model(std::move(custom)), options);
}

std::string ptx_of(const ModuleFile& module) {
  std::string text;
  for (size_t i = 0; i < module.segments.size(); ++i) {
    if (module.segment_kinds[i] != module_format::SegmentKind::Ptx) continue;
    for (const SegmentPiece& piece : module.segments[i].pieces)
      text.append(reinterpret_cast<const char*>(piece.bytes.data()), piece.bytes.size());
  }
  return text;
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(CustomGpuKernel, IsALaunchOfTheUsersPtxWithItsSizes) {
  const ModuleFile module = compiled(ops(kLaunch), "cuda:sm_80");
  const auto& variant = *module.manifest.variants.at(0);
  ASSERT_EQ(variant.kernels.size(), 2u);  // of one factor each
  for (const auto& kernel : variant.kernels) {
    EXPECT_EQ(kernel->device, module_format::Device::Cuda);
    EXPECT_EQ(kernel->buffer_count, 2u);
    EXPECT_EQ(kernel->dim_count, 2u);
    ASSERT_EQ(kernel->launches.size(), 1u);
    EXPECT_EQ(kernel->launches[0]->threads, 128u);
    EXPECT_EQ(kernel->launches[0]->symbol, variant.kernels[0]->launches[0]->symbol);
  }
  const std::string ptx = ptx_of(module), entry = variant.kernels[0]->launches[0]->symbol;
  EXPECT_EQ(count_of(ptx, ".entry " + entry + "("), 1u) << ptx;
  EXPECT_EQ(count_of(ptx, ".version"), 1u);
  EXPECT_EQ(count_of(ptx, ".target"), 1u);
  EXPECT_EQ(count_of(ptx, ".target sm_80"), 1u);
  // The calls' grids and sizes, as dimension programs: N * 4096 / 128 blocks, N * 4096 elements, the factor.
  size_t calls = 0;
  for (const auto& step : variant.steps) {
    const auto* call = step->action.AsCallKernel();
    if (call == nullptr) continue;
    ++calls;
    EXPECT_EQ(call->grids.size(), 3u);
    EXPECT_EQ(call->dims.size(), 2u);
    EXPECT_EQ(call->buffers.size(), 2u);
  }
  EXPECT_EQ(calls, 2u);
}

TEST(CustomGpuKernel, OnAnEmulatedGpuTheCodeForCpusRuns) {
  // Which is no object here: it is looked at, so that this is the error.
  const std::string error = message_of([] { compiled(ops(kLaunch), "cuda-emulated:sm_80/x86-64-v2"); });
  EXPECT_NE(error.find("a.o of ops.toml: is no object file that can be linked"), std::string::npos) << error;
}

TEST(CustomGpuKernel, WhatDoesNotFitIsNamed) {
  EXPECT_EQ(message_of([] {
              compiled(ops(kLaunch, ".version 7.0\n.target sm_70\n.entry other() { ret; }\n"), "cuda:sm_80");
            }),
            "custom op d::Scale for cuda:sm_80: a.ptx of ops.toml: has no .entry scale");
  std::string newer = kPtx;
  newer.replace(newer.find("sm_70"), 5, "sm_90");
  EXPECT_EQ(message_of([&] { compiled(ops(kLaunch, newer), "cuda:sm_80"); }),
            "custom op d::Scale for cuda:sm_80: a.ptx of ops.toml: is for sm_90, which is newer than sm_80");
  EXPECT_EQ(message_of([] { ops("entry = \"scale\"\nthreads = 2000\nblocks = \"1\"\n"); }),
            "ops.toml: d::Scale: kernel.cuda: a block has 1 to 1024 threads");
  EXPECT_EQ(message_of([] { ops("entry = \"scale\"\nthreads = 32\n"); }),
            "ops.toml: d::Scale: kernel.cuda: blocks are those along x, y and z");
  EXPECT_EQ(message_of([] { ops("entry = \"scale\"\nthreads = 32\nblocks = \"M\"\n"); }),
            "ops.toml: d::Scale: kernel.cuda: blocks: M is neither the size of an input before it nor an "
            "attribute that is an int "
            "with a value: sizes that only the kernel knows cannot be said");
  EXPECT_EQ(message_of([] { ops("entry = \"scale\"\nthreads = 32\nblocks = \"1\"\nshared = 4\n"); }),
            "ops.toml: d::Scale: unknown key 'shared'");
}

}  // namespace
}  // namespace gantry
