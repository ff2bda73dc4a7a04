#include "device_runtime/src/module_reader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "device_runtime/src/cuda_module.h"
#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/manifest_check.h"
#include "device_runtime/src/module_format.h"

namespace gantry::runtime {
namespace {

using module_format::FileHeader;
using module_format::Manifest;
using module_format::Segment;

Sha256Digest digest_of(const Segment& segment) {
  Sha256Digest digest;
  memcpy(digest.data(), segment.digest().bytes(), digest.size());
  return digest;
}

/// Checks the fixed header; the message starts with "the module" and says what is wrong.
Status check_header(std::span<const std::byte> bytes, FileHeader* header) {
  if (bytes.size() < sizeof(module_format::kMagic) ||
      memcmp(bytes.data(), module_format::kMagic, sizeof(module_format::kMagic)) != 0) {
    return failure(GANTRY_INVALID_MODULE, "this is not a gantry module (a .gmod file begins otherwise)");
  }
  if (bytes.size() < sizeof(FileHeader)) {
    return failure(GANTRY_INVALID_MODULE,
                   "the module is truncated: it has %zu bytes, its header alone has %zu", bytes.size(),
                   sizeof(FileHeader));
  }
  memcpy(header, bytes.data(), sizeof(FileHeader));
  if (header->version_major != module_format::kVersionMajor) {
    return failure(GANTRY_INCOMPATIBLE,
                   "the module has format version %u.%u, this runtime (gantry %s) reads version %u: %s",
                   header->version_major, header->version_minor, gantry_version(),
                   module_format::kVersionMajor,
                   header->version_major > module_format::kVersionMajor ? "update gantry on this machine"
                                                                        : "compile the model again");
  }
  const Sha256Digest checksum = sha256(bytes.first(offsetof(FileHeader, checksum)));
  if (memcmp(checksum.data(), header->checksum, checksum.size()) != 0) {
    return failure(GANTRY_INVALID_MODULE, "the module's header is damaged: its checksum is wrong");
  }
  if (header->header_size != sizeof(FileHeader)) {
    return failure(GANTRY_INVALID_MODULE, "the module's header has an unknown size of %u",
                   header->header_size);
  }
  if (header->file_size != bytes.size()) {
    return failure(GANTRY_INVALID_MODULE, "the module is %s: it should have %llu bytes, it has %zu",
                   bytes.size() < header->file_size ? "truncated" : "too long",
                   static_cast<unsigned long long>(header->file_size), bytes.size());
  }
  if (header->manifest_offset < sizeof(FileHeader) ||
      header->manifest_offset % module_format::kManifestAlignment != 0 ||
      header->manifest_offset > bytes.size() ||
      header->manifest_size > bytes.size() - header->manifest_offset) {
    return failure(GANTRY_INVALID_MODULE, "the module's manifest lies outside the file");
  }
  return Status();
}

Status check_digest(std::span<const std::byte> bytes, const Segment& segment, uint32_t index) {
  if (bytes.size() != segment.size()) {
    return failure(GANTRY_INVALID_MODULE, "segment %u has %zu bytes, the manifest says %llu", index,
                   bytes.size(), static_cast<unsigned long long>(segment.size()));
  }
  if (sha256(bytes) != digest_of(segment)) {
    return failure(GANTRY_INVALID_MODULE, "segment %u (%s) of the module is damaged: its SHA-256 is wrong",
                   index, segment.kind() == module_format::SegmentKind::Weights ? "weights" : "code");
  }
  return Status();
}

const char* architecture_name(module_format::Architecture architecture) {
  switch (architecture) {
    case module_format::Architecture::X86_64:
      return "x86_64";
    case module_format::Architecture::AArch64:
      return "aarch64";
    default:
      return "cuda";
  }
}

/// What `cpu` lacks for a variant, "" if nothing.
std::string lacks(const module_format::Variant& variant, const CpuInfo& cpu) {
  const char* architecture = architecture_name(variant.architecture());
  if (cpu.architecture != architecture) return std::string("another architecture, ") + architecture;
  std::string missing;
  if (variant.features() == nullptr) return missing;
  for (const auto* feature : *variant.features()) {
    if (cpu.has_feature(std::string_view(feature->c_str(), feature->size()))) continue;
    missing += (missing.empty() ? "" : ", ") + feature->str();
  }
  return missing;
}

/// What a GPU of that compute capability lacks for a variant, "" if nothing. PTX runs on every newer GPU,
/// unless its architecture ends in a letter: then on that one alone.
std::string gpu_lacks(const module_format::Variant& variant, int compute_capability) {
  const std::string arch = variant.gpu_arch() == nullptr ? "" : variant.gpu_arch()->str();
  const int needed = arch.starts_with("sm_") ? atoi(arch.c_str() + 3) : 0;
  if (needed <= 0) return "an unknown GPU";
  const bool this_one_alone = arch.back() < '0' || arch.back() > '9';
  const bool has_code = variant.ptx_segment() >= 0 || variant.cubin_segment() >= 0;
  if (!has_code) return "";  // all of its kernels run on the CPU, if it has any
  if (compute_capability == needed) return "";
  if (!this_one_alone && variant.ptx_segment() >= 0 && compute_capability > needed) return "";
  // Code that is assembled already runs on the same generation.
  if (!this_one_alone && compute_capability / 10 == needed / 10 && compute_capability > needed) return "";
  return "a GPU with " + arch + (this_one_alone ? "" : " or newer");
}

/// Of a checked program; none where it depends on a symbol without a value.
std::optional<int64_t> known_value(const module_format::DimExpr& program,
                                   std::span<const std::optional<int64_t>> symbols) {
  std::vector<int64_t> values(symbols.size());
  for (const auto* step : *program.steps()) {
    if (step->opcode() != module_format::DimOpcode::Symbol) continue;
    const auto symbol = static_cast<size_t>(step->value());
    if (symbol >= symbols.size() || !symbols[symbol]) return std::nullopt;
    values[symbol] = *symbols[symbol];
  }
  Result<int64_t> value = evaluate_dim(program, values);
  return value.ok() ? std::optional<int64_t>(*value) : std::nullopt;
}

/// Whether the variant has code for a CPU.
bool needs_image(const module_format::Variant& variant) {
  if (variant.device() != module_format::Device::Cuda) return true;
  for (const auto* kernel : *variant.kernels()) {
    if (kernel->device() == module_format::Device::Cpu) return true;
  }
  return false;
}

}  // namespace

Result<ModuleContents> ModuleContents::from_bytes(SharedBytes bytes, bool check_digests) {
  FileHeader header;
  GANTRY_TRY(check_header(bytes.bytes, &header));
  ModuleContents contents;
  contents.manifest_bytes_ = {bytes.bytes.subspan(header.manifest_offset, header.manifest_size), bytes.owner};
  const Sha256Digest digest = sha256(contents.manifest_bytes_.bytes);
  if (memcmp(digest.data(), header.manifest_digest, digest.size()) != 0) {
    return failure(GANTRY_INVALID_MODULE, "the module's manifest is damaged: its SHA-256 is wrong");
  }
  Result<const Manifest*> manifest = check_manifest(contents.manifest_bytes_.bytes);
  if (!manifest.ok()) return manifest.status();
  contents.manifest_ = *manifest;
  const uint64_t manifest_end = header.manifest_offset + header.manifest_size;
  GANTRY_TRY(check_segments_in_file(**manifest, manifest_end, bytes.bytes.size()));
  const auto* segments = contents.manifest_->segments();
  for (uint32_t i = 0; segments != nullptr && i < segments->size(); ++i) {
    const Segment& segment = *segments->Get(i);
    const auto part = bytes.bytes.subspan(segment.offset(), segment.size());
    if (check_digests) GANTRY_TRY(check_digest(part, segment, i));
    contents.segments_.push_back({part, bytes.owner, bytes.is_mapped});
  }
  return contents;
}

Result<ModuleContents> ModuleContents::open(const std::string& path, bool check_digests) {
  Result<SharedBytes> bytes = map_file(path);
  if (!bytes.ok()) return bytes.status();
  Result<ModuleContents> contents = from_bytes(*bytes, check_digests);
  if (contents.ok()) return contents;
  return Status(contents.status().code(), "'" + path + "': " + contents.status().message());
}

Result<ModuleContents> ModuleContents::from_parts(std::span<const std::byte> manifest,
                                                  std::span<const SegmentSource> sources) {
  // A copy, aligned as the manifest's structs need it.
  if (manifest.size() > module_format::kMaxManifestBytes) {
    return failure(GANTRY_INVALID_MODULE, "the module's manifest: too large");
  }
  auto copy = std::make_shared<AlignedBuffer>();
  GANTRY_TRY(copy->reserve(manifest.size(), "the module's manifest"));
  if (!manifest.empty()) memcpy(copy->data(), manifest.data(), manifest.size());
  ModuleContents contents;
  contents.manifest_bytes_ = {{copy->data(), manifest.size()}, copy};
  Result<const Manifest*> checked = check_manifest(contents.manifest_bytes_.bytes);
  if (!checked.ok()) return checked.status();
  contents.manifest_ = *checked;
  const auto* segments = contents.manifest_->segments();
  const uint32_t segment_count = segments == nullptr ? 0 : segments->size();
  contents.segments_.resize(segment_count);
  for (const SegmentSource& source : sources) {
    bool named = false;
    for (uint32_t i = 0; i < segment_count; ++i) {
      const Segment& segment = *segments->Get(i);
      if (digest_of(segment) != source.digest) continue;
      named = true;
      if (!source.verified) GANTRY_TRY(check_digest(source.bytes.bytes, segment, i));
      if (source.bytes.bytes.size() != segment.size()) {
        return failure(GANTRY_INVALID_MODULE, "segment %u has %zu bytes, the manifest says %llu", i,
                       source.bytes.bytes.size(), static_cast<unsigned long long>(segment.size()));
      }
      contents.segments_[i] = source.bytes;
    }
    if (!named) {
      return failure(GANTRY_INVALID_MODULE, "the manifest names no segment with the digest %s",
                     to_hex(source.digest).c_str());
    }
  }
  return contents;
}

Result<std::span<const std::byte>> ModuleContents::segment(uint32_t index) const {
  if (index >= segments_.size() ||
      segments_[index].bytes.size() != manifest_->segments()->Get(index)->size()) {
    return failure(GANTRY_INVALID_MODULE, "segment %u of the module is missing", index);
  }
  return segments_[index].bytes;
}

void ModuleContents::release_pages(uint32_t index, std::span<const std::byte> bytes) const {
  if (index >= segments_.size() || !segments_[index].is_mapped) return;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = (reinterpret_cast<uintptr_t>(bytes.data()) + page - 1) / page * page;
  const auto last = reinterpret_cast<uintptr_t>(bytes.data() + bytes.size()) / page * page;
  if (last > first) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

Sha256Digest ModuleContents::segment_digest(uint32_t index) const {
  return digest_of(*manifest_->segments()->Get(index));
}

bool has_variant_for(const Manifest& manifest, module_format::Device device) {
  for (const auto* variant : *manifest.variants()) {
    if (variant->device() == device) return true;
  }
  return false;
}

Result<uint32_t> choose_variant(const Manifest& manifest, const CpuInfo& cpu, module_format::Device device,
                                int compute_capability) {
  const auto& variants = *manifest.variants();
  uint32_t best = UINT32_MAX;
  std::string rejected, others;
  for (uint32_t i = 0; i < variants.size(); ++i) {
    const module_format::Variant& variant = *variants.Get(i);
    if (is_specialized(variant)) continue;
    if (variant.device() != device) {
      others += (others.empty() ? "'" : ", '") + variant.target()->str() + "'";
      continue;
    }
    std::string missing = lacks(variant, cpu);
    if (missing.empty() && device == module_format::Device::Cuda)
      missing = gpu_lacks(variant, compute_capability);
    if (!missing.empty()) {
      rejected += (rejected.empty() ? "'" : "; '") + variant.target()->str() + "' needs " + missing;
    } else if (best == UINT32_MAX || variant.rank() > variants.Get(best)->rank()) {
      best = i;
    }
  }
  if (best != UINT32_MAX) return best;
  const char* name = device_type_text(device);
  if (rejected.empty()) {
    return failure(
        GANTRY_INCOMPATIBLE,
        "the module has no code for the device %s, only %s: choose another with --device, or compile "
        "the model for it with --target",
        name, others.c_str());
  }
  std::string machine = cpu.architecture + ", " + cpu.brand;
  if (device == module_format::Device::Cuda) {
    machine += format_text(", GPU with sm_%d", compute_capability);
  }
  return failure(
      GANTRY_INCOMPATIBLE,
      "the module has no code for this machine (%s): %s; compile it for this machine with --target",
      machine.c_str(), rejected.c_str());
}

bool is_specialized(const module_format::Variant& variant) {
  return (variant.specialized() != nullptr && variant.specialized()->size() > 0) ||
         (variant.equal() != nullptr && variant.equal()->size() > 0);
}

std::vector<uint32_t> specialized_variants(const Manifest& manifest, uint32_t variant) {
  std::vector<uint32_t> indices;
  const auto& variants = *manifest.variants();
  for (uint32_t i = variant + 1; i < variants.size() && is_specialized(*variants.Get(i)); ++i) indices.push_back(i);
  return indices;
}

std::vector<uint32_t> segments_of_variant(const Manifest& manifest, uint32_t variant) {
  std::vector<uint32_t> variants = specialized_variants(manifest, variant), segments;
  variants.push_back(variant);
  for (const uint32_t index : variants) {
    const module_format::Variant& chosen = *manifest.variants()->Get(index);
    if (needs_image(chosen)) segments.push_back(chosen.code_segment());
    for (int32_t segment : {chosen.ptx_segment(), chosen.cubin_segment()}) {
      if (segment >= 0) segments.push_back(static_cast<uint32_t>(segment));
    }
    if (chosen.constants() == nullptr) continue;
    for (const auto* constant : *chosen.constants()) segments.push_back(constant->segment());
  }
  std::sort(segments.begin(), segments.end());
  segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
  return segments;
}

void Module::move_constants(const std::vector<uint32_t>& own) {
  // Small ones stay in the caches and the translation buffers anyway; a board with little memory keeps one
  // copy.
  constexpr uint64_t kWorthMoving = uint64_t{4} << 20;
  uint64_t total = 0;
  for (const uint32_t i : own) total += (constants_[i].size() + 63) / 64 * 64;
  if (device_.type == module_format::Device::Cuda || total < kWorthMoving || !has_huge_pages() ||
      total > usable_memory_bytes() / 4) {
    return;
  }
  if (!moved_constants_.reserve(total, "constants in huge pages").ok()) return;
  std::byte* to = moved_constants_.data();
  for (const uint32_t i : own) {
    std::span<const std::byte>& constant = constants_[i];
    memcpy(to, constant.data(), constant.size());
    contents_.release_pages(variant_->constants()->Get(i)->segment(), constant);
    constant = {to, constant.size()};
    to += (constant.size() + 63) / 64 * 64;
  }
}

Status Module::bind_variant(const Module* shared) {
  for (const auto* kernel : *variant_->kernels()) {
    if (kernel->device() != module_format::Device::Cpu) {
      kernels_.push_back(nullptr);  // in gpu_
      continue;
    }
    const std::string_view symbol(kernel->symbol()->c_str(), kernel->symbol()->size());
    void* entry = image_.find(symbol);
    if (entry == nullptr) {
      return failure(GANTRY_INVALID_MODULE, "the module's code has no kernel '%s'",
                     kernel->symbol()->c_str());
    }
    kernels_.push_back(entry);
  }
  GANTRY_TRY(bind_constants(shared));
  for (const auto* step : *variant_->steps()) {
    std::string origin;
    const auto* call = step->action_as_CallKernel();
    const auto* binding = step->action_as_BindSymbols();
    const auto* branch = step->action_as_RunIf();
    const auto* loop = step->action_as_RunLoop();
    const auto* builtin = step->action_as_CallBuiltin();
    const auto* nodes = call != nullptr      ? call->origin()
                        : builtin != nullptr ? builtin->origin()
                        : binding != nullptr ? binding->origin()
                        : branch != nullptr  ? branch->origin()
                        : loop != nullptr    ? loop->origin()
                                             : nullptr;
    if (nodes != nullptr) {
      for (const auto* node : *nodes) origin += (origin.empty() ? "" : ", ") + node->str();
    }
    origins_.push_back(std::move(origin));
  }
  return Status();
}

Status Module::bind_constants(const Module* shared) {
  if (variant_->constants() == nullptr) return Status();
  // Constants by where they are in the file, those of the other module first: the same bytes count, and lie in
  // memory, once.
  std::map<const std::byte*, std::span<const std::byte>> known;
  for (uint32_t i = 0; shared != nullptr && i < shared->constants_.size(); ++i) {
    const auto& theirs = *shared->variant_->constants()->Get(i);
    auto segment = contents_.segment(theirs.segment());
    if (segment.ok()) known.emplace(segment->data() + theirs.offset(), shared->constants_[i]);
  }
  std::vector<uint32_t> own;
  for (const auto* constant : *variant_->constants()) {
    auto segment = contents_.segment(constant->segment());
    if (!segment.ok()) return segment.status();
    const std::span<const std::byte> bytes = segment->subspan(constant->offset(), constant->size());
    const auto [found, is_new] = known.emplace(bytes.data(), bytes);
    const bool same = !is_new && found->second.size() == bytes.size();
    constants_.push_back(same ? found->second : bytes);
    if (same) continue;
    own.push_back(static_cast<uint32_t>(constants_.size() - 1));
    weights_bytes_ += bytes.size();
  }
  move_constants(own);
  return Status();
}

/// The GPU that a module is loaded for; null for other devices. What its variants read there is shared.
struct Module::Gpu {
  std::shared_ptr<cuda::Device> device;
  std::shared_ptr<cuda::Weights> weights;
};

Status Module::load_variant(uint32_t index, const Gpu& gpu, const Module* shared) {
  variant_ = manifest().variants()->Get(index);
  if (needs_image(*variant_)) {
    auto code = contents_.segment(variant_->code_segment());
    if (!code.ok()) return code.status();
    Result<CodeImage> image = CodeImage::load(*code);
    if (!image.ok()) return image.status();
    image_ = std::move(*image);
  }
  if (gpu.device != nullptr) {
    auto program = cuda::Program::load(gpu.device, contents_, *variant_, gpu.weights);
    if (!program.ok()) return program.status();
    gpu_ = std::move(*program);
  }
  return bind_variant(shared);
}

bool Module::is_for(std::span<const std::optional<int64_t>> symbols) const {
  const auto* sizes = variant_->specialized();
  const auto has_size = [&](const auto* size) {
    return size->symbol() < symbols.size() && symbols[size->symbol()] == size->value();
  };
  if (sizes != nullptr && !std::all_of(sizes->begin(), sizes->end(), has_size)) return false;
  const auto* equal = variant_->equal();
  const auto value = [&](uint32_t dim) { return known_value(*manifest().dim_exprs()->Get(dim), symbols); };
  return equal == nullptr || std::all_of(equal->begin(), equal->end(), [&](const auto* pair) {
           const std::optional<int64_t> left = value(pair->left());
           return left && left == value(pair->right());
         });
}

Result<std::shared_ptr<const Module>> Module::create(ModuleContents contents, const DeviceName& device,
                                                     const CpuInfo& cpu) {
  Gpu gpu;
  if (device.type == module_format::Device::Cuda && has_variant_for(contents.manifest(), device.type)) {
    Result<std::shared_ptr<cuda::Device>> opened = cuda::Device::open(device.index);
    if (!opened.ok()) return opened.status();
    gpu.device = std::move(*opened);
    gpu.weights = std::make_shared<cuda::Weights>(gpu.device);
  }
  const int compute_capability = gpu.device == nullptr ? 0 : gpu.device->compute_capability();
  Result<uint32_t> index = choose_variant(contents.manifest(), cpu, device.type, compute_capability);
  if (!index.ok()) return index.status();
  auto module = std::make_shared<Module>();
  module->contents_ = std::move(contents);
  module->device_ = device;
  GANTRY_TRY(module->load_variant(*index, gpu, nullptr));
  for (const uint32_t other : specialized_variants(module->manifest(), *index)) {
    auto specialized = std::make_shared<Module>();
    specialized->contents_ = module->contents_;
    specialized->device_ = device;
    GANTRY_TRY(specialized->load_variant(other, gpu, module.get()));
    module->weights_bytes_ += specialized->weights_bytes_;
    module->specialized_.push_back(std::move(specialized));
  }
  return std::shared_ptr<const Module>(std::move(module));
}

Result<std::shared_ptr<const Module>> Module::load(const std::string& path) {
  Result<ModuleContents> contents = ModuleContents::open(path);
  if (!contents.ok()) return contents.status();
  return create(std::move(*contents));
}

}  // namespace gantry::runtime
