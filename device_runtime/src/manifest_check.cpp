#include "device_runtime/src/manifest_check.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "device_runtime/src/builtins.h"
#include "device_runtime/src/data_type.h"
#include "device_runtime/src/dim_program.h"
#include "device_runtime/src/manifest_checker.h"
#include "device_runtime/src/module_format.h"

namespace gantry::runtime::manifest {

Status damaged(const char* text) {
  return damaged(std::string(text));
}

Status damaged(const std::string& text) {
  return Status(GANTRY_INVALID_MODULE, "the module's manifest: " + text);
}

Status ManifestChecker::check() {
  GANTRY_TRY(check_requirements());
  GANTRY_TRY(check_strings());
  GANTRY_TRY(check_dims());
  GANTRY_TRY(check_tensors(*manifest_.inputs(), "input"));
  GANTRY_TRY(check_tensors(*manifest_.outputs(), "output"));
  GANTRY_TRY(check_constraints());
  GANTRY_TRY(check_segments());
  if (count(manifest_.variants()) == 0) return damaged("no variants");
  const Variant& first = *manifest_.variants()->Get(0);
  if (count(first.specialized()) + count(first.equal()) > 0)
    return damaged("a specialized variant of none");
  for (const Variant* variant : *manifest_.variants()) {
    if (Status status = check_variant(*variant); !status.ok()) {
      return Status(status.code(), status.message() + " (variant '" + variant->target()->str() + "')");
    }
  }
  return Status();
}

// A newer compiler's module may need what this runtime does not have.
Status ManifestChecker::check_requirements() {
  GANTRY_TRY(spend_texts(manifest_.requires_()));
  for (uint32_t i = 0; i < count(manifest_.requires_()); ++i) {
    const flatbuffers::String& feature = *manifest_.requires_()->Get(i);
    const bool known = std::any_of(std::begin(kFeatures), std::end(kFeatures),
                                   [&](const char* name) { return feature.string_view() == name; });
    const bool is_strings = feature.string_view() == kStrings;
    const bool is_images = feature.string_view() == kImages;
    has_strings_ = has_strings_ || is_strings;
    has_images_ = has_images_ || is_images;
    if ((is_strings || is_images) && builtin_part() == nullptr)
      return failure(
          GANTRY_INCOMPATIBLE,
          "the module needs '%s', which this library leaves out: link gantry_runtime_builtins in its place",
          feature.c_str());
    if (known) continue;
    return failure(GANTRY_INCOMPATIBLE,
                   "the module needs '%s', which this runtime (gantry %s) does not have: update gantry on this machine",
                   feature.c_str(), gantry_version());
  }
  return Status();
}

Status ManifestChecker::check_strings() {
  GANTRY_TRY(spend(count(manifest_.strings())));
  GANTRY_TRY(spend_texts(manifest_.strings()));
  if (count(manifest_.strings()) > 0 && manifest_.strings()->Get(0)->size() > 0)
    return damaged("its first string is not empty");
  return Status();
}

Status ManifestChecker::check_dims() {
  const uint32_t symbols = count(manifest_.symbols());
  if (symbols > kMaxTableEntries || dim_count_ > kMaxTableEntries) return damaged("too many dimensions");
  GANTRY_TRY(spend_texts(manifest_.symbols()));
  for (uint32_t i = 0; i < dim_count_; ++i) {
    GANTRY_TRY(spend(manifest_.dim_exprs()->Get(i)->steps()->size()));
    Status status = check_dim_program(*manifest_.dim_exprs()->Get(i), symbols);
    if (!status.ok()) return damaged("dimension expression %u %s", i, status.message().c_str());
  }
  return Status();
}

Status ManifestChecker::check_tensors(const flatbuffers::Vector<flatbuffers::Offset<TensorInfo>>& tensors,
                                      const char* role) {
  if (tensors.size() > kMaxTableEntries) return damaged("too many %ss", role);
  for (uint32_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& tensor = *tensors.Get(i);
    GANTRY_TRY(spend(tensor.name()->size()));
    if (static_cast<uint8_t>(tensor.dtype()) >= kElementTypeCount)
      return damaged("%s %u has an unknown type", role, i);
    if (tensor.dtype() == DType::String && !has_strings_)
      return damaged("%s %u is of strings, which the module does not require", role, i);
    if (tensor.shape()->size() > kMaxRank)
      return damaged("%s %u has more than %u dimensions", role, i, kMaxRank);
    for (uint32_t dim : *tensor.shape()) {
      if (!is_dim(dim)) return damaged("%s %u has a dimension that is not in the list", role, i);
    }
  }
  return Status();
}

Status ManifestChecker::check_constraints() {
  if (manifest_.constraints() == nullptr) return Status();
  for (const Constraint* constraint : *manifest_.constraints()) {
    if (!is_dim(constraint->left()) || !is_dim(constraint->right())) {
      return damaged("a constraint has a dimension that is not in the list");
    }
  }
  return Status();
}

Status ManifestChecker::check_segments() {
  if (count(manifest_.segments()) > kMaxTableEntries) return damaged("too many segments");
  for (uint32_t i = 0; i < count(manifest_.segments()); ++i) {
    const Segment& segment = *manifest_.segments()->Get(i);
    if (segment.kind() > SegmentKind::MAX) {
      return damaged("segment %u is of an unknown kind", i);
    }
    if (segment.offset() % kSegmentAlignment != 0) return damaged("segment %u is not aligned", i);
  }
  return Status();
}

Status ManifestChecker::check_variant(const Variant& variant) {
  GANTRY_TRY(spend_texts(variant.features()));
  GANTRY_TRY(spend_texts(variant.decisions()));
  GANTRY_TRY(spend(uint64_t{variant.kernels()->size()} + count(variant.constants()) +
                   variant.target()->size()));
  if (variant.architecture() > Architecture::AArch64) return damaged("unknown architecture");
  if (variant.device() > Device::CudaEmulated) return damaged("unknown device");
  GANTRY_TRY(check_code(variant));
  if (!is_dim(variant.workspace_bytes()))
    return damaged("the workspace's size is not in the list of dimensions");
  for (uint32_t i = 0; i < count(variant.constants()); ++i)
    GANTRY_TRY(check_constant(*variant.constants()->Get(i)));
  GANTRY_TRY(check_specialized(variant));
  depths_.assign(count(variant.plans()), 0);
  GANTRY_TRY(check_plan(variant, {*variant.buffers(), *variant.steps(), variant.stretches(), manifest_.inputs()->size(),
                                  manifest_.outputs()->size(), variant.results(), 0, 0}));
  return check_plans(variant);
}

Status ManifestChecker::check_constant(const ConstantRef& constant) {
  if (constant.segment() >= count(manifest_.segments()))
    return damaged("a constant names a segment that is not there");
  const Segment& segment = *manifest_.segments()->Get(constant.segment());
  if (segment.kind() != SegmentKind::Weights) return damaged("a constant lies in a segment of code");
  if (constant.offset() % kBufferAlignment != 0) return damaged("a constant is not aligned");
  if (constant.offset() > segment.size() || constant.size() > segment.size() - constant.offset()) {
    return damaged("a constant lies outside its segment");
  }
  return Status();
}

Status ManifestChecker::check_specialized(const Variant& variant) {
  GANTRY_TRY(spend(count(variant.specialized())));
  for (uint32_t i = 0; i < count(variant.specialized()); ++i) {
    const module_format::SymbolValue& size = *variant.specialized()->Get(i);
    if (size.symbol() >= count(manifest_.symbols())) return damaged("specialized for a symbol that is not in the list");
    if (size.value() < 0) return damaged("specialized for a negative size");
  }
  GANTRY_TRY(spend(count(variant.equal())));
  for (uint32_t i = 0; i < count(variant.equal()); ++i) {
    const Constraint& sizes = *variant.equal()->Get(i);
    if (!is_dim(sizes.left()) || !is_dim(sizes.right()))
      return damaged("specialized for sizes that are no dimension expressions");
  }
  return Status();
}

}  // namespace gantry::runtime::manifest

namespace gantry::runtime {

using namespace manifest;  // NOLINT: this file is about nothing else

Result<const Manifest*> check_manifest(std::span<const std::byte> bytes) {
  if (bytes.size() > kMaxManifestBytes)
    return damaged("larger than %s", byte_text(kMaxManifestBytes).c_str());
  if (bytes.size() < 16) return damaged("too short");
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  constexpr uint32_t kMaxDepth = 32;
  // The last: of tables and strings in lists, each as often as it is referred to (verify_strings.h).
  flatbuffers::Verifier verifier(data, bytes.size(), kMaxDepth, 4 * kMaxTableEntries);
  if (!ManifestBufferHasIdentifier(data) || !VerifyManifestBuffer(verifier))
    return damaged("its structure is broken");
  const Manifest* manifest = GetManifest(data);
  if (Status status = ManifestChecker(*manifest).check(); !status.ok()) return status;
  return manifest;
}

Status check_segments_in_file(const Manifest& manifest, uint64_t first_offset, uint64_t file_size) {
  uint64_t end = first_offset;
  for (uint32_t i = 0; i < count(manifest.segments()); ++i) {
    const Segment& segment = *manifest.segments()->Get(i);
    if (segment.offset() < end) return damaged("segment %u overlaps what stands before it", i);
    if (segment.offset() > file_size || segment.size() > file_size - segment.offset()) {
      return damaged("segment %u ends beyond the file", i);
    }
    end = segment.offset() + segment.size();
  }
  return Status();
}

}  // namespace gantry::runtime
