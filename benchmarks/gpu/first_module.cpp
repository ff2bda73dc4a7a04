#include "benchmarks/gpu/first_module.h"

#include "tests/device_runtime/cuda_module.h"

namespace gantry::gpu_bundle {
namespace {

using conformance::PackedCase;

/// Comments name the kernels for the stand-in of the driver, which takes lines "entry NAME". Parameters are
/// those of any module: the buffers' addresses, then the dimensions in 64 bits.
constexpr const char* kPtx = R"(.version 6.3
.target sm_75
.address_size 64

// entry add_one
.visible .entry add_one(.param .u64 add_one_in, .param .u64 add_one_out, .param .u64 add_one_n)
{
  .reg .pred %p<2>;
  .reg .f32 %f<3>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [add_one_in];
  ld.param.u64 %rd2, [add_one_out];
  ld.param.u64 %rd3, [add_one_n];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  cvt.u64.u32 %rd4, %r3;
  mad.wide.u32 %rd5, %r1, %r2, %rd4;
  setp.ge.s64 %p1, %rd5, %rd3;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd6, %rd1;
  cvta.to.global.u64 %rd7, %rd2;
  shl.b64 %rd8, %rd5, 2;
  add.s64 %rd6, %rd6, %rd8;
  add.s64 %rd7, %rd7, %rd8;
  ld.global.f32 %f1, [%rd6];
  add.f32 %f2, %f1, 0f3F800000;
  st.global.f32 [%rd7], %f2;
DONE:
  ret;
}

// entry scale
.visible .entry scale(.param .u64 scale_in, .param .u64 scale_weights, .param .u64 scale_out, .param .u64 scale_n)
{
  .reg .pred %p<3>;
  .reg .f32 %f<5>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<14>;
  ld.param.u64 %rd1, [scale_in];
  ld.param.u64 %rd2, [scale_weights];
  ld.param.u64 %rd3, [scale_out];
  ld.param.u64 %rd4, [scale_n];
  cvta.to.global.u64 %rd5, %rd1;
  cvta.to.global.u64 %rd6, %rd2;
  cvta.to.global.u64 %rd7, %rd3;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  cvt.u64.u32 %rd8, %r3;
  mad.wide.u32 %rd9, %r1, %r2, %rd8;
  setp.ge.s64 %p1, %rd9, %rd4;
  @%p1 bra DONE;
  ld.global.f32 %f1, [%rd5];
  setp.lt.f32 %p2, %f1, 0fC47A0000;
  @!%p2 bra RIGHT;
  mov.u64 %rd10, 16;
  st.global.f32 [%rd10], %f1;
RIGHT:
  shl.b64 %rd11, %rd9, 2;
  add.s64 %rd5, %rd5, %rd11;
  add.s64 %rd6, %rd6, %rd11;
  add.s64 %rd7, %rd7, %rd11;
  ld.global.f32 %f2, [%rd5];
  ld.global.f32 %f3, [%rd6];
  mul.f32 %f4, %f2, %f3;
  st.global.f32 [%rd7], %f4;
DONE:
  ret;
}
)";

std::string module_file() {
  runtime::testing::CudaModuleBuilder builder = runtime::testing::cuda_module();
  builder.variant().target = "cuda:sm_75/here";
  builder.variant().gpu_arch = "sm_75";
  builder.set_ptx(kPtx);
  builder.segments[0].clear();  // no kernel runs on the CPU
  const std::vector<std::byte> bytes = builder.write();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ConstantPtr row_of_four(const float (&values)[4]) {
  return make_constant({DType::kF32, {1, 4}}, values);
}

PackedCase case_of(const char* name, const std::string& module, const float (&input)[4]) {
  float output[4];
  for (int i = 0; i < 4; ++i) output[i] = (input[i] + 1) * static_cast<float>(i + 1);
  return {name, "", true, module, {row_of_four(input)}, {row_of_four(output)}, {0, 0}};
}

}  // namespace

std::vector<PackedCase> first_cases() {
  const std::string module = module_file();
  return {case_of("first_kernel", module, {0, 1, 2, 3}), case_of("faulty_kernel", module, {-5000, 1, 2, 3})};
}

}  // namespace gantry::gpu_bundle
