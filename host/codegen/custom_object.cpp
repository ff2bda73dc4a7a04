// Objects that users made: checked, and made fit for an image in which others have the same names.
#include <llvm/BinaryFormat/ELF.h>
#include <llvm/ObjCopy/ConfigManager.h>
#include <llvm/ObjCopy/ObjCopy.h>
#include <llvm/Object/Archive.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/raw_ostream.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "host/codegen/compiled_module.h"
#include "host/codegen/custom_code.h"
#include "host/codegen/gpu_codegen.h"
#include "host/codegen/linker.h"
#include "host/machine/cpu_family.h"
#include "host/support/error.h"

namespace gantry {
namespace {

namespace object = llvm::object;

/// What descriptions call a family of CPUs: "x86-64", "aarch64".
std::string architecture_of(const CpuFamily& family) {
  std::string name(family.code);
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

/// Errors of a custom kernel's code for a target.
class CodeErrors {
 public:
  CodeErrors(const CustomKernel& code, const Target& target) : code_(code), target_(target) {}

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    user_error("custom op {} for {}: {}", code_.op, target_.name,
               fmt::format(format, std::forward<Args>(args)...));
  }
  /// The value; an error of LLVM's, which is none of gantry's, becomes the user's.
  template <typename T>
  T expect(llvm::Expected<T> value, const std::string& file) const {
    if (!value) fail("{}: is no object file that can be linked: {}", file, llvm::toString(value.takeError()));
    return std::move(*value);
  }

 private:
  const CustomKernel& code_;
  const Target& target_;
};

const std::vector<ObjectFile>& files_for(const CustomKernel& code, const Target& target,
                                         const CodeErrors& errors) {
  std::vector<std::string> known;
  for (const CpuFamily* family : cpu_families()) known.push_back(architecture_of(*family));
  std::vector<std::string> given;
  for (const auto& [architecture, files] : code.objects) {
    given.push_back(architecture);
    if (std::ranges::find(known, architecture) == known.end())
      errors.fail("{}: kernel: '{}' is no architecture; there are {}", code.source, architecture,
                  fmt::join(known, ", "));
  }
  const std::string wanted = architecture_of(family_of(target));
  const auto found = code.objects.find(wanted);
  if (found == code.objects.end()) {
    errors.fail("its kernel is not there for {}, only for {}: compile it, and name the file in {}", wanted,
                fmt::join(given, ", "), code.source);
  }
  return found->second;
}

/// Of a machine of ELF, by its number.
std::string machine_text(uint16_t machine) {
  for (const CpuFamily* family : cpu_families()) {
    if (family->elf_machine == machine) return std::string(family->code);
  }
  return "another machine";
}

void expect_object(const object::Binary& binary, const std::string& file, const Target& target,
                   const CodeErrors& errors) {
  const auto* elf = llvm::dyn_cast<object::ELF64LEObjectFile>(&binary);
  if (elf == nullptr) errors.fail("{}: is no ELF object of 64 bits; compile it with -c", file);
  const auto& header = elf->getELFFile().getHeader();
  if (header.e_type != llvm::ELF::ET_REL)
    errors.fail("{}: is a program or shared library; compile it with -c", file);
  const CpuFamily& family = family_of(target);
  if (header.e_machine != family.elf_machine)
    errors.fail("{}: is for {}, not for {}", file, machine_text(header.e_machine), family.code);
  for (const object::ELFSectionRef section : elf->sections()) {
    const std::string name = errors.expect(section.getName(), file).str();
    if ((section.getFlags() & llvm::ELF::SHF_TLS) != 0)
      errors.fail("{}: has thread-local data ({}), which kernels cannot have", file, name);
    const bool runs_at_start = name.starts_with(".init_array") || name.starts_with(".fini_array") ||
                               name.starts_with(".ctors") || name.starts_with(".dtors");
    if (runs_at_start && section.getSize() > 0)
      errors.fail("{}: has constructors or destructors ({}), which nobody would call", file, name);
  }
}

/// What the file holds is code for the target; true for an archive.
bool expect_code(const ObjectFile& file, const Target& target, const CodeErrors& errors) {
  const llvm::MemoryBufferRef bytes(file.bytes, file.name);
  if (file.bytes.starts_with("BC\xC0\xDE") || file.bytes.starts_with("\xDE\xC0\x17\x0B"))
    errors.fail("{}: is LLVM bitcode; make an object of it, with clang -c and without -flto", file.name);
  auto binary = errors.expect(object::createBinary(bytes), file.name);
  const auto* archive = llvm::dyn_cast<object::Archive>(binary.get());
  if (archive == nullptr) {
    expect_object(*binary, file.name, target, errors);
    return false;
  }
  llvm::Error problem = llvm::Error::success();
  for (const object::Archive::Child& child : archive->children(problem)) {
    const std::string name = file.name + "(" + errors.expect(child.getName(), file.name).str() + ")";
    const auto member = errors.expect(child.getAsBinary(), name);
    // Constructors and the like matter in what is taken of it.
    const auto* elf = llvm::dyn_cast<object::ELF64LEObjectFile>(member.get());
    if (elf == nullptr || elf->getELFFile().getHeader().e_machine != family_of(target).elf_machine)
      errors.fail("{}: is no object for {}", name, family_of(target).code);
  }
  if (problem) errors.fail("{}: {}", file.name, llvm::toString(std::move(problem)));
  return true;
}

/// The files as one object.
ObjectFile joined(const CustomKernel& code, const Target& target, const CodeErrors& errors) {
  const std::vector<ObjectFile>& files = files_for(code, target, errors);
  bool any_archive = false;
  std::vector<std::string> bytes;
  for (const ObjectFile& file : files) {
    any_archive = expect_code(file, target, errors) || any_archive;
    bytes.push_back(file.bytes);
  }
  if (files.empty()) errors.fail("{} names no file", code.source);
  if (files.size() == 1 && !any_archive) return files.front();
  ObjectFile all{files.front().name + (files.size() > 1 ? " and others" : ""), ""};
  std::string messages;
  all.bytes = link_relocatable(bytes, code.function, target, messages);
  if (all.bytes.empty()) errors.fail("{}: cannot be linked: {}", all.name, messages);
  const auto binary =
      errors.expect(object::createBinary(llvm::MemoryBufferRef(all.bytes, all.name)), all.name);
  expect_object(*binary, all.name, target, errors);
  return all;
}

/// The symbols that others must define; fails unless the function is defined.
std::vector<std::string> undefined_symbols(const object::ObjectFile& file, const std::string& name,
                                           const CustomKernel& code, const CodeErrors& errors) {
  std::set<std::string> undefined;
  bool defined = false;
  for (const object::SymbolRef& symbol : file.symbols()) {
    const uint32_t flags = errors.expect(symbol.getFlags(), name);
    const std::string text = errors.expect(symbol.getName(), name).str();
    if (text.empty() || text == "_GLOBAL_OFFSET_TABLE_") continue;
    if ((flags & object::SymbolRef::SF_Undefined) != 0) {
      undefined.insert(text);
    } else if (text == code.function && (flags & object::SymbolRef::SF_Global) != 0) {
      defined = errors.expect(symbol.getType(), name) == object::SymbolRef::ST_Function;
    }
  }
  if (!defined) {
    errors.fail("{}: defines no function '{}' that others can call (in C++ it is declared extern \"C\")",
                name, code.function);
  }
  return {undefined.begin(), undefined.end()};
}

/// Renames the function; all else that the object defines is its own.
std::string isolated(object::Binary& binary, const std::string& file, const CustomKernel& code,
                     const CodeErrors& errors) {
  namespace objcopy = llvm::objcopy;
  objcopy::ConfigManager config;
  const std::string name = linked_name(code);
  config.Common.InputFilename = file;
  config.Common.OutputFilename = file;
  config.Common.StripDebug = true;
  llvm::cantFail(config.Common.SymbolsToKeepGlobal.addMatcher(objcopy::NameOrPattern::create(
      code.function, objcopy::MatchStyle::Literal, [](llvm::Error error) { return error; })));
  config.Common.SymbolsToRename[code.function] = name;
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  if (llvm::Error error = objcopy::executeObjcopyOnBinary(config, binary, stream))
    errors.fail("{}: its symbols cannot be renamed: {}", file, llvm::toString(std::move(error)));
  return {bytes.begin(), bytes.end()};
}

std::vector<LoopKernel> without_calls(std::span<const LoopKernel> kernels,
                                      std::span<const NamedCustomCall> calls) {
  std::vector<LoopKernel> own;
  for (const LoopKernel& kernel : kernels) {
    const auto is_it = [&](const NamedCustomCall& call) { return call.name == kernel.name; };
    if (std::ranges::none_of(calls, is_it)) own.push_back(kernel);
  }
  return own;
}

}  // namespace

std::string custom_object(const CustomKernel& code, const Target& target, std::vector<std::string>& needs) {
  const CodeErrors errors(code, target);
  const ObjectFile file = joined(code, target, errors);
  const auto binary =
      errors.expect(object::createBinary(llvm::MemoryBufferRef(file.bytes, file.name)), file.name);
  const std::vector<std::string> provided = provided_functions();
  std::vector<std::string> missing;
  for (const std::string& symbol :
       undefined_symbols(llvm::cast<object::ObjectFile>(*binary), file.name, code, errors)) {
    const bool known = std::ranges::binary_search(provided, symbol);
    (known ? needs : missing).push_back(symbol);
  }
  if (!missing.empty()) {
    errors.fail(
        "{}: calls or reads what nobody defines: {}. A module imports nothing: link what has it into the "
        "object "
        "(docs/custom-ops.md lists what gantry provides)",
        file.name, fmt::join(missing, ", "));
  }
  return isolated(*binary, file.name, code, errors);
}

CodeImage build_image_with_calls(std::span<const LoopKernel> kernels, std::span<const NamedCustomCall> calls,
                                 const Target& target, int threads, KernelCache* cache, SpanRecorder* spans) {
  if (calls.empty()) return build_image(kernels, target, threads, cache, spans);
  const std::vector<LoopKernel> own = without_calls(kernels, calls);
  ForeignObjects foreign;
  std::set<std::string> linked;
  std::vector<std::string> needs;
  for (const NamedCustomCall& call : calls) {
    foreign.objects.push_back(custom_call_object(call, target));
    const CustomKernel& code = *call.call->code;
    if (!linked.insert(linked_name(code)).second) continue;
    foreign.objects.push_back(custom_object(code, target, needs));
    foreign.names += (foreign.names.empty() ? "" : ", ") + code.op;
  }
  std::ranges::sort(needs);
  needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
  if (!needs.empty()) foreign.objects.push_back(provided_object(needs, target));
  return build_image(own, target, threads, cache, spans, foreign);
}

std::string linked_gpu_name(const CustomKernel& code) {
  return code.gpu ? linked_name(code, code.gpu->entry) : std::string();
}

GpuImage build_gpu_image_with_calls(std::span<const LoopKernel> kernels,
                                    std::span<const NamedCustomCall> calls, const Target& target, int threads,
                                    SpanRecorder* spans) {
  std::vector<ForeignGpuText> foreign;
  std::set<std::string> names;
  for (const NamedCustomCall& call : calls) {
    const CustomKernel& code = *call.call->code;
    internal_check(code.gpu.has_value(), "kernel {}: its op has no code for GPUs", call.name);
    const GpuFamily& family = gpu_family_of(target);
    if (code.gpu->family != family.name) {
      user_error("custom op {} for {}: {}: kernel.{}: its GPU is none of {}", code.op, target.name,
                 code.source, code.gpu->family, family.name);
    }
    if (!names.insert(linked_gpu_name(code)).second) continue;
    foreign.push_back(
        {code.op, code.gpu->text.name, code.gpu->text.bytes, code.gpu->entry, linked_gpu_name(code)});
  }
  return gpu_codegen_of(target).build_image(without_calls(kernels, calls), target, threads, spans, foreign);
}

}  // namespace gantry
