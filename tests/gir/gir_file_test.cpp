// Graph text as files, with weights beside it.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <csignal>

#include "host/gir/gir_file.h"
#include "host/ops/op.h"
#include "host/passes/fuse_ops.h"
#include "host/passes/pass.h"
#include "host/support/error.h"
#include "host/support/mapped_file.h"
#include "tests/gir/folder.h"

namespace gantry {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const OpTable& ops() {
  static const FusedOpTable table(op_set());
  return table;
}

ConstantPtr ramp(const TensorType& type) {
  std::byte* bytes = nullptr;
  auto data = allocate_constant(type, &bytes);
  for (size_t i = 0; i < data->size; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return data;
}

/// A product with 8 by 4 weights, for any number of rows.
Graph dense_graph() {
  return parse_graph(R"(model "dense"
fn @main(%x: Tensor[(N, 8), f32]) -> Tensor[(N, 4), f32] {
  %0 = nn.dense(%x, @w: Tensor[(8, 4), f32], units=4)  // Gemm_0
  %1 = add(%0, const(f32, [4], [1, 2, 3, 4]))  // Gemm_0
  return %1 as "y"
}
)",
                     ops(), {{"w", ramp({DType::kF32, {8, 4}})}});
}

std::string error_of(const std::filesystem::path& path, const GirOptions& options = {}) {
  try {
    read_gir(path, ops(), graph_pass_names(), options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
  return "no error";
}

TEST(GirFile, AGraphIsTheSameBehindItsFiles) {
  const testing::Folder folder;
  const Graph graph = dense_graph();
  const auto path = folder / "m.gir";
  write_gir(gir_files(graph, ops(), path), path);
  const Graph again = read_gir(path, ops(), graph_pass_names());
  EXPECT_EQ(print(again, ops()), print(graph, ops()));
  const ConstantData &before = *graph.main.nodes()[0]->inputs[1]->constant, &after = *again.main.nodes()[0]->inputs[1]->constant;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(before.bytes), before.size),
            std::string(reinterpret_cast<const char*>(after.bytes), after.size));
  EXPECT_THAT(folder.read("m.gir"), StartsWith("gir 1\nmodel \"dense\"\nweights \"m.gir.weights\"\nfn @main("));
  EXPECT_THAT(folder.read("m.gir.weights"), HasSubstr("{\"w\":{\"data_offsets\":[0,128],\"dtype\":\"F32\",\"shape\":[8,4]}}"));
}

TEST(GirFile, ADiskThatFillsUpWithTheTextLeavesTheWeightsAsTheyWere) {
  const testing::Folder folder;
  const auto path = folder.write("m.gir", "an old text");
  folder.write("m.gir.weights", "its weights");
  GirFiles files = gir_files(dense_graph(), ops(), path);
  constexpr size_t kRoom = 1024;  // for the weights alone
  files.text.append(2 * kRoom, '\n');
  // A limit on the size of files fails writes as a full disk does.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{kRoom, before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  std::string message;
  try {
    write_gir(files, path);
  } catch (const Error& error) {
    message = error.what();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(message, HasSubstr("m.gir: cannot be written"));
  EXPECT_EQ(folder.read("m.gir"), "an old text");
  EXPECT_EQ(folder.read("m.gir.weights"), "its weights");
}

TEST(GirFile, ATextWithoutLargeConstantsHasNoWeights) {
  const testing::Folder folder;
  const auto path = folder.write("relu.gir", "fn @main(%x: Tensor[(2), f32]) -> Tensor[(2), f32] {\n  %0 = nn.relu(%x)\n  return %0\n}\n");
  const Graph graph = read_gir(path, ops(), graph_pass_names());
  EXPECT_EQ(graph.model_name, "relu") << "as its file";
  const auto copy = folder / "copy.gir";
  write_gir(gir_files(graph, ops(), copy), copy);
  EXPECT_FALSE(std::filesystem::exists(weights_path(copy)));
  EXPECT_EQ(folder.read("copy.gir").find("weights"), std::string::npos);
}

TEST(GirFile, WhatIsWrongWithTheWeightsIsSaidWhereTheTextNeedsThem) {
  const testing::Folder folder;
  const auto path = folder / "m.gir";
  write_gir(gir_files(dense_graph(), ops(), path), path);
  const std::string text = folder.read("m.gir");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return folder.write("changed.gir", other);
  };
  const std::string name = (folder / "changed.gir").string(), weights = (folder / "m.gir.weights").string();
  EXPECT_THAT(error_of(changed("@w:", "@v:")), StartsWith(name + ":5:21: " + weights + " has no entry 'v'"));
  EXPECT_THAT(error_of(changed("@w: Tensor[(8, 4), f32]", "@w: Tensor[(4, 8), f32]")), StartsWith(name + ":5:21: 'w' is a Tensor[(8, 4), f32] in "));
  EXPECT_THAT(error_of(changed("@w: Tensor[(8, 4), f32]", "@w: Tensor[(8, 4), i32]")), HasSubstr("not a Tensor[(8, 4), i32]"));
  EXPECT_THAT(error_of(changed("m.gir.weights", "gone.weights")), AllOf(StartsWith(name + ":3:9: "), HasSubstr("there is no such file")));
  EXPECT_THAT(error_of(changed("m.gir.weights", "../m.gir.weights")), HasSubstr("outside the text's folder"));
  EXPECT_EQ(path_inside(std::filesystem::path(), "gone.weights"), "gone.weights")
      << "missing in the working folder, not outside of it";
  EXPECT_THAT(error_of(changed("m.gir.weights", weights)), HasSubstr("outside the text's folder"));
  EXPECT_THAT(error_of(changed("weights \"m.gir.weights\"\n", "")), HasSubstr("the text names no file for the constant 'w'"));
  EXPECT_EQ(error_of(changed("@w:", "@v:").replace_filename("m.gir")), "no error");
  folder.write("m.gir.weights", "not weights at all");
  EXPECT_THAT(error_of(path), AllOf(StartsWith(path.string() + ":3:9: " + weights + ": "), HasSubstr("no safetensors file")));
}

TEST(GirFile, ALinkLeadsNoWeightsOutOfTheFolder) {
  const testing::Folder folder, other;
  const auto path = folder / "m.gir";
  write_gir(gir_files(dense_graph(), ops(), path), path);
  std::filesystem::rename(folder / "m.gir.weights", other / "m.gir.weights");
  std::filesystem::create_symlink(other / "m.gir.weights", folder / "m.gir.weights");
  EXPECT_THAT(error_of(path), HasSubstr("outside the text's folder"));
}

TEST(GirFile, SizesFixSymbols) {
  const testing::Folder folder;
  const auto path = folder / "m.gir";
  write_gir(gir_files(dense_graph(), ops(), path), path);
  GirOptions options;
  options.shapes = {{"x", {3, 8}}};
  EXPECT_EQ(read_gir(path, ops(), graph_pass_names(), options).main.outputs[0]->type.str(), "Tensor[(3, 4), f32]");
  options.shapes = {{"x", {-1, 8}}};
  EXPECT_EQ(read_gir(path, ops(), graph_pass_names(), options).main.outputs[0]->type.str(), "Tensor[(N, 4), f32]");
  options.shapes = {{"x", {3, 9}}};
  EXPECT_THAT(error_of(path, options), HasSubstr("has 9 at axis 1, but the model fixes it to 8"));
  options.shapes = {{"x", {3}}};
  EXPECT_THAT(error_of(path, options), HasSubstr("has 1 dimensions, but the model's has 2"));
  options.shapes = {{"y", {3}}};
  EXPECT_THAT(error_of(path, options), HasSubstr("the model's inputs are: x"));
  options.shapes = {};
  options.sizes = {{"N", 5}};
  EXPECT_EQ(read_gir(path, ops(), graph_pass_names(), options).main.outputs[0]->type.str(), "Tensor[(5, 4), f32]");
  options.sizes = {{"M", 5}};
  EXPECT_THAT(error_of(path, options), HasSubstr("those without a fixed size are: N"));
  options = {};
  options.shapes = {{"x", {4}}};
  const auto halves = folder.write("halves.gir", "fn @main(%x: Tensor[(2*N), f32]) -> Tensor[(2*N), f32] {\n  %0 = nn.relu(%x)\n  return %0\n}\n");
  EXPECT_THAT(error_of(halves, options), HasSubstr("which is 2*N in the model: give N with --dim instead"));
  options.sizes = {{"N", 2}};
  EXPECT_EQ(read_gir(halves, ops(), graph_pass_names(), options).main.outputs[0]->type.str(), "Tensor[(4), f32]");
}

TEST(GirFile, ItHasBeenThroughPassesThatThereAre) {
  const testing::Folder folder;
  const std::string relu = "fn @main(%x: Tensor[(2), f32]) -> Tensor[(2), f32] {\n  %0 = nn.relu(%x)\n  return %0\n}\n";
  const auto path = folder.write("m.gir", "passes fold_constant, dead_code\n" + relu);
  EXPECT_THAT(read_gir(path, ops(), graph_pass_names()).passes, ElementsAre("fold_constant", "dead_code"));
  EXPECT_THAT(error_of(folder.write("m.gir", "passes fold_constants\n" + relu)),
              HasSubstr("m.gir:1:8: there is no pass 'fold_constants'; did you mean 'fold_constant'?"));
  try {
    read_gir(folder.write("m.gir", "passes fold_constant\n" + relu), ops(), {});
    ADD_FAILURE() << "where there are no passes, it has been through none";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("m.gir:1:8: there is no pass 'fold_constant'"));
  }
}

TEST(GirFile, IsKnownByItsNameOrItsBeginning) {
  const testing::Folder folder;
  EXPECT_TRUE(is_gir_file(folder.write("a.gir", "anything")));
  EXPECT_TRUE(is_gir_file(folder.write("b.txt", "// a remark\nmodel \"m\"\nfn @main")));
  EXPECT_FALSE(is_gir_file(folder.write("c.onnx", std::string("\x08\x08\x12\x04", 4))));
}

TEST(GirFile, BodiesHoldOnlyWhatAKernelCanTakeIn) {
  const testing::Folder folder;
  const auto error_of_body = [&](const std::string& inputs, const std::string& body) {
    return error_of(folder.write("b.gir", "fn @main(%x: Tensor[(2), f32]) -> Tensor[(2), f32] {\n  %0 = fused(" + inputs +
                                              ") fn @f(%a: Tensor[(2), f32]) -> Tensor[(2), f32] {\n" + body + "  }\n  return %0\n}\n"));
  };
  EXPECT_EQ(error_of_body("%x", "    %1 = add(%a, const(f32, [], [2]))\n    return %1\n"), "no error");
  EXPECT_THAT(error_of_body("%x", "    %1 = add(%a, const(f32, [2], [1, 2]))\n    return %1\n"), HasSubstr("give it to the node as an input"));
  EXPECT_THAT(error_of_body("%x", "    return %a\n"), HasSubstr("none of its nodes computes"));
  EXPECT_THAT(error_of_body("none", "    %1 = nn.relu(%a)\n    return %1\n"), HasSubstr("is absent"));
  EXPECT_THAT(error_of_body("%x, %x", "    %1 = nn.relu(%a)\n    return %1\n"), HasSubstr("takes 1 inputs, not 2"));
  EXPECT_THAT(error_of(folder.write("c.gir", "fn @main(%x: Tensor[(2), f32]) -> Tensor[(2), f32] {\n  %0 = nn.relu(%x) fn @f(%a: Tensor[(2), f32]) "
                                             "-> Tensor[(2), f32] {\n    %1 = nn.relu(%a)\n    return %1\n  }\n  return %0\n}\n")),
              HasSubstr("nn.relu takes no function"));
}

}  // namespace
}  // namespace gantry
