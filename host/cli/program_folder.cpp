#include "host/cli/program_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <system_error>

#include "device_runtime/src/sha256.h"
#include "host/cli/json_values.h"
#include "host/cli/plan_json.h"
#include "host/codegen/codegen.h"
#include "host/codegen/kernel_cache.h"
#include "host/loops/stmt.h"
#include "host/support/error.h"
#include "host/support/output_file.h"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kKernelName = "kernel";

std::string digest_of(std::span<const std::byte> bytes) {
  return runtime::to_hex(runtime::sha256(bytes));
}
std::string digest_of(std::string_view text) {
  return digest_of(std::as_bytes(std::span(text)));
}

fs::path subfolder(const fs::path& folder, const char* name) {
  const fs::path path = folder / name;
  std::error_code code;
  fs::create_directories(path, code);
  if (code) user_error("--all-to: the folder {} cannot be made: {}", path.string(), code.message());
  return path;
}

/// Returns the digest that names the file. Readers check it, so nothing waits for the disk.
std::string store(const fs::path& folder, std::string_view text, const std::string& extension) {
  const std::string digest = digest_of(text);
  const fs::path path = folder / (digest + extension);
  std::error_code code;
  if (fs::file_size(path, code) == text.size() && !code) return digest;
  OutputFile file(path);
  file.write(text);
  file.commit(/*durable=*/false);
  return digest;
}

/// Of CPUs' code.
constexpr std::string_view kAssembly = "assembly";

/// What is said of a kernel's code.
struct CodeFacts {
  std::string digest, language;
  int64_t code_bytes = 0, table_bytes = 0;

  std::string text() const { return fmt::format("{} {} {} {}", digest, language, code_bytes, table_bytes); }
  static std::optional<CodeFacts> parse(const std::string& text) {
    CodeFacts facts;
    std::istringstream stream(text);
    stream >> facts.digest >> facts.language >> facts.code_bytes >> facts.table_bytes;
    return stream ? std::optional(facts) : std::nullopt;
  }
};

/// The code of kernels, each compiled unless the folder has it.
class CodeFolder {
 public:
  CodeFolder(const fs::path& folder, const Target& target)
      : code_(subfolder(folder, "code")), made_(folder / "made"), target_(target) {}

  /// Parallel to the kernels.
  std::vector<CodeFacts> code_of(const std::vector<LoopKernel>& kernels, const CompileOptions& options) {
    std::vector<CodeFacts> all(kernels.size());
    std::vector<LoopKernel> missing;
    std::vector<size_t> places;
    for (size_t i = 0; i < kernels.size(); ++i) {
      if (auto known = find(kernels[i])) {
        all[i] = *known;
      } else {
        missing.push_back(kernels[i]);
        places.push_back(i);
      }
    }
    const std::vector<KernelCode> made = emit_code(missing, target_, options.threads);
    for (size_t i = 0; i < made.size(); ++i) all[places[i]] = keep(missing[i], made[i]);
    return all;
  }

 private:
  static std::string extension(std::string_view language) {
    return language == kAssembly ? ".s" : "." + std::string(language);
  }
  KernelCache::Key key_of(const LoopKernel& kernel) const {
    return KernelCache::key_of(kernel, target_, "assembly");
  }

  std::optional<CodeFacts> find(const LoopKernel& kernel) const {
    const auto remembered = made_.find(key_of(kernel));
    const auto facts = remembered ? CodeFacts::parse(*remembered) : std::nullopt;
    const bool there = facts && fs::exists(code_ / (facts->digest + extension(facts->language)));
    return there ? facts : std::nullopt;
  }

  CodeFacts keep(const LoopKernel& kernel, const KernelCode& code) {
    const CodeFacts facts{store(code_, code.assembly, extension(code.language)), std::string(code.language),
                          code.code_bytes, code.table_bytes};
    made_.store(key_of(kernel), facts.text());
    return facts;
  }

  fs::path code_;
  KernelCache made_;
  const Target& target_;
};

/// Size and digest of each of the variant's constants, in its order.
Json constants_json(const ModuleFile& module, const module_format::VariantT& variant) {
  Json list = Json::array();
  for (const module_format::ConstantRef& constant : variant.constants) {
    const auto& pieces = module.segments[constant.segment()].pieces;
    const auto place_of = [](const SegmentPiece& piece) {
      return std::pair(piece.offset, piece.bytes.size());
    };
    const std::pair<uint64_t, size_t> place(constant.offset(), constant.size());
    const auto piece = std::ranges::lower_bound(pieces, place, {}, place_of);
    internal_check(piece != pieces.end() && place_of(*piece) == place,
                   "a constant is not at its place in the weights");
    list.push_back({{"bytes", constant.size()}, {"sha256", digest_of(piece->bytes)}});
  }
  return list;
}

/// The kernels as the plan has them, with their files.
Json kernels_with_files(Json kernels, const std::vector<std::string>& loops,
                        const std::vector<CodeFacts>& code) {
  for (size_t i = 0; i < kernels.size(); ++i) {
    Json& kernel = kernels[i];
    kernel["loops"] = loops[i];
    kernel["code"] = code[i].digest;
    kernel["language"] = code[i].language;
    kernel["code_bytes"] = code[i].language == kAssembly ? Json(code[i].code_bytes) : Json(nullptr);
    kernel["table_bytes"] = code[i].language == kAssembly ? Json(code[i].table_bytes) : Json(nullptr);
  }
  return kernels;
}

}  // namespace

std::string write_program(const Graph& graph, const Target& target, const CompileOptions& options,
                          const fs::path& folder) {
  const fs::path loops_folder = subfolder(folder, "loops");
  PlannedProgram program = plan_program(graph, target, options);
  std::vector<LoopKernel>& kernels = program.lowered.kernels;
  std::vector<std::string> loops;
  for (LoopKernel& kernel : kernels) {
    kernel.name = kKernelName;
    loops.push_back(store(loops_folder, to_string(kernel), ".txt"));
  }
  const std::vector<CodeFacts> code = CodeFolder(folder, target).code_of(kernels, options);

  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(module_format::Manifest::Pack(builder, &program.module.manifest));
  const auto& manifest = *flatbuffers::GetRoot<module_format::Manifest>(builder.GetBufferPointer());
  const module_format::Variant& variant = *manifest.variants()->Get(0);
  const ManifestDims dims(manifest);
  Json json;
  json["target"] = string_of(variant.target());
  json["precision"] = string_of(variant.precision());
  json["optimize"] = string_of(manifest.optimize());
  json["opt_level"] = options.opt_level;
  json["workspace_bytes"] = dim_json(dims.get(variant.workspace_bytes()));
  if (is_cuda(variant)) json["gpu_workspace_bytes"] = dim_json(dims.get(variant.gpu_workspace_bytes()));
  json["kernels"] = kernels_with_files(kernels_json(variant, dims), loops, code);
  json["steps"] = steps_json(variant, dims);
  json["buffers"] = buffers_json(variant, dims);
  json["constants"] = constants_json(program.module, *program.module.manifest.variants[0]);
  return document_text(json, 1);
}

}  // namespace gantry::cli
