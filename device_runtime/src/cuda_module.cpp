#include "device_runtime/src/cuda_module.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include <utility>

#include "device_runtime/src/module_reader.h"

namespace gantry::runtime::cuda {
namespace {

using module_format::Variant;

constexpr uint64_t kConstantAlignment = 256;

/// Assembled code runs on GPUs of the same generation that are not older; code for "sm_90a" on exactly that.
bool cubin_fits(const Variant& variant, int compute_capability) {
  if (variant.cubin_segment() < 0) return false;
  const std::string arch = variant.gpu_arch()->str();
  const int built_for = atoi(arch.c_str() + 3);
  if (arch.back() < '0' || arch.back() > '9') return compute_capability == built_for;
  return compute_capability / 10 == built_for / 10 && compute_capability >= built_for;
}

/// The driver trusts the sizes in an ELF file that it is given: they must lie in the segment at least.
bool is_whole_elf(std::span<const std::byte> bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header) return false;
  memcpy(&header, bytes.data(), sizeof header);
  const auto table_ends = [&](uint64_t offset, uint64_t count, uint64_t size) {
    return offset <= bytes.size() && count * size <= bytes.size() - offset;
  };
  return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         table_ends(header.e_shoff, header.e_shnum, header.e_shentsize) &&
         table_ends(header.e_phoff, header.e_phnum, header.e_phentsize);
}

}  // namespace

Program::~Program() {
  if (module_ != nullptr && device_->enter().ok()) device_->driver().unload_module(module_);
}

Result<std::shared_ptr<const Program>> Program::load(std::shared_ptr<Device> device,
                                                     const ModuleContents& contents, const Variant& variant,
                                                     const std::shared_ptr<Weights>& weights) {
  auto program = std::make_shared<Program>();
  program->device_ = std::move(device);
  program->weights_ = weights;
  GANTRY_TRY(program->device_->enter());
  GANTRY_TRY(program->load_code(contents, variant));
  GANTRY_TRY(program->find_functions(variant));
  GANTRY_TRY(program->upload_constants(contents, variant));
  return std::shared_ptr<const Program>(std::move(program));
}

Status Program::load_image(const void* image, const char* what) {
  constexpr uintptr_t kLogBytes = 8192;
  std::string log(kLogBytes, '\0');
  int options[] = {kJitErrorLog, kJitErrorLogBytes};
  void* values[] = {log.data(), reinterpret_cast<void*>(kLogBytes)};
  const ResultCode code = device_->driver().load_module(&module_, image, 2, options, values);
  if (code == 0) return Status();
  if (code == kErrorOutOfMemory) return device_->check(code, "loading the module's kernels");
  log.resize(log.find('\0') == std::string::npos ? log.size() : log.find('\0'));
  return failure(GANTRY_INVALID_MODULE, "the GPU's driver refuses the module's %s for sm_%d: %s%s%s", what,
                 device_->compute_capability(), device_->driver().describe(code).c_str(),
                 log.empty() ? "" : "; its log says:\n", log.c_str());
}

Status Program::load_code(const ModuleContents& contents, const Variant& variant) {
  if (variant.ptx_segment() < 0 && variant.cubin_segment() < 0) return Status();  // it has no kernels for a GPU
  if (cubin_fits(variant, device_->compute_capability())) {
    auto cubin = contents.segment(static_cast<uint32_t>(variant.cubin_segment()));
    if (!cubin.ok()) return cubin.status();
    if (!is_whole_elf(*cubin))
      return failure(GANTRY_INVALID_MODULE, "the module's assembled code is damaged");
    const Status status = load_image(cubin->data(), "assembled code");
    if (status.ok() || variant.ptx_segment() < 0) return status;
  }
  if (variant.ptx_segment() < 0) {
    return failure(GANTRY_INCOMPATIBLE, "the module has no PTX, and its assembled code is for %s",
                   variant.gpu_arch()->c_str());
  }
  auto ptx = contents.segment(static_cast<uint32_t>(variant.ptx_segment()));
  if (!ptx.ok()) return ptx.status();
  // The driver wants a text that ends in a zero.
  const std::string text(reinterpret_cast<const char*>(ptx->data()), ptx->size());
  return load_image(text.c_str(), "PTX");
}

Status Program::find_functions(const Variant& variant) {
  const Driver& driver = device_->driver();
  for (const auto* kernel : *variant.kernels()) {
    std::vector<Function>& functions = functions_.emplace_back();
    if (kernel->device() != module_format::Device::Cuda || kernel->launches() == nullptr) continue;
    for (const auto* launch : *kernel->launches()) {
      Function function = nullptr;
      if (driver.get_function(&function, module_, launch->symbol()->c_str()) != 0) {
        return failure(GANTRY_INVALID_MODULE, "the module's code for GPUs has no kernel '%s'",
                       launch->symbol()->c_str());
      }
      int threads = device_->max_threads();
      driver.function_attribute(&threads, kFunctionMaxThreadsPerBlock, function);
      if (static_cast<int64_t>(launch->threads()) > threads) {
        return failure(GANTRY_INCOMPATIBLE,
                       "kernel %s (%s) needs blocks of %u threads; on this GPU they may have %d",
                       launch->symbol()->c_str(), kernel->name()->c_str(), launch->threads(), threads);
      }
      functions.push_back(function);
    }
  }
  return Status();
}

const Weights::Held* Weights::find(const std::vector<Held>& all, const Place& place) {
  for (const Held& held : all) {
    if (held.place == place) return &held;
  }
  return nullptr;
}

Result<uint64_t> Weights::upload(const ModuleContents& contents, const std::vector<Place>& places) {
  std::vector<Held> fresh;  // by their offsets at first
  uint64_t bytes = 0, total = 0;
  for (const Place& place : places) {
    if (find(held_, place) != nullptr || find(fresh, place) != nullptr) continue;
    fresh.push_back({place, total});
    bytes += place.size;
    total += (place.size + kConstantAlignment - 1) / kConstantAlignment * kConstantAlignment;
  }
  if (fresh.empty()) return bytes;
  Memory block;
  GANTRY_TRY(block.reserve(device_, total, "the model's weights"));
  const Driver& driver = device_->driver();
  for (Held& each : fresh) {
    auto segment = contents.segment(each.place.segment);
    if (!segment.ok()) return segment.status();
    each.address += block.device_address();
    if (each.place.size == 0) continue;
    GANTRY_TRY(device_->check(
        driver.copy_to_device(each.address, segment->data() + each.place.offset, each.place.size, nullptr),
        "uploading the model's weights"));
  }
  GANTRY_TRY(device_->check(driver.synchronize_stream(nullptr), "uploading the model's weights"));
  blocks_.push_back(std::move(block));
  held_.insert(held_.end(), fresh.begin(), fresh.end());
  return bytes;
}

Status Program::upload_constants(const ModuleContents& contents, const Variant& variant) {
  const uint32_t count = variant.constants() == nullptr ? 0 : variant.constants()->size();
  constants_.assign(count, 0);
  std::vector<uint8_t> wanted(count, false);
  for (const auto* buffer : *variant.buffers()) {
    if (buffer->kind() == module_format::BufferKind::Constant &&
        buffer->device() == module_format::Device::Cuda)
      wanted[buffer->index()] = true;
  }
  const auto place = [&](uint32_t i) {
    const auto* constant = variant.constants()->Get(i);
    return Weights::Place{constant->segment(), constant->offset(), constant->size()};
  };
  std::vector<Weights::Place> places;
  for (uint32_t i = 0; i < count; ++i) {
    if (wanted[i]) places.push_back(place(i));
  }
  Result<uint64_t> uploaded = weights_->upload(contents, places);
  if (!uploaded.ok()) return uploaded.status();
  weights_bytes_ = *uploaded;
  for (uint32_t i = 0; i < count; ++i) {
    if (wanted[i]) constants_[i] = weights_->address(place(i));
  }
  return Status();
}

}  // namespace gantry::runtime::cuda
