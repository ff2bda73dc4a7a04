#include "tests/support/test_module.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>

#include "device_runtime/src/module_format.h"
#include "device_runtime/src/sha256.h"
#include "module_generated.h"

namespace gantry::testing {
namespace {

namespace mf = module_format;
using Bytes = std::vector<std::byte>;

Bytes compile(const std::string& compiler, const std::string& body) {
  char name[] = "/tmp/gantry-test-XXXXXX";
  if (!::mkdtemp(name)) throw std::runtime_error("no temporary directory");
  const std::filesystem::path directory(name);
  {
    std::ofstream source(directory / "kernel.c");
    source
        << "static int body(float* in, float* out, const float* weights, char* workspace) { (void)in; "
           "(void)out; "
           "(void)weights; (void)workspace; "
        << body
        << " }\n__attribute__((visibility(\"default\"))) int kernel(const void* host, void* const* buffers, "
           "const long* dims) { (void)host; (void)dims; return body(buffers[0], buffers[1], buffers[2], "
           "buffers[3]); }\n";
  }
  const std::string command = compiler +
                              " -O1 -ffreestanding -fno-builtin -fPIC -shared -nostdlib -fvisibility=hidden "
                              "-fno-asynchronous-unwind-tables -fno-delete-null-pointer-checks "
                              "-Wl,-z,norelro -Wl,-z,separate-code -Wl,--build-id=none -o " +
                              (directory / "kernel.so").string() + " " + (directory / "kernel.c").string();
  const bool built = std::system(command.c_str()) == 0;
  std::ifstream file(directory / "kernel.so", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::filesystem::remove_all(directory);
  if (!built) throw std::runtime_error("the C compiler did not build the test's kernel");
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

Bytes make_weights(const TestModule& module) {
  Bytes weights(module.weights_bytes);
  std::mt19937 random(module.seed);
  for (std::size_t i = 0; i + 4 <= weights.size(); i += 4) {
    const std::uint32_t value = random();
    std::memcpy(&weights[i], &value, 4);
  }
  const float one = 1;
  std::memcpy(weights.data(), &one, sizeof one);
  return weights;
}

class ManifestWriter {
 public:
  ManifestWriter(mf::ManifestT& manifest, std::int64_t elements) : manifest_(manifest), elements_(elements) {}
  std::uint32_t constant(std::int64_t value) {
    auto expression = std::make_unique<mf::DimExprT>();
    expression->steps.emplace_back(value, mf::DimOpcode::Constant);
    manifest_.dim_exprs.push_back(std::move(expression));
    return static_cast<std::uint32_t>(manifest_.dim_exprs.size() - 1);
  }
  std::unique_ptr<mf::TensorInfoT> tensor(const std::string& name) {
    auto info = std::make_unique<mf::TensorInfoT>();
    info->name = name;
    info->dtype = mf::DType::F32;
    info->shape = {constant(elements_)};
    return info;
  }
  std::unique_ptr<mf::BufferT> buffer(mf::BufferKind kind, std::uint64_t bytes) {
    auto made = std::make_unique<mf::BufferT>();
    made->kind = kind;
    made->offset = constant(0);
    made->bytes = constant(static_cast<std::int64_t>(bytes));
    return made;
  }

 private:
  mf::ManifestT& manifest_;
  std::int64_t elements_;
};

mf::Segment segment(const Bytes& bytes, std::uint64_t offset, mf::SegmentKind kind) {
  const auto digest = runtime::sha256(bytes);
  return mf::Segment(offset, bytes.size(), mf::Sha256(flatbuffers::span<const std::uint8_t, 32>(digest)),
                     kind);
}

std::unique_ptr<mf::VariantT> make_variant(ManifestWriter& writer, const TestModule& module) {
  const auto tensor_bytes = static_cast<std::uint64_t>(module.elements) * sizeof(float);
  auto variant = std::make_unique<mf::VariantT>();
  variant->target = "test";
#if defined(__x86_64__)
  variant->architecture = module.other_architecture ? mf::Architecture::AArch64 : mf::Architecture::X86_64;
#else
  variant->architecture = module.other_architecture ? mf::Architecture::X86_64 : mf::Architecture::AArch64;
#endif
  variant->code_segment = 0;
  auto kernel = std::make_unique<mf::KernelT>();
  kernel->symbol = "kernel";
  kernel->name = module.kernel_name;
  kernel->buffer_count = 4;
  variant->kernels.push_back(std::move(kernel));
  variant->constants.emplace_back(1, 0, module.weights_bytes);
  variant->buffers.push_back(writer.buffer(mf::BufferKind::Input, tensor_bytes));
  variant->buffers.push_back(writer.buffer(mf::BufferKind::Output, tensor_bytes));
  variant->buffers.push_back(writer.buffer(mf::BufferKind::Constant, module.weights_bytes));
  variant->buffers.push_back(writer.buffer(mf::BufferKind::Workspace, module.workspace_bytes));
  auto call = mf::CallKernelT();
  call.buffers = {0, 1, 2, 3};
  call.origin = {module.origin};
  call.flops = writer.constant(8);
  call.bytes = writer.constant(36);
  auto step = std::make_unique<mf::StepT>();
  step->action.Set(std::move(call));
  variant->steps.push_back(std::move(step));
  variant->workspace_bytes = writer.constant(static_cast<std::int64_t>(module.workspace_bytes));
  return variant;
}

std::uint64_t align(std::uint64_t value) {
  return (value + mf::kSegmentAlignment - 1) / mf::kSegmentAlignment * mf::kSegmentAlignment;
}

}  // namespace

Bytes build(const TestModule& module) {
  return build(module, build_kernel(module));
}

Bytes build_kernel(const TestModule& module) {
  return compile(module.compiler, module.body);
}

Bytes build(const TestModule& module, const Bytes& code) {
  const Bytes weights = make_weights(module);
  // The manifest fits before it.
  const std::uint64_t code_offset =
      align(4 * mf::kSegmentAlignment + module.kernel_name.size() + module.origin.size());
  const std::uint64_t weights_offset = code_offset + align(code.size());

  mf::ManifestT manifest;
  ManifestWriter writer(manifest, module.elements);
  manifest.producer = "tests";
  manifest.inputs.push_back(writer.tensor("in"));
  manifest.outputs.push_back(writer.tensor("out"));
  manifest.segments = {segment(code, code_offset, mf::SegmentKind::Code),
                       segment(weights, weights_offset, mf::SegmentKind::Weights)};
  manifest.variants.push_back(make_variant(writer, module));
  flatbuffers::FlatBufferBuilder builder;
  mf::FinishManifestBuffer(builder, mf::Manifest::Pack(builder, &manifest));

  Bytes file(weights_offset + weights.size());
  mf::FileHeader header{};
  std::memcpy(header.magic, mf::kMagic, sizeof header.magic);
  header.version_major = mf::kVersionMajor;
  header.version_minor = mf::kVersionMinor;
  header.header_size = sizeof header;
  header.file_size = file.size();
  header.manifest_offset = sizeof header;
  header.manifest_size = builder.GetSize();
  if (sizeof header + builder.GetSize() > code_offset)
    throw std::runtime_error("the test's manifest is too large");
  std::memcpy(&file[sizeof header], builder.GetBufferPointer(), builder.GetSize());
  std::memcpy(&file[code_offset], code.data(), code.size());
  std::memcpy(&file[weights_offset], weights.data(), weights.size());
  const auto manifest_digest = runtime::sha256(std::span(file).subspan(sizeof header, builder.GetSize()));
  std::memcpy(header.manifest_digest, manifest_digest.data(), manifest_digest.size());
  const auto checksum =
      runtime::sha256(std::as_bytes(std::span(&header, 1)).first(offsetof(mf::FileHeader, checksum)));
  std::memcpy(header.checksum, checksum.data(), checksum.size());
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

}  // namespace gantry::testing
