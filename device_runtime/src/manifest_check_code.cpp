#include <string.h>

#include "device_runtime/src/manifest_checker.h"

namespace gantry::runtime::manifest {
namespace {

// A kernel with more launches, a block with more threads or shared memory are on no GPU.
constexpr uint32_t kMaxLaunches = 1024;
constexpr uint32_t kMaxBlockThreads = 1024;
constexpr uint32_t kMaxSharedBytes = 1u << 20;

}  // namespace

Status ManifestChecker::check_code(const Variant& variant) {
  bool on_gpu = false;
  for (const Kernel* kernel : *variant.kernels()) {
    GANTRY_TRY(check_kernel(variant, *kernel));
    on_gpu = on_gpu || kernel->device() == Device::Cuda;
  }
  // There is one for every variant; with no kernel of the CPU it may be empty.
  if (variant.code_segment() >= count(manifest_.segments()) ||
      manifest_.segments()->Get(variant.code_segment())->kind() != SegmentKind::Code) {
    return damaged("its code is not in a segment of code");
  }
  return variant.device() == Device::Cuda ? check_gpu_code(variant, on_gpu) : Status();
}

Status ManifestChecker::check_gpu_code(const Variant& variant, bool needed) {
  const auto is_segment = [&](int32_t index, SegmentKind kind) {
    return index >= 0 && static_cast<uint32_t>(index) < count(manifest_.segments()) &&
           manifest_.segments()->Get(static_cast<uint32_t>(index))->kind() == kind;
  };
  const bool has_ptx = variant.ptx_segment() != -1, has_cubin = variant.cubin_segment() != -1;
  if (has_ptx && !is_segment(variant.ptx_segment(), SegmentKind::Ptx))
    return damaged("its PTX is not in a segment of PTX");
  if (has_cubin && !is_segment(variant.cubin_segment(), SegmentKind::Cubin))
    return damaged("its assembled code is not in a segment of such");
  if (needed && !has_ptx && !has_cubin) return damaged("it has kernels for a GPU and no code for them");
  const uint32_t length = variant.gpu_arch() == nullptr ? 0 : variant.gpu_arch()->size();
  const char* arch = length == 0 ? "" : variant.gpu_arch()->c_str();
  const bool digits = length >= 5 && length <= 8 && strncmp(arch, "sm_", 3) == 0 && arch[3] >= '1' &&
                      arch[3] <= '9' && arch[4] >= '0' && arch[4] <= '9';
  if (!digits) return damaged("it names no architecture of a GPU");
  if (!is_dim(variant.gpu_workspace_bytes()))
    return damaged("the size of the workspace on the GPU is not in the list of dimensions");
  return Status();
}

Status ManifestChecker::check_kernel(const Variant& variant, const Kernel& kernel) {
  const uint64_t op_size = kernel.op() == nullptr ? 0 : kernel.op()->size();
  GANTRY_TRY(spend(kernel.symbol()->size() + uint64_t{kernel.name()->size()} + op_size));
  if (kernel.symbol()->size() == 0) return damaged("a kernel has no symbol");
  if (kernel.device() == Device::Cpu) return Status();
  if (kernel.device() != Device::Cuda || variant.device() != Device::Cuda)
    return damaged("kernel '%s' runs on a device that the variant does not have", kernel.symbol()->c_str());
  return check_launches(kernel);
}

Status ManifestChecker::check_launches(const Kernel& kernel) {
  const char* name = kernel.symbol()->c_str();
  if (count(kernel.launches()) == 0 || count(kernel.launches()) > kMaxLaunches)
    return damaged("kernel '%s' runs on a GPU with %u launches", name, count(kernel.launches()));
  for (const Launch* launch : *kernel.launches()) {
    GANTRY_TRY(spend(launch->symbol()->size() + 1));
    if (launch->symbol()->size() == 0) return damaged("a launch of kernel '%s' has no symbol", name);
    if (launch->threads() == 0 || launch->threads() > kMaxBlockThreads)
      return damaged("a launch of kernel '%s' has blocks of %u threads", name, launch->threads());
    if (launch->shared_bytes() > kMaxSharedBytes)
      return damaged("a launch of kernel '%s' has %u bytes of shared memory", name, launch->shared_bytes());
    if (launch->loop() < -1)
      return damaged("a launch of kernel '%s' is in a loop of number %d", name, launch->loop());
  }
  return Status();
}

}  // namespace gantry::runtime::manifest
