// Descriptions of custom ops, and collections of them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "host/custom_ops/custom_ops.h"
#include "host/support/temporary.h"
#include "tests/support/message_of.h"

namespace gantry {
namespace {

using testing::message_of;

const std::map<std::string, std::string> kFiles = {{"a.o", "code"}, {"b.o", "other"}, {"c.gir", "text"}};

std::vector<CustomOp> read(const std::string& toml) {
  return parse_custom_ops(toml, "ops.toml", [](const std::string& name) {
    const auto found = kFiles.find(name);
    if (found == kFiles.end()) user_error("there is no file {}", name);
    return found->second;
  });
}

std::string op(const std::string& rest) {
  return "[[op]]\ndomain = \"d\"\nname = \"Op\"\n" + rest;
}
const std::string kTensors = "inputs = [\"x: f32[N]\"]\noutputs = [\"y: f32[N]\"]\n";

TEST(CustomOpDescription, HasSignatureAndCode) {
  const auto ops =
      read(op(kTensors + "since = 3\nattributes = [\"beta: float = 1\"]\nscratch = \"8 * N\"\n"
                         "kernel = { function = \"f\", x86-64 = \"a.o\", aarch64 = [\"b.o\", \"a.o\"] }\n"));
  ASSERT_EQ(ops.size(), 1u);
  EXPECT_EQ(ops[0].full_name(), "d::Op");
  EXPECT_EQ(ops[0].since, 3);
  EXPECT_EQ(ops[0].signature.scratch->str(), "8*N");
  ASSERT_NE(ops[0].kernel, nullptr);
  EXPECT_EQ(ops[0].kernel->function, "f");
  ASSERT_EQ(ops[0].kernel->objects.size(), 2u);
  EXPECT_EQ(ops[0].kernel->objects.at("aarch64").at(1).bytes, "code");
  EXPECT_EQ(ops[0].kernel->digest.size(), 64u);
}

TEST(CustomOpDescription, OtherCodeHasAnotherDigest) {
  const auto digest = [](const std::string& file, const std::string& function) {
    return read(op(kTensors + "kernel = { function = \"" + function + "\", x86-64 = \"" + file + "\" }\n"))[0]
        .kernel->digest;
  };
  EXPECT_EQ(digest("a.o", "f"), digest("a.o", "f"));
  EXPECT_NE(digest("a.o", "f"), digest("b.o", "f"));
  EXPECT_NE(digest("a.o", "f"), digest("a.o", "g"));
}

TEST(CustomOpDescription, ErrorsNameTheOpAndTheKey) {
  EXPECT_EQ(message_of([] { read(op(kTensors)); }),
            "ops.toml: d::Op: an op has either a kernel or a composition");
  EXPECT_EQ(message_of([] { read(op("composition = \"c.gir\"\noutputs = [\"y\"]\nauthor = \"me\"\n")); }),
            "ops.toml: d::Op: unknown key 'author'");
  EXPECT_EQ(message_of([] { read(op("composition = \"c.gir\"\noutputs = [\"y: f32[M]\"]\n")); }),
            "ops.toml: d::Op: signature: output y: M is neither the size of an input before it nor an "
            "attribute that is an "
            "int with a value: sizes that only the kernel knows cannot be said");
  EXPECT_EQ(
      message_of([] {
        read(op("inputs = [\"x\"]\noutputs = [\"y\"]\nkernel = { function = \"f\", x86-64 = \"a.o\" }\n"));
      }),
      "ops.toml: d::Op: x: an op with a kernel says what its tensors are: \"x: f32[N, C]\"");
  for (const std::string type : {"string", "i4", "f8e5m2"})
    EXPECT_EQ(message_of([&] {
                read(op("inputs = [\"x: T[N]\"]\noutputs = [\"y: f32[N]\"]\ntypes = [\"T: f32, " + type +
                        "\"]\nkernel = { function = \"f\", x86-64 = \"a.o\" }\n"));
              }),
              "ops.toml: d::Op: kernel: no kernel is handed " + type + " (gantry/custom_op.h lists the types)");
  EXPECT_EQ(message_of([] { read(op(kTensors + "kernel = { function = \"f\" }\n")); }),
            "ops.toml: d::Op: kernel: it has no object files; name them by architectures of CPUs");
  EXPECT_EQ(message_of([] { read(op(kTensors + "kernel = { function = \"f\", x86-64 = \"z.o\" }\n")); }),
            "there is no file z.o");
  EXPECT_EQ(message_of([] { read("[[op]]\nname = \"Op\"\n"); }),
            "ops.toml: op 1: domain is missing, or is no string");
  EXPECT_EQ(message_of([] { read("x = 1\n"); }), "ops.toml: unknown key 'x'; ops are tables [[op]]");
  EXPECT_EQ(message_of([] { read(""); }), "ops.toml: describes no op; each is a table [[op]]");
  EXPECT_EQ(message_of([] { read("[[op]\n"); }).substr(0, 17), "ops.toml: line 1:");
}

TEST(CustomOps, TheNewestThatTheModelsVersionHasIsTaken) {
  const auto at = [](int since) {
    return read(op(kTensors + "since = " + std::to_string(since) + "\ncomposition = \"c.gir\"\n"))[0];
  };
  const CustomOps ops({at(1), at(4)}, {});
  EXPECT_EQ(ops.find("d", "Op", 3)->since, 1);
  EXPECT_EQ(ops.find("d", "Op", 4)->since, 4);
  EXPECT_EQ(ops.find("d", "Op", 0), nullptr);
  EXPECT_EQ(ops.find("e", "Op", 4), nullptr);
  EXPECT_EQ(message_of([&] {
              CustomOps({at(1), at(1)}, {});
            }),
            "the custom op d::Op (since version 1) is there twice: in ops.toml and in ops.toml");
}

TEST(CustomOps, WhatIsNoCollectionIsSaid) {
  const TemporaryFolder temporary("test");
  const std::filesystem::path& folder = temporary.path();
  std::ofstream(folder / "text.so") << "no library";
  EXPECT_EQ(message_of([&] { CustomOps::load({(folder / "none").string()}, {}); }),
            "--custom-ops " + (folder / "none").string() + ": there is no such folder or library");
  EXPECT_EQ(message_of([&] { CustomOps::load({folder.string()}, {}); }),
            folder.string() + ": has no ops.toml, which says what ops it holds (docs/custom-ops.md)");
  const std::string text = (folder / "text.so").string();
  EXPECT_EQ(message_of([&] { CustomOps::load({text}, {}); }).substr(0, text.size() + 20),
            text + ": cannot be loaded: ");
  EXPECT_EQ(message_of([&] { CustomOps::load({"/proc/self/exe"}, {}); }).substr(0, 15), "/proc/self/exe:");
  EXPECT_EQ(CustomOps::load({}, {}), nullptr);
}

}  // namespace
}  // namespace gantry
