#include "device_runtime/src/module_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "device_runtime/src/module_format.h"
#include "tests/device_runtime/module_builder.h"

namespace gantry::runtime {
namespace {

using module_format::FileHeader;
using ::testing::HasSubstr;
using testing::ModuleBuilder;
using testing::share;
using testing::static_module;
using testing::symbolic_module;

Status read_status(std::span<const std::byte> file) {
  return ModuleContents::from_bytes(share(file)).status();
}

/// The error of a module after a change to its manifest; the file around it is sound.
Status status_after(const std::function<void(ModuleBuilder&)>& change) {
  ModuleBuilder builder = symbolic_module();
  change(builder);
  return read_status(builder.write());
}

void expect_refused(const std::function<void(ModuleBuilder&)>& change, const char* message) {
  const Status status = status_after(change);
  EXPECT_EQ(status.code(), GANTRY_INVALID_MODULE) << message;
  EXPECT_THAT(status.message(), HasSubstr(message));
}

TEST(ModuleReader, ReadsASoundModule) {
  Result<ModuleContents> contents = ModuleContents::from_bytes(share(symbolic_module().write()));
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  EXPECT_EQ(contents->manifest().inputs()->Get(0)->name()->str(), "in");
  EXPECT_TRUE(Module::create(*contents).ok());
}

TEST(ModuleReader, NoticesEveryFlippedByteOfTheHeader) {
  const auto file = static_module().write();
  for (size_t at = 0; at < sizeof(FileHeader); ++at) {
    for (unsigned flip : {0x01u, 0x80u, 0xffu}) {
      auto damaged = file;
      damaged[at] ^= static_cast<std::byte>(flip);
      const Status status = read_status(damaged);
      EXPECT_FALSE(status.ok()) << "byte " << at;
      EXPECT_FALSE(status.message().empty()) << "byte " << at;
    }
  }
}

TEST(ModuleReader, NoticesEveryFlippedByteOfTheManifestAndTheSegments) {
  ModuleBuilder builder = static_module();
  const auto file = builder.write();
  const size_t manifest_size = builder.write_manifest().size();
  const auto expect_noticed = [&](size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += 7) {
      auto damaged = file;
      damaged[at] ^= std::byte{0x10};
      EXPECT_EQ(read_status(damaged).code(), GANTRY_INVALID_MODULE) << "byte " << at;
    }
  };
  expect_noticed(sizeof(FileHeader), sizeof(FileHeader) + manifest_size);
  expect_noticed(builder.manifest.segments[0].offset(), file.size());
}

TEST(ModuleReader, NoticesTruncationAtEveryLength) {
  const auto file = static_module().write();
  for (size_t size = 0; size < file.size(); ++size) {
    const Status status = read_status(std::span(file).first(size));
    ASSERT_EQ(status.code(), GANTRY_INVALID_MODULE) << size;
    if (size >= sizeof(FileHeader)) {
      ASSERT_THAT(status.message(), HasSubstr("truncated"));
    }
  }
}

TEST(ModuleReader, NoticesBytesAfterTheEnd) {
  auto file = static_module().write();
  file.push_back(std::byte{0});
  EXPECT_THAT(read_status(file).message(), HasSubstr("too long"));
}

TEST(ModuleReader, RefusesANewerFormatByName) {
  auto file = static_module().write();
  file[8] = std::byte{9};
  const Status status = read_status(file);
  EXPECT_EQ(status.code(), GANTRY_INCOMPATIBLE);
  EXPECT_THAT(status.message(), HasSubstr("format version 9.0"));
}

TEST(ModuleReader, SaysThatAFileIsNoModule) {
  const std::string text = "PK\x03\x04 and more that is no module at all";
  EXPECT_THAT(read_status(std::as_bytes(std::span(text))).message(), HasSubstr("not a gantry module"));
}

TEST(ModuleReader, RefusesIndicesThatNameNothing) {
  expect_refused([](auto& b) { b.manifest.inputs[0]->shape[0] = 999; }, "input 0 has a dimension");
  expect_refused([](auto& b) { b.manifest.outputs[0]->shape[0] = 999; }, "output 0 has a dimension");
  expect_refused([](auto& b) { b.variant().workspace_bytes = 999; }, "workspace's size");
  expect_refused([](auto& b) { b.variant().code_segment = 5; }, "not in a segment of code");
  expect_refused([](auto& b) { b.variant().buffers[0]->index = 1; }, "buffer names number 1 of 1");
  expect_refused([](auto& b) { b.variant().buffers[0]->bytes = 999; }, "buffer's size");
  expect_refused([](auto& b) { b.variant().buffers[2]->offset = 999; }, "buffer's offset");
  expect_refused([](auto& b) { b.variant().steps[0]->action.AsCallKernel()->kernel = 2; },
                 "kernel that is not there");
  expect_refused([](auto& b) { b.variant().steps[0]->action.AsCallKernel()->buffers[0] = 99; },
                 "buffer that is not");
  expect_refused([](auto& b) { b.variant().steps[0]->action.AsCallKernel()->dims[0] = 999; },
                 "dimension that is not");
  expect_refused([](auto& b) { b.variant().steps[0]->action.AsCallKernel()->flops = 999; },
                 "no dimension for its work");
}

TEST(ModuleReader, RefusesStepsThatDoNotFitTheirKernel) {
  expect_refused([](auto& b) { b.variant().steps[0]->action.AsCallKernel()->buffers.pop_back(); },
                 "gives 1 buffers to kernel 'add_one', which takes 2");
  expect_refused([](auto& b) { b.variant().steps[0]->action.AsCallKernel()->dims.clear(); },
                 "gives 0 dimensions to kernel 'add_one', which takes 1");
  expect_refused([](auto& b) { b.variant().steps[0]->action.Reset(); }, "");
}

TEST(ModuleReader, RefusesWrongEnumeratorsAndRanks) {
  expect_refused([](auto& b) { b.manifest.inputs[0]->dtype = static_cast<module_format::DType>(77); },
                 "unknown type");
  expect_refused([](auto& b) { b.manifest.inputs[0]->shape.assign(17, 0); }, "more than 16 dimensions");
  expect_refused([](auto& b) { b.variant().buffers[0]->kind = static_cast<module_format::BufferKind>(9); },
                 "unknown kind");
  expect_refused([](auto& b) { b.variant().architecture = static_cast<module_format::Architecture>(9); },
                 "unknown architecture");
  expect_refused([](auto& b) { b.manifest.variants.clear(); }, "no variants");
}

TEST(ModuleReader, RefusesConstantsOutsideTheirSegment) {
  const float values[] = {1, 2};
  const auto with_constant = [&](uint64_t offset, uint64_t size) {
    return [=](ModuleBuilder& b) {
      b.constant_buffer(values);
      b.variant().constants[0] = module_format::ConstantRef(1, offset, size);
    };
  };
  expect_refused(with_constant(0, 9), "outside its segment");
  expect_refused(with_constant(64, 1), "outside its segment");
  expect_refused(with_constant(UINT64_MAX - 63, 64), "outside its segment");
  expect_refused(with_constant(4, 4), "not aligned");
  expect_refused([](auto& b) { b.variant().constants.emplace_back(0, 0, 1); }, "segment of code");
}

TEST(ModuleReader, RefusesCopiesIntoConstantsAndInputs) {
  expect_refused([](auto& b) { b.copy(1, 0); }, "writes an input");
  const float values[] = {1};
  expect_refused([&](auto& b) { b.copy(0, b.constant_buffer(values)); }, "writes an input or a constant");
}

TEST(ModuleReader, SharedPartsCannotAskForEndlessWork) {
  // A list of 100,000 references to one expression of 4095 steps: half a megabyte that would expand to 400
  // million.
  std::vector<module_format::DimStep> steps(1, {1, module_format::DimOpcode::Constant});
  for (int i = 0; i < 2047; ++i) {
    steps.emplace_back(1, module_format::DimOpcode::Constant);
    steps.emplace_back(0, module_format::DimOpcode::Max);
  }
  flatbuffers::FlatBufferBuilder builder;
  const auto expression = module_format::CreateDimExpr(builder, builder.CreateVectorOfStructs(steps));
  const auto expressions = builder.CreateVector(std::vector(100'000, expression));
  const auto none = builder.CreateVector(std::vector<flatbuffers::Offset<module_format::TensorInfo>>());
  const auto variants = builder.CreateVector(std::vector<flatbuffers::Offset<module_format::Variant>>());
  builder.Finish(module_format::CreateManifest(builder, 0, 0, 0, expressions, none, none, 0, 0, variants),
                 module_format::ManifestIdentifier());
  const auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  const Status status = ModuleContents::from_parts(bytes, {}).status();
  EXPECT_EQ(status.code(), GANTRY_INVALID_MODULE);
  EXPECT_THAT(status.message(), HasSubstr("too large"));
}

/// The error of a manifest of one variant; beside it there are a dimension and a segment of code.
Status status_with(flatbuffers::FlatBufferBuilder& builder,
                   flatbuffers::Offset<module_format::Variant> variant) {
  const std::vector<module_format::DimStep> steps(1, {0, module_format::DimOpcode::Constant});
  const auto dim = module_format::CreateDimExpr(builder, builder.CreateVectorOfStructs(steps));
  const auto dims = builder.CreateVector(std::vector(1, dim));
  const module_format::Segment code(0, 0, module_format::Sha256(), module_format::SegmentKind::Code);
  const auto segments = builder.CreateVectorOfStructs(std::vector(1, code));
  const auto none = builder.CreateVector(std::vector<flatbuffers::Offset<module_format::TensorInfo>>());
  const auto variants = builder.CreateVector(std::vector(1, variant));
  builder.Finish(module_format::CreateManifest(builder, 0, 0, 0, dims, none, none, 0, segments, variants),
                 module_format::ManifestIdentifier());
  const auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return ModuleContents::from_parts(bytes, {}).status();
}

TEST(ModuleReader, SharedPlansCannotAskForEndlessWork) {
  // 10,000 references to one kernel, and as many to one plan, for which all kernels are looked at.
  constexpr int kMany = 10'000;
  flatbuffers::FlatBufferBuilder builder;
  const auto kernel = module_format::CreateKernelDirect(builder, "k", "k");
  const auto kernels = builder.CreateVector(std::vector(kMany, kernel));
  const auto outputs = builder.CreateVector(std::vector<flatbuffers::Offset<module_format::PlanOutput>>());
  const auto buffers = builder.CreateVector(std::vector<flatbuffers::Offset<module_format::Buffer>>());
  const auto steps = builder.CreateVector(std::vector<flatbuffers::Offset<module_format::Step>>());
  const auto stretch = module_format::CreateStretch(builder);
  const auto stretches = builder.CreateVector(std::vector(1, stretch));
  const auto plan = module_format::CreatePlan(builder, 0, outputs, buffers, steps, stretches);
  const auto plans = builder.CreateVector(std::vector(kMany, plan));
  const auto target = builder.CreateString("here");
  module_format::VariantBuilder variant(builder);
  variant.add_target(target);
  variant.add_kernels(kernels);
  variant.add_buffers(buffers);
  variant.add_steps(steps);
  variant.add_plans(plans);
  const Status status = status_with(builder, variant.Finish());
  EXPECT_EQ(status.code(), GANTRY_INVALID_MODULE);
  EXPECT_THAT(status.message(), HasSubstr("too large"));
}

TEST(ModuleReader, SharedTextsCannotAskForEndlessWork) {
  // 3,000 references to one step, whose origin is as many to one empty text: nine million in all.
  constexpr int kMany = 3'000;
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString("");
  const auto origin = builder.CreateVector(std::vector(kMany, text));
  const auto numbers = builder.CreateVector(std::vector<uint32_t>());
  const auto call = module_format::CreateCallKernel(builder, 0, numbers, 0, origin);
  const auto step = module_format::CreateStep(builder, module_format::Action::CallKernel, call.Union());
  const auto steps = builder.CreateVector(std::vector(kMany, step));
  const auto kernels = builder.CreateVector(std::vector<flatbuffers::Offset<module_format::Kernel>>());
  const auto buffers = builder.CreateVector(std::vector<flatbuffers::Offset<module_format::Buffer>>());
  module_format::VariantBuilder variant(builder);
  variant.add_target(text);
  variant.add_kernels(kernels);
  variant.add_buffers(buffers);
  variant.add_steps(steps);
  const Status status = status_with(builder, variant.Finish());
  EXPECT_EQ(status.code(), GANTRY_INVALID_MODULE);
  EXPECT_THAT(status.message(), HasSubstr("its structure is broken"));
}

TEST(ModuleReader, PicksTheHighestRankThatTheCpuSupports) {
  ModuleBuilder builder = static_module();
  CpuInfo cpu;
  cpu.architecture = "x86_64";
  cpu.features = {"avx", "avx2", "fma"};
  const auto add = [&](const char* target, std::vector<std::string> features, uint32_t rank,
                       module_format::Architecture architecture) {
    auto variant = std::make_unique<module_format::VariantT>();
    variant->target = target;
    variant->features = std::move(features);
    variant->rank = rank;
    variant->architecture = architecture;
    builder.manifest.variants.push_back(std::move(variant));
  };
  builder.manifest.variants.clear();
  add("v3", {"avx2", "fma"}, 3, module_format::Architecture::X86_64);
  add("v4", {"avx2", "avx512f"}, 4, module_format::Architecture::X86_64);
  add("base", {}, 1, module_format::Architecture::X86_64);
  add("arm", {}, 9, module_format::Architecture::AArch64);
  auto contents = ModuleContents::from_bytes(share(builder.write()));
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  EXPECT_EQ(*choose_variant(contents->manifest(), cpu), 0u);
  cpu.features = {"avx", "avx2", "avx512f", "fma"};
  EXPECT_EQ(*choose_variant(contents->manifest(), cpu), 1u);
  cpu.features.clear();
  EXPECT_EQ(*choose_variant(contents->manifest(), cpu), 2u);
}

TEST(ModuleReader, SaysWhatTheCpuLacks) {
  ModuleBuilder builder = static_module();
  builder.variant().features = {"avx2", "no-such-feature"};
  builder.variant().architecture = module_format::Architecture::X86_64;
  auto contents = ModuleContents::from_bytes(share(builder.write()));
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  CpuInfo cpu;
  cpu.architecture = "x86_64";
  cpu.brand = "Testium";
  cpu.features = {"avx2"};
  Status status = choose_variant(contents->manifest(), cpu).status();
  EXPECT_EQ(status.code(), GANTRY_INCOMPATIBLE);
  EXPECT_THAT(status.message(), HasSubstr("Testium"));
  EXPECT_THAT(status.message(), HasSubstr("'here' needs no-such-feature;"));
  cpu.architecture = "aarch64";
  EXPECT_THAT(choose_variant(contents->manifest(), cpu).status().message(),
              HasSubstr("another architecture, x86_64"));
}

TEST(ModuleReader, ReadsPartsThatCameSeparately) {
  ModuleBuilder builder = static_module();
  const auto manifest = builder.write_manifest();
  SegmentSource code{sha256(builder.segments[0]), share(builder.segments[0]), false};
  auto contents = ModuleContents::from_parts(manifest, std::span(&code, 1));
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  EXPECT_TRUE(Module::create(*contents).ok());

  auto none = ModuleContents::from_parts(manifest, {});
  ASSERT_TRUE(none.ok());
  EXPECT_THAT(Module::create(*none).status().message(), HasSubstr("segment 0 of the module is missing"));

  auto damaged = builder.segments[0];
  damaged[100] ^= std::byte{1};
  SegmentSource wrong{code.digest, share(damaged), false};
  EXPECT_THAT(ModuleContents::from_parts(manifest, std::span(&wrong, 1)).status().message(),
              HasSubstr("damaged"));
  SegmentSource foreign{sha256(damaged), share(damaged), false};
  EXPECT_THAT(ModuleContents::from_parts(manifest, std::span(&foreign, 1)).status().message(),
              HasSubstr("names no segment"));
}

/// Two megabytes for each of three constants, so that they move where the machine has huge pages.
std::vector<float> large_constant() {
  std::vector<float> values(size_t{1} << 19);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return values;
}
std::vector<std::byte> module_with_large_constants() {
  ModuleBuilder builder = static_module();
  for (int i = 0; i < 3; ++i) builder.constant_buffer(large_constant());
  return builder.write();
}

/// Pages of a mapped file that are in memory, whoever read them.
size_t pages_in_memory(const SharedBytes& file) {
  std::vector<unsigned char> pages(file.bytes.size() / static_cast<size_t>(sysconf(_SC_PAGESIZE)) + 1);
  EXPECT_EQ(mincore(const_cast<std::byte*>(file.bytes.data()), file.bytes.size(), pages.data()), 0);
  return static_cast<size_t>(
      std::count_if(pages.begin(), pages.end(), [](int page) { return (page & 1) != 0; }));
}

TEST(ModuleReader, ConstantsThatMoveLeaveTheFileToTheNextProcess) {
  const std::vector<std::byte> bytes = module_with_large_constants();
  const std::string path = ::testing::TempDir() + "gantry_large_constants.gmod";
  const int fd = ::open(path.c_str(), O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
  ASSERT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  // What is not on the disk yet could not be thrown out of memory.
  ASSERT_EQ(::fsync(fd), 0);
  auto file = map_fd(fd, path);
  ::close(fd);
  const size_t before = pages_in_memory(*file);
  auto module = Module::load(path);
  ASSERT_TRUE(module.ok()) << module.status().message();
  EXPECT_GE(pages_in_memory(*file), before);
  const std::vector<float> values = large_constant();
  const auto expected = std::as_bytes(std::span(values));
  EXPECT_TRUE(std::ranges::equal((*module)->constant(2), expected));
  EXPECT_TRUE(std::ranges::equal(*(*module)->contents().segment(3), expected));
  ::unlink(path.c_str());
}

TEST(ModuleReader, ConstantsThatMoveStayWholeInTheCallersMemory) {
  auto contents = ModuleContents::from_bytes(share(module_with_large_constants()));
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  const std::vector<float> values = large_constant();
  for (int time = 0; time < 2; ++time) {
    auto module = Module::create(*contents);
    ASSERT_TRUE(module.ok()) << module.status().message();
    EXPECT_TRUE(std::ranges::equal((*module)->constant(1), std::as_bytes(std::span(values))));
  }
}

TEST(ModuleReader, NamesAKernelThatTheImageLacks) {
  ModuleBuilder builder = static_module();
  builder.variant().kernels[0]->symbol = "not_in_there";
  auto contents = ModuleContents::from_bytes(share(builder.write()));
  ASSERT_TRUE(contents.ok()) << contents.status().message();
  EXPECT_THAT(Module::create(*contents).status().message(), HasSubstr("no kernel 'not_in_there'"));
}

TEST(ModuleReader, NamesAFileThatIsNotThere) {
  const Status status = ModuleContents::open("/no/such/file.gmod").status();
  EXPECT_EQ(status.code(), GANTRY_IO_ERROR);
  EXPECT_THAT(status.message(), HasSubstr("/no/such/file.gmod"));
}

}  // namespace
}  // namespace gantry::runtime
