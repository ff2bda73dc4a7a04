#include "tests/device_runtime/module_builder.h"

#include <cstring>
#include <fstream>

#include "device_runtime/src/module_format.h"
#include "device_runtime/src/sha256.h"

namespace gantry::runtime::testing {

using namespace module_format;  // NOLINT: builds nothing else

std::vector<std::byte> read_testdata(const std::string& name) {
  std::ifstream file(std::string(GANTRY_TESTDATA_DIR) + "/" + name, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::byte> result(bytes.size());
  if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

std::vector<std::byte> read_image(const std::string& name) {
  return read_testdata(name +
                       (running_architecture() == Architecture::X86_64 ? "_x86_64.so" : "_aarch64.so"));
}

Architecture running_architecture() {
#if defined(__x86_64__)
  return Architecture::X86_64;
#else
  return Architecture::AArch64;
#endif
}

ModuleBuilder::ModuleBuilder() {
  manifest.producer = "test";
  manifest.variants.push_back(std::make_unique<VariantT>());
  variant().target = "here";
  variant().architecture = running_architecture();
  variant().workspace_bytes = constant(0);
  segments.push_back(read_image("kernels"));
  manifest.segments.emplace_back(0, segments[0].size(), module_format::Sha256{}, SegmentKind::Code);
}

uint32_t ModuleBuilder::constant(int64_t value) {
  auto program = std::make_unique<DimExprT>();
  program->steps.emplace_back(value, DimOpcode::Constant);
  manifest.dim_exprs.push_back(std::move(program));
  return static_cast<uint32_t>(manifest.dim_exprs.size() - 1);
}

uint32_t ModuleBuilder::symbol(const std::string& name) {
  int64_t index = 0;
  while (index < static_cast<int64_t>(manifest.symbols.size()) && manifest.symbols[index] != name) ++index;
  if (index == static_cast<int64_t>(manifest.symbols.size())) manifest.symbols.push_back(name);
  auto program = std::make_unique<DimExprT>();
  program->steps.emplace_back(index, DimOpcode::Symbol);
  manifest.dim_exprs.push_back(std::move(program));
  return static_cast<uint32_t>(manifest.dim_exprs.size() - 1);
}

uint32_t ModuleBuilder::combine(DimOpcode opcode, uint32_t left, uint32_t right) {
  auto program = std::make_unique<DimExprT>();
  for (uint32_t operand : {left, right}) {
    const auto& steps = manifest.dim_exprs[operand]->steps;
    program->steps.insert(program->steps.end(), steps.begin(), steps.end());
  }
  program->steps.emplace_back(0, opcode);
  manifest.dim_exprs.push_back(std::move(program));
  return static_cast<uint32_t>(manifest.dim_exprs.size() - 1);
}

void ModuleBuilder::add_input(const std::string& name, std::vector<uint32_t> shape, ElementType type) {
  auto info = std::make_unique<TensorInfoT>();
  info->name = name;
  info->dtype = static_cast<DType>(type);
  info->shape = std::move(shape);
  manifest.inputs.push_back(std::move(info));
}

void ModuleBuilder::add_output(const std::string& name, std::vector<uint32_t> shape, ElementType type) {
  add_input(name, std::move(shape), type);
  manifest.outputs.push_back(std::move(manifest.inputs.back()));
  manifest.inputs.pop_back();
}

uint32_t ModuleBuilder::add_buffer(BufferKind kind, uint32_t index, uint32_t offset, uint32_t bytes) {
  auto buffer = std::make_unique<BufferT>();
  buffer->kind = kind;
  buffer->index = index;
  buffer->offset = offset;
  buffer->bytes = bytes;
  variant().buffers.push_back(std::move(buffer));
  return static_cast<uint32_t>(variant().buffers.size() - 1);
}

uint32_t ModuleBuilder::input_buffer(uint32_t input, uint32_t bytes) {
  return add_buffer(BufferKind::Input, input, 0, bytes);
}
uint32_t ModuleBuilder::output_buffer(uint32_t output, uint32_t bytes) {
  return add_buffer(BufferKind::Output, output, 0, bytes);
}
uint32_t ModuleBuilder::workspace_buffer(uint32_t offset, uint32_t bytes) {
  return add_buffer(BufferKind::Workspace, 0, offset, bytes);
}

uint32_t ModuleBuilder::constant_buffer(std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  segments.emplace_back(bytes.begin(), bytes.end());
  const auto segment = static_cast<uint32_t>(manifest.segments.size());
  manifest.segments.emplace_back(0, bytes.size(), module_format::Sha256{}, SegmentKind::Weights);
  variant().constants.emplace_back(segment, 0, bytes.size());
  return add_buffer(BufferKind::Constant, static_cast<uint32_t>(variant().constants.size() - 1), 0,
                    constant(static_cast<int64_t>(bytes.size())));
}

void ModuleBuilder::call(const std::string& symbol, std::vector<uint32_t> buffers, std::vector<uint32_t> dims,
                         std::vector<std::string> origin) {
  auto kernel = std::make_unique<KernelT>();
  kernel->symbol = symbol;
  kernel->name = "test." + symbol;
  kernel->buffer_count = static_cast<uint32_t>(buffers.size());
  kernel->dim_count = static_cast<uint32_t>(dims.size());
  variant().kernels.push_back(std::move(kernel));
  CallKernelT call;
  call.kernel = static_cast<uint32_t>(variant().kernels.size() - 1);
  call.buffers = std::move(buffers);
  call.dims = std::move(dims);
  call.origin = std::move(origin);
  call.flops = constant(100);
  call.bytes = constant(200);
  auto step = std::make_unique<StepT>();
  step->action.Set(std::move(call));
  variant().steps.push_back(std::move(step));
}

void ModuleBuilder::copy(uint32_t source, uint32_t target) {
  CopyBufferT copy;
  copy.source = source;
  copy.target = target;
  auto step = std::make_unique<StepT>();
  step->action.Set(std::move(copy));
  variant().steps.push_back(std::move(step));
}

std::vector<std::byte> ModuleBuilder::write_manifest() {
  for (size_t i = 0; i < segments.size(); ++i) {
    const Sha256Digest digest = sha256(segments[i]);
    const auto& old = manifest.segments[i];
    manifest.segments[i] =
        Segment(old.offset(), segments[i].size(),
                module_format::Sha256(flatbuffers::span<const uint8_t, 32>(digest)), old.kind());
  }
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(Manifest::Pack(builder, &manifest), ManifestIdentifier());
  const auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {data, data + builder.GetSize()};
}

std::vector<std::byte> ModuleBuilder::write() {
  // The manifest's size does not depend on the offsets in it, so a first writing tells where segments may
  // start.
  uint64_t end = sizeof(FileHeader) + write_manifest().size();
  for (size_t i = 0; i < segments.size(); ++i) {
    const uint64_t offset = (end + kSegmentAlignment - 1) / kSegmentAlignment * kSegmentAlignment;
    const auto& old = manifest.segments[i];
    manifest.segments[i] = Segment(offset, old.size(), old.digest(), old.kind());
    end = offset + segments[i].size();
  }
  const std::vector<std::byte> body = write_manifest();
  std::vector<std::byte> file(end);
  FileHeader header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version_major = kVersionMajor;
  header.version_minor = kVersionMinor;
  header.header_size = sizeof header;
  header.file_size = end;
  header.manifest_offset = sizeof header;
  header.manifest_size = body.size();
  std::memcpy(header.manifest_digest, sha256(body).data(), 32);
  const auto header_bytes = std::as_bytes(std::span(&header, 1));
  std::memcpy(header.checksum, sha256(header_bytes.first(offsetof(FileHeader, checksum))).data(), 32);
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + sizeof header, body.data(), body.size());
  for (size_t i = 0; i < segments.size(); ++i) {
    std::memcpy(file.data() + manifest.segments[i].offset(), segments[i].data(), segments[i].size());
  }
  return file;
}

ModuleBuilder symbolic_module() {
  ModuleBuilder builder;
  const uint32_t n = builder.symbol("N"), four = builder.constant(4);
  const uint32_t elements = builder.combine(DimOpcode::Mul, n, four);
  const uint32_t bytes = builder.combine(DimOpcode::Mul, elements, four);
  builder.add_input("in", {n, four});
  builder.add_output("out", {n, four});
  builder.variant().workspace_bytes = bytes;
  const uint32_t in = builder.input_buffer(0, bytes), out = builder.output_buffer(0, bytes);
  const uint32_t between = builder.workspace_buffer(builder.constant(0), bytes);
  builder.call("add_one", {in, between}, {elements}, {"Add_0"});
  builder.call("parallel_square", {between, out}, {elements}, {"Mul_1", "Mul_2"});
  return builder;
}

ModuleBuilder static_module() {
  ModuleBuilder builder;
  const uint32_t bytes = builder.constant(24), elements = builder.constant(6);
  builder.add_input("in", {builder.constant(2), builder.constant(3)});
  builder.add_output("out", {builder.constant(2), builder.constant(3)});
  const uint32_t in = builder.input_buffer(0, bytes), out = builder.output_buffer(0, bytes);
  builder.call("add_one", {in, out}, {elements}, {"Add_0"});
  return builder;
}

ModuleBuilder specialized_module() {
  ModuleBuilder builder = symbolic_module();
  auto general = std::move(builder.manifest.variants[0]);
  builder.manifest.variants[0] = std::make_unique<VariantT>();
  builder.variant().target = general->target;
  builder.variant().architecture = general->architecture;
  builder.variant().workspace_bytes = builder.constant(0);
  builder.variant().specialized.emplace_back(2, 0);
  const uint32_t bytes = builder.constant(32);
  const uint32_t in = builder.input_buffer(0, bytes), out = builder.output_buffer(0, bytes);
  builder.call("add_one", {in, out}, {builder.constant(8)}, {"Add_of_2"});
  builder.manifest.variants.insert(builder.manifest.variants.begin(), std::move(general));
  return builder;
}

SharedBytes share(std::span<const std::byte> bytes) {
  auto copy = std::make_shared<AlignedBuffer>();
  if (!copy->reserve(bytes.size(), "a test's bytes").ok()) return {};
  if (!bytes.empty()) std::memcpy(copy->data(), bytes.data(), bytes.size());
  return {{copy->data(), bytes.size()}, copy};
}

}  // namespace gantry::runtime::testing
