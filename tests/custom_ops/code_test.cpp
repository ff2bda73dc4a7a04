// Object code of custom kernels: what is refused, and what runs. Objects are made by gantry's own code
// generation.
#include "host/codegen/custom_code.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>

#include "device_runtime/include/gantry/custom_op.h"
#include "device_runtime/src/elf_loader.h"
#include "host/codegen/find_target.h"
#include "host/machine/cpu_family.h"
#include "tests/support/message_of.h"

namespace gantry {
namespace {

using testing::message_of;

std::string key_of(const Target& target) {
  return target.family != nullptr && target.family->name == "aarch64" ? "aarch64" : "x86-64";
}

CustomKernel kernel(const std::string& function, const std::vector<std::string>& objects,
                    const Target& target = find_target("x86-64-v2")) {
  CustomKernel made{"d::Op", "ops.toml", function, {}, {}, std::string(64, 'a')};
  for (size_t i = 0; i < objects.size(); ++i)
    made.objects[key_of(target)].push_back(
        {std::string(1, static_cast<char>('a' + i)) + ".o of ops.toml", objects[i]});
  return made;
}

std::string refusal(const CustomKernel& code, const std::string& target = "x86-64-v2") {
  std::vector<std::string> needs;
  return message_of([&] { custom_object(code, find_target(target), needs); });
}

TEST(CustomObject, OfAnotherArchitectureIsRefused) {
  const Target arm = find_target("aarch64"), x86 = find_target("x86-64-v2");
  EXPECT_EQ(refusal(kernel("sqrt", {provided_object({"sqrt"}, arm)})),
            "custom op d::Op for x86-64-v2: a.o of ops.toml: is for AArch64, not for x86-64");
  EXPECT_EQ(refusal(kernel("sqrt", {provided_object({"sqrt"}, x86)}), "aarch64"),
            "custom op d::Op for aarch64: its kernel is not there for aarch64, only for x86-64: compile it, "
            "and name the file "
            "in ops.toml");
  CustomKernel typo = kernel("sqrt", {provided_object({"sqrt"}, x86)});
  typo.objects["arm64"] = typo.objects["x86-64"];
  EXPECT_EQ(refusal(typo),
            "custom op d::Op for x86-64-v2: ops.toml: kernel: 'arm64' is no architecture; there are x86-64, "
            "aarch64");
}

TEST(CustomObject, ThatIsNoneOrDamagedIsRefused) {
  const std::string object = provided_object({"sqrt"}, find_target("x86-64-v2"));
  const std::string no_object =
      "custom op d::Op for x86-64-v2: a.o of ops.toml: is no object file that can be linked: ";
  EXPECT_EQ(refusal(kernel("sqrt", {"no object"})).substr(0, no_object.size()), no_object);
  for (size_t size = 0; size < object.size(); size += 7) {
    const std::string text = refusal(kernel("sqrt", {object.substr(0, size)}));
    EXPECT_EQ(text.substr(0, 47), "custom op d::Op for x86-64-v2: a.o of ops.toml:") << size;
  }
  EXPECT_EQ(refusal(kernel("sqrt", {"BC\xC0\xDE and more"})),
            "custom op d::Op for x86-64-v2: a.o of ops.toml: is LLVM bitcode; make an object of it, with "
            "clang -c and without "
            "-flto");
}

TEST(CustomObject, WithoutTheFunctionOrWithWhatNobodyDefinesIsRefused) {
  const Target target = find_target("x86-64-v2");
  EXPECT_EQ(refusal(kernel("cbrt", {provided_object({"sqrt"}, target)})),
            "custom op d::Op for x86-64-v2: a.o of ops.toml: defines no function 'cbrt' that others can call "
            "(in C++ it is "
            "declared extern \"C\")");
  auto call = std::make_shared<CustomCall>();
  call->code = std::make_shared<const CustomKernel>(kernel("inner", {}));
  const std::string calls = custom_call_object({"outer", {}, call}, target);
  EXPECT_EQ(refusal(kernel("outer", {calls})),
            "custom op d::Op for x86-64-v2: a.o of ops.toml: calls or reads what nobody defines: " +
                linked_name(*call->code) +
                ". A module imports nothing: link what has it into the object (docs/custom-ops.md lists what "
                "gantry provides)");
}

TEST(CustomObject, SeveralFilesAreOne) {
  const Target target = find_target("x86-64-v2");
  const std::string copy = provided_object({"memcpy"}, target), set = provided_object({"memset"}, target);
  const CustomKernel both = kernel("memset", {copy, set});
  std::vector<std::string> needs;
  const std::string joined = custom_object(both, target, needs);
  EXPECT_NE(joined.find(linked_name(both)), std::string::npos);
  EXPECT_TRUE(needs.empty());
  const std::string twice = "custom op d::Op for x86-64-v2: a.o of ops.toml and others: cannot be linked: ";
  EXPECT_EQ(refusal(kernel("memcpy", {copy, copy})).substr(0, twice.size()), twice);
}

// --- on this machine

/// The functions of an image.
class Loaded {
 public:
  explicit Loaded(const CodeImage& image) {
    auto loaded = runtime::CodeImage::load(image.elf);
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    if (loaded.ok()) image_ = std::move(loaded.value());
  }
  template <typename Function>
  Function find(const std::string& name) const {
    return reinterpret_cast<Function>(image_.find(name));
  }

 private:
  runtime::CodeImage image_;
};

std::string test_kernels() {
  std::ifstream file(GANTRY_TEST_KERNELS, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A call of a function of kernels.c; the digest tells its code from others'.
std::shared_ptr<CustomCall> call_of(const std::string& function, char digest = 'b') {
  auto call = std::make_shared<CustomCall>();
  CustomKernel code = kernel(function, {test_kernels()}, find_target("native"));
  code.digest = std::string(64, digest);
  call->code = std::make_shared<const CustomKernel>(std::move(code));
  return call;
}

int32_t run(const Loaded& image, const std::string& name, std::vector<void*> buffers,
            std::vector<int64_t> dims = {}) {
  const auto kernel = image.find<GantryKernelFn>(name);
  if (kernel == nullptr) {
    ADD_FAILURE() << "the image has no " << name;
    return -1;
  }
  const GantryKernelHost host{GANTRY_KERNEL_ABI_VERSION, sizeof(GantryKernelHost)};
  return kernel(&host, buffers.data(), dims.data());
}

TEST(CustomCode, TheCallHasTensorsAttributesAndScratch) {
  auto call = call_of("show");
  call->inputs = {{true, {DType::kF32, {Dim::symbol("dim.0"), 3}}, 0},
                  {false, {}},
                  {true, {DType::kI64, {}}, -1, std::string(8, '\7')}};
  call->outputs = {{true, {DType::kI64, {64}}, 1}};
  call->attributes = parse_custom_attributes("beta=0.5, pads=[1, 2], mode='fast', none=[string]");
  call->scratch = 2;
  call->scratch_bytes = Dim::symbol("dim.1");
  const NamedCustomCall calls[] = {{"custom_1", {"dim.0", "dim.1"}, call}};
  const Loaded image(build_image_with_calls({}, calls, find_target("native")));
  unsigned char input[] = {17}, scratch[] = {33};
  std::vector<int64_t> out(64, -7);
  ASSERT_EQ(run(image, "custom_1", {input, out.data(), scratch}, {5, 40}), 0);
  const std::vector<int64_t> expected = {1,
                                         GANTRY_CUSTOM_OP_VERSION,
                                         3,
                                         GANTRY_CUSTOM_F32,
                                         1,
                                         2,
                                         5,
                                         3,
                                         15,
                                         17,  // x
                                         -1,  // left out
                                         GANTRY_CUSTOM_I64,
                                         1,
                                         0,
                                         1,
                                         7,  // a constant
                                         64,
                                         4,
                                         'b',
                                         1,
                                         4,
                                         'p',
                                         2,
                                         1,
                                         2,
                                         'm',
                                         1,
                                         'f',
                                         'n',
                                         0,
                                         40,
                                         33,
                                         6,
                                         4,
                                         2,
                                         8,
                                         -7};
  EXPECT_EQ(std::vector<int64_t>(out.begin(), out.begin() + static_cast<long>(expected.size())), expected);
}

TEST(CustomCode, ObjectsWithTheSameNamesAndTwoOfOneObjectGoTogether) {
  auto first = call_of("show", 'b'), second = call_of("show", 'c');
  for (const auto& call : {first, second}) {
    call->outputs = {{true, {DType::kI64, {64}}, 0}};
    call->scratch = 1;
  }
  const NamedCustomCall calls[] = {
      {"custom_1", {}, first}, {"custom_2", {}, second}, {"custom_3", {}, first}};
  const Loaded image(build_image_with_calls({}, calls, find_target("native")));
  std::vector<int64_t> out(64, 0);
  unsigned char scratch[1] = {};
  const auto counted = [&](const char* name) {
    EXPECT_EQ(run(image, name, {out.data(), scratch}), 0);
    return out[9];
  };
  EXPECT_EQ(counted("custom_1"), 2);
  EXPECT_EQ(counted("custom_3"), 3);  // the same code, and the same static data
  EXPECT_EQ(counted("custom_2"), 2);  // other code
}

TEST(CustomCode, ProvidedFunctionsDoAsCsDo) {
  auto memory = call_of("check_memory"), math = call_of("math", 'c');
  math->inputs = {{true, {DType::kF32, {}}, 0}};
  math->outputs = {{true, {DType::kF64, {6}}, 1}};
  const NamedCustomCall calls[] = {{"custom_1", {}, memory}, {"custom_2", {}, math}};
  const Loaded image(build_image_with_calls({}, calls, find_target("native")));
  EXPECT_EQ(run(image, "custom_1", {}), 0);
  for (float x : {0.3f, 1.0f, 2.5f}) {
    double out[6] = {};
    ASSERT_EQ(run(image, "custom_2", {&x, out}), 0);
    const double wide = x;
    EXPECT_NEAR(out[0] / std::exp(wide), 1, 3e-7);
    EXPECT_NEAR(out[1] / std::exp(wide), 1, 1e-11);
    EXPECT_NEAR(out[2] / std::pow(wide, static_cast<double>(1.7f)), 1, 3e-7);
    EXPECT_NEAR(out[3] / std::tanh(wide), 1, 3e-7);
    EXPECT_EQ(out[4], std::floor(wide));
    EXPECT_NEAR(out[5] / std::erf(wide), 1, 1e-11);
  }
}

TEST(CustomCode, EachProvidedFunctionIsCodeForEveryArchitecture) {
  for (const char* name : {"x86-64-v2", "x86-64-v4", "aarch64"}) {
    const Target target = find_target(name);
    std::vector<std::string> needs;
    for (const std::string& function : provided_functions()) {
      const std::string object = provided_object({function}, target);
      EXPECT_NE(custom_object(kernel(function, {object}, target), target, needs).size(), 0u);
      EXPECT_TRUE(needs.empty()) << function << " for " << name << " needs " << needs.front();
    }
  }
}

TEST(CustomCode, WhatTheKernelReturnsIsWhatItsCallReturns) {
  auto call = call_of("fail");
  call->attributes = parse_custom_attributes("code=42");
  const NamedCustomCall calls[] = {{"custom_1", {}, call}};
  EXPECT_EQ(run(Loaded(build_image_with_calls({}, calls, find_target("native"))), "custom_1", {}), 42);
}

}  // namespace
}  // namespace gantry
