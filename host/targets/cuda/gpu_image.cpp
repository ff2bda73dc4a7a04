// Launches -> PTX of a whole program -> machine code.
#include <algorithm>
#include <charconv>
#include <map>

#include "host/codegen/codegen.h"
#include "host/codegen/compiled_module.h"
#include "host/support/error.h"
#include "host/targets/cuda/codegen.h"
#include "host/targets/cuda/foreign_ptx.h"
#include "host/targets/cuda/ptx_text.h"
#include "host/targets/cuda/ptxas.h"

namespace gantry::cuda {
namespace {

constexpr std::string_view kEntry = ".entry ";

/// Appends a kernel's text; all but the first go without the directives that say what the text is.
void append(std::string& ptx, std::string_view kernel) {
  const bool first = ptx.empty();
  for_each_line(kernel, [&](std::string_view line) {
    if (line.starts_with("//") || (!first && is_head(line))) return;
    if (line.empty() && ptx.ends_with("\n\n")) return;
    ptx.append(line);
    ptx += '\n';
  });
}

std::string_view identifier_at(std::string_view text) {
  const auto ends = [](char c) {
    return !(std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$');
  };
  return text.substr(0, static_cast<size_t>(std::ranges::find_if(text, ends) - text.begin()));
}

std::vector<GpuEntry> entries_of(std::string_view ptx) {
  std::vector<GpuEntry> entries;
  for_each_line(ptx, [&](std::string_view line) {
    const size_t at = line.find(kEntry);
    if (at == std::string_view::npos) return;
    entries.push_back({std::string(identifier_at(line.substr(at + kEntry.size()))), -1, 0});
  });
  return entries;
}

/// The entry in which a line of the text lies; empty before the first.
std::string_view entry_at_line(std::string_view ptx, int64_t wanted) {
  std::string_view current;
  int64_t number = 0;
  for_each_line(ptx, [&](std::string_view line) {
    if (++number > wanted) return;
    const size_t at = line.find(kEntry);
    if (at != std::string_view::npos) current = identifier_at(line.substr(at + kEntry.size()));
  });
  return current;
}

int64_t number_after(std::string_view text, std::string_view word, int64_t otherwise) {
  const size_t at = text.find(word);
  if (at == std::string_view::npos) return otherwise;
  const std::string_view digits = text.substr(at + word.size());
  int64_t value = otherwise;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

/// "Compiling entry function 'NAME' …", then "… N bytes spill stores …" and "Used N registers, …".
void read_statistics(std::string_view messages, std::vector<GpuEntry>& entries) {
  std::map<std::string_view, GpuEntry*> by_name;
  for (GpuEntry& entry : entries) by_name[entry.symbol] = &entry;
  GpuEntry* current = nullptr;
  for_each_line(messages, [&](std::string_view line) {
    for (std::string_view word : {"Compiling entry function '", "Function properties for "}) {
      const size_t at = line.find(word);
      if (at == std::string_view::npos) continue;
      const auto found = by_name.find(identifier_at(line.substr(at + word.size())));
      current = found == by_name.end() ? nullptr : found->second;
    }
    if (!current) return;
    current->registers = static_cast<int>(number_after(line, "Used ", current->registers));
    current->spill_bytes = number_after(line, "bytes stack frame, ", current->spill_bytes);
  });
}

[[noreturn]] void refused(const std::string& ptx, const std::string& messages, const Target& target,
                          std::span<const ForeignGpuText> foreign) {
  const std::string_view first = first_error(messages);
  const int64_t line = number_after(first, "line ", -1);
  const std::string_view entry = line < 0 ? std::string_view() : entry_at_line(ptx, line);
  if (!foreign.empty()) {
    std::string ops;
    for (const ForeignGpuText& text : foreign) ops += (ops.empty() ? "" : ", ") + text.op + " (" + text.file + ")";
    user_error("ptxas refuses for {} the code with that of the custom ops {}: {}", target.gpu_arch, ops, first);
  }
  internal_error("kernel {}: ptxas refuses its code for {}: {}", entry.empty() ? "(unknown)" : entry,
                 target.gpu_arch, first);
}

}  // namespace

GpuImage build_image(std::span<const LoopKernel> kernels, const Target& target, int threads,
                     SpanRecorder* spans, std::span<const ForeignGpuText> foreign) {
  check_names(kernels);
  std::vector<std::string> texts(kernels.size());
  run_on_threads(kernels.size(), threads, [&](size_t i) {
    internal_check(is_gpu_kernel(kernels[i]), "kernel {}: has no launches", kernels[i].name);
    const TimedSpan span(spans, "codegen", kernels[i].name);
    CompiledModule compiled;
    compile_kernel(kernels[i], target, compiled);
    texts[i] = generate_file(compiled, llvm::CodeGenFileType::AssemblyFile, kernels[i].name);
  });
  GpuImage image;
  for (const std::string& text : texts) append(image.ptx, text);
  add_foreign(image.ptx, foreign, target);
  image.entries = entries_of(image.ptx);
  if (image.ptx.empty()) return image;

  const auto program = find_ptxas();
  if (!program) {
    image.note = "ptxas was not found: the driver assembles the kernels when the module is loaded";
    return image;
  }
  const TimedSpan span(spans, "codegen", "ptxas");
  PtxasResult result = run_ptxas(*program, image.ptx, target.gpu_arch, threads);
  if (result.outcome == PtxasResult::Outcome::kUnknownArchitecture) {
    image.note =
        fmt::format("{} does not know {}: the driver assembles the kernels when the module is loaded",
                    program->string(), target.gpu_arch);
    return image;
  }
  if (result.outcome == PtxasResult::Outcome::kFailed) refused(image.ptx, result.messages, target, foreign);
  read_statistics(result.messages, image.entries);
  image.cubin = std::move(result.cubin);
  return image;
}

}  // namespace gantry::cuda
