// Models without the raw data of large tensors: with the data put back they are what Protocol Buffers reads
// of the whole file.
#include "host/onnx/lean_model.h"

#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <optional>
#include <random>

#include "host/onnx/import.h"
#include "host/support/temporary.h"
#include "tests/fuzz/mutate.h"
#include "tests/support/message_of.h"
#include "tests/support/sparse_model.h"

namespace gantry {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LeanModelTest : public ::testing::Test {
 protected:
  fs::path write(const std::string& bytes) const {
    const fs::path path = folder_.path() / "model.onnx";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  const TemporaryFolder folder_{"lean-model"};
};

/// Bytes that differ from tensor to tensor.
std::string noise(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

void fill(onnx::TensorProto* tensor, const std::string& name, size_t size, unsigned seed) {
  tensor->set_name(name);
  tensor->set_data_type(onnx::TensorProto::UINT8);
  tensor->add_dims(static_cast<int64_t>(size));
  tensor->set_raw_data(noise(size, seed));
  tensor->set_doc_string("behind its data");
}

onnx::NodeProto* add_constant(google::protobuf::RepeatedPtrField<onnx::NodeProto>* nodes, size_t size,
                              unsigned seed) {
  onnx::NodeProto* node = nodes->Add();
  node->set_op_type("Constant");
  node->add_output("c" + std::to_string(seed));
  onnx::AttributeProto* value = node->add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  fill(value->mutable_t(), "", size, seed);
  return node;
}

/// An If in whose branches there are such again, `depth` deep; the innermost has an initialiser.
void add_branches(onnx::GraphProto* graph, int depth) {
  onnx::NodeProto* node = graph->add_node();
  node->set_op_type("If");
  onnx::AttributeProto* branch = node->add_attribute();
  branch->set_name("then_branch");
  branch->set_type(onnx::AttributeProto::GRAPH);
  if (depth > 1) return add_branches(branch->mutable_g(), depth - 1);
  fill(branch->mutable_g()->add_initializer(), "inner", 7001, 50);
  branch->mutable_g()->set_name("innermost");
}

/// Tensors wherever a model may have them; `odd` moves all that follow in the file.
onnx::ModelProto model(size_t odd) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.set_producer_name(std::string(odd, 'p'));
  onnx::GraphProto* graph = model.mutable_graph();
  graph->set_name("g");
  fill(graph->add_initializer(), "large", 10007, 1);
  fill(graph->add_initializer(), "small", 4095, 2);
  fill(graph->add_initializer(), "just large", 4096, 3);
  onnx::TensorProto* typed = graph->add_initializer();  // left to Protocol Buffers
  typed->set_name("typed");
  for (int i = 0; i < 5000; ++i) typed->add_float_data(static_cast<float>(i));
  add_constant(graph->mutable_node(), 5000, 4);
  onnx::AttributeProto* several = add_constant(graph->mutable_node(), 10, 5)->add_attribute();
  for (unsigned seed = 6; seed < 9; ++seed) fill(several->add_tensors(), "t", seed == 7 ? 100 : 6000, seed);
  fill(several->add_graphs()->add_initializer(), "g", 4500, 9);
  add_branches(graph, 3);
  onnx::FunctionProto* function = model.add_functions();
  function->set_name("f");
  add_constant(function->mutable_node(), 9000, 10);
  fill(graph->add_sparse_initializer()->mutable_values(), "sparse", 5000, 11);  // left to Protocol Buffers
  model.add_opset_import()->set_version(16);
  return model;
}
constexpr size_t kLargeTensors = 8;  // of model(): 1, 3, 4, 6, 8, 9, 50 and 10

std::string bytes_of(const InputFile& file, const FileRange& range) {
  std::string bytes(range.size, '\0');
  bytes.resize(file.read(bytes, range.offset));
  return bytes;
}

/// All that the stream gives when asked for `part` bytes at a time.
std::string streamed(const InputFile& file, const LeanModel& lean, size_t part) {
  LeanStream stream(file, lean);
  std::string all, buffer(part, '\0');
  while (const int got = stream.Read(buffer.data(), static_cast<int>(part)))
    all.append(buffer, 0, static_cast<size_t>(got));
  return all;
}

/// Puts back what references stand for.
class Restorer {
 public:
  Restorer(const InputFile& file, const LeanModel& lean) : file_(file), lean_(lean) {}

  void restore(onnx::ModelProto& model) {
    restore(*model.mutable_graph());
    for (auto& function : *model.mutable_functions()) restore(*function.mutable_node());
  }
  size_t restored() const { return restored_; }

 private:
  void restore(onnx::GraphProto& graph) {
    for (auto& tensor : *graph.mutable_initializer()) restore(tensor);
    restore(*graph.mutable_node());
  }
  void restore(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
    for (auto& node : nodes) {
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_t()) restore(*attribute.mutable_t());
        if (attribute.has_g()) restore(*attribute.mutable_g());
        for (auto& tensor : *attribute.mutable_tensors()) restore(tensor);
        for (auto& graph : *attribute.mutable_graphs()) restore(graph);
      }
    }
  }
  void restore(onnx::TensorProto& tensor) {
    const auto number = referenced_raw_data(tensor.raw_data());
    if (!number) return;
    tensor.set_raw_data(bytes_of(file_, lean_.raw_data.at(*number)));
    ++restored_;
  }

  const InputFile& file_;
  const LeanModel& lean_;
  size_t restored_ = 0;
};

TEST_F(LeanModelTest, LeavesOutLargeRawDataAndNothingElse) {
  for (size_t odd = 0; odd < 9; ++odd) {
    const onnx::ModelProto whole = model(odd);
    const InputFile file(write(whole.SerializeAsString()));
    const LeanModel lean = lean_model(file);
    EXPECT_TRUE(lean.sound);
    EXPECT_THAT(lean.raw_data, SizeIs(kLargeTensors));
    const std::string bytes = streamed(file, lean, 4096);
    EXPECT_EQ(bytes.size(), lean.size);
    onnx::ModelProto restored;
    ASSERT_TRUE(restored.ParseFromString(bytes));
    EXPECT_LT(restored.graph().initializer(0).raw_data().size(), 100u);
    EXPECT_EQ(restored.graph().initializer(0).doc_string(), "behind its data");
    Restorer restorer(file, lean);
    restorer.restore(restored);
    EXPECT_EQ(restorer.restored(), kLargeTensors);
    EXPECT_TRUE(restored.SerializeAsString() == whole.SerializeAsString()) << odd;
  }
}

TEST_F(LeanModelTest, IsTheSameInPartsOfAnySize) {
  const InputFile file(write(model(1).SerializeAsString()));
  const LeanModel lean = lean_model(file);
  const std::string all = streamed(file, lean, size_t{1} << 20);
  for (size_t part : {1, 2, 3, 31, 1000}) EXPECT_TRUE(streamed(file, lean, part) == all) << part;
}

TEST_F(LeanModelTest, IsTheWholeFileWhereNothingIsLarge) {
  onnx::ModelProto small;
  fill(small.mutable_graph()->add_initializer(), "w", 4095, 1);
  const std::string bytes = small.SerializeAsString();
  const InputFile file(write(bytes));
  const LeanModel lean = lean_model(file);
  EXPECT_THAT(lean.raw_data, IsEmpty());
  EXPECT_EQ(streamed(file, lean, 100), bytes);
}

TEST_F(LeanModelTest, IsTheWholeFileWhereThatIsDamaged) {
  const std::string whole = model(3).SerializeAsString();
  const auto expect_whole = [&](const std::string& bytes) {
    const InputFile file(write(bytes));
    const LeanModel lean = lean_model(file);
    EXPECT_FALSE(lean.sound);
    EXPECT_THAT(lean.raw_data, IsEmpty());
    EXPECT_TRUE(streamed(file, lean, 1000) == bytes);
  };
  // Cut within the first tensor, within the last one, and before the last byte.
  for (size_t size : {size_t{2000}, whole.size() - 5000, whole.size() - 1})
    expect_whole(whole.substr(0, size));
  expect_whole(whole + "\x0b");                                     // a group begins
  expect_whole(whole + "\x0f");                                     // no wire type
  expect_whole(whole + "\x32\xff\xff\xff\x7f");                     // a length beyond the end
  expect_whole(whole + "\x08" + std::string(11, '\x80') + "\x01");  // a number of too many bytes
  expect_whole(whole + "\x32\x80\x80\x80\x80\x80" + std::string(1, '\0'));  // a length of more than it can have
}

TEST_F(LeanModelTest, LeavesMessagesThatAreNestedTooDeepToProtocolBuffers) {
  const auto nested = [&](int depth) {
    onnx::ModelProto deep;
    add_branches(deep.mutable_graph(), depth);
    return deep.SerializeAsString();
  };
  // A graph, a node and an attribute a level, and the tensor: 32 levels are 98 messages in the model, 34 are
  // 104.
  for (const auto& [depth, sound] : {std::pair{32, true}, std::pair{34, false}}) {
    const std::string bytes = nested(depth);
    const InputFile file(write(bytes));
    EXPECT_EQ(lean_model(file).sound, sound);
    onnx::ModelProto parsed;
    EXPECT_EQ(parsed.ParseFromString(bytes), sound);
  }
}

TEST_F(LeanModelTest, ChangedModelsAreReadAsProtocolBuffersReadsThem) {
  const std::string whole = model(2).SerializeAsString();
  std::mt19937 random(20);
  int sound = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> changed(whole.size());
    std::ranges::transform(whole, changed.begin(), [](char c) { return static_cast<std::byte>(c); });
    fuzz::mutate(changed, random);
    const std::string bytes(reinterpret_cast<const char*>(changed.data()), changed.size());
    const InputFile file(write(bytes));
    const LeanModel lean = lean_model(file);
    onnx::ModelProto expected, restored;
    const bool is_model = expected.ParseFromString(bytes);
    ASSERT_EQ(restored.ParseFromString(streamed(file, lean, 4096)), is_model) << "round " << round;
    if (!is_model) continue;
    Restorer(file, lean).restore(restored);
    expected.mutable_graph();  // as the restored one has one now
    ASSERT_TRUE(restored.SerializeAsString() == expected.SerializeAsString()) << "round " << round;
    ++sound;
  }
  EXPECT_GT(sound, 30);  // most changes are of raw data
}

TEST_F(LeanModelTest, IsShownToACheckerInPlaceWithReferencesAsBytes) {
  const onnx::ModelProto whole = model(5);
  const InputFile file(write(whole.SerializeAsString()));
  const LeanModel description = lean_model(file);
  onnx::ModelProto lean;
  ASSERT_TRUE(lean.ParseFromString(streamed(file, description, 4096)));
  lean.mutable_graph()->mutable_initializer(2)->clear_data_type();  // as damaged models may be
  const std::string before = lean.SerializeAsString();
  {
    const CheckableModel checkable(lean);
    for (const int left_out : {0, 2}) {
      const onnx::TensorProto& tensor = lean.graph().initializer(left_out);
      EXPECT_EQ(tensor.data_type(), onnx::TensorProto::UINT8);
      ASSERT_EQ(tensor.dims_size(), 1);
      EXPECT_EQ(tensor.dims(0), static_cast<int64_t>(tensor.raw_data().size()));
    }
    const auto& in_attribute = lean.graph().node(0).attribute(0).t();
    EXPECT_EQ(in_attribute.dims(0), static_cast<int64_t>(in_attribute.raw_data().size()));
    EXPECT_EQ(lean.graph().initializer(1).SerializeAsString(),
              whole.graph().initializer(1).SerializeAsString());
  }
  EXPECT_TRUE(lean.SerializeAsString() == before);
}

// --- what the data are when they are read

/// y = x + w of 2048 elements, and a Constant of as many.
std::string sum_model(size_t odd, const std::vector<float>& w) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.set_producer_name(std::string(odd, 'p'));
  model.add_opset_import()->set_version(16);
  onnx::GraphProto* graph = model.mutable_graph();
  graph->set_name("g");
  const auto fill_floats = [&](onnx::TensorProto* tensor) {
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    tensor->add_dims(static_cast<int64_t>(w.size()));
    tensor->set_raw_data(w.data(), w.size() * sizeof(float));
  };
  fill_floats(graph->add_initializer());
  graph->mutable_initializer(0)->set_name("w");
  onnx::NodeProto* constant = graph->add_node();
  constant->set_op_type("Constant");
  constant->add_output("c");
  onnx::AttributeProto* value = constant->add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  fill_floats(value->mutable_t());
  const auto add = [&](const char* a, const char* b, const char* sum) {
    onnx::NodeProto* node = graph->add_node();
    node->set_op_type("Add");
    node->add_input(a);
    node->add_input(b);
    node->add_output(sum);
  };
  add("x", "w", "s");
  add("s", "c", "y");
  for (auto* info : {graph->add_input(), graph->add_output()}) {
    info->set_name(info == &graph->input(0) ? "x" : "y");
    auto* type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    type->mutable_shape()->add_dim()->set_dim_value(static_cast<int64_t>(w.size()));
  }
  return model.SerializeAsString();
}

std::vector<float> counted(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.5F);
  return values;
}

using RawDataOfModels = LeanModelTest;

TEST_F(RawDataOfModels, AreAlignedConstantsWhereverTheyLieInTheFile) {
  const std::vector<float> w = counted(2048);
  for (size_t odd = 0; odd < 8; ++odd) {
    std::vector<std::string> warnings;
    ImportOptions options;
    options.warn = [&](const std::string& text) { warnings.push_back(text); };
    const Graph graph = import_onnx(write(sum_model(odd, w)), options);
    EXPECT_THAT(warnings, IsEmpty());  // the checker does not mind references
    ASSERT_THAT(graph.main.constants(), SizeIs(2));
    for (const Value* value : graph.main.constants()) {
      const ConstantData& constant = *value->constant;
      EXPECT_EQ(constant.type, (TensorType{DType::kF32, {2048}}));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(constant.bytes) % alignof(float), 0u);
      EXPECT_TRUE(std::equal(w.begin(), w.end(), constant.as<float>())) << odd;
    }
  }
}

TEST_F(RawDataOfModels, ThatDoNotFitTheShapeAreRefusedWithFileAndTensor) {
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(sum_model(0, counted(2048))));
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, 2047);
  const fs::path path = write(model.SerializeAsString());
  EXPECT_THAT(testing::message_of([&] { import_onnx(path); }),
              AllOf(HasSubstr(path.string()), HasSubstr("initialiser 'w'"), HasSubstr("8192 bytes"),
                    HasSubstr("8188")));
}

TEST_F(RawDataOfModels, OfTruncatedFilesAreRefused) {
  const std::string bytes = sum_model(0, counted(2048));
  const fs::path path = write(bytes.substr(0, bytes.size() - 3000));
  EXPECT_THAT(testing::message_of([&] { import_onnx(path); }),
              AllOf(HasSubstr(path.string()), HasSubstr("truncated")));
}

TEST_F(RawDataOfModels, OfFilesThatBecomeShorterAreRefused) {
  const fs::path path = write(noise(9000, 1));
  RawData raw_data(std::make_shared<const InputFile>(path), {{100, 8000}, {0, 50}}, nullptr);
  const ConstantPtr before = raw_data.find(raw_data_reference(0), "w");
  ASSERT_TRUE(before);
  fs::resize_file(path, 5000);
  EXPECT_EQ(raw_data.find(raw_data_reference(0), "w")->bytes, before->bytes) << "they are there already";
  EXPECT_EQ(raw_data.find(raw_data_reference(1), "v")->size, 50u);
  RawData anew(std::make_shared<const InputFile>(path), {{100, 8000}}, nullptr);
  EXPECT_THAT(testing::message_of([&] { anew.find(raw_data_reference(0), "w"); }),
              AllOf(HasSubstr("w: "), HasSubstr("changed meanwhile")));
}

TEST_F(RawDataOfModels, AreReferredToByTheirNumbersAlone) {
  const fs::path path = write(noise(9000, 1));
  RawData raw_data(std::make_shared<const InputFile>(path), {{0, 4096}}, nullptr);
  EXPECT_FALSE(raw_data.find(raw_data_reference(1), "w"));
  EXPECT_FALSE(raw_data.find("", "w"));
  EXPECT_FALSE(raw_data.find(raw_data_reference(0) + "x", "w"));
  EXPECT_FALSE(raw_data.find(noise(raw_data_reference(0).size(), 2), "w"));
}

TEST_F(RawDataOfModels, OfLargeTensorsAreReadToTheDisk) {
  constexpr size_t kSize = (size_t{64} << 20) + 3;
  const std::string begin = noise(9000, 1), end = noise(5000, 2);
  const fs::path path = write(begin);
  fs::resize_file(path, 100 + kSize - end.size());  // zeros
  std::ofstream(path, std::ios::binary | std::ios::app) << end;
  RawData raw_data(std::make_shared<const InputFile>(path), {{100, kSize}},
                   std::make_shared<SpillFile>(folder_.path()));
  const ConstantPtr data = raw_data.find(raw_data_reference(0), "w");
  EXPECT_TRUE(is_spilled(data->owner));
  ASSERT_EQ(data->size, kSize);
  const std::string_view read(reinterpret_cast<const char*>(data->bytes), data->size);
  EXPECT_TRUE(read.starts_with(begin.substr(100)));
  EXPECT_TRUE(read.ends_with(end));
  const std::string_view between = read.substr(8900, kSize - 8900 - end.size());
  EXPECT_EQ(between.find_first_not_of('\0'), std::string_view::npos);
}

// --- messages of files of more than 2 GB

using MessagesOfLargeFiles = LeanModelTest;
constexpr uint64_t kMoreThan2GB = (uint64_t{1} << 31) + 5;

TEST_F(MessagesOfLargeFiles, AreReadAndTheirRawDataAskedForOneByOne) {
  onnx::ModelProto small;
  fill(small.mutable_graph()->add_initializer(), "w", 5000, 1);
  onnx::TensorProto zeros;
  zeros.set_name("zeros");
  zeros.set_data_type(onnx::TensorProto::UINT8);
  zeros.add_dims(static_cast<int64_t>(kMoreThan2GB));
  const fs::path path = folder_.path() / "model.onnx";
  testing::write_with_zeros(path, small, zeros, kMoreThan2GB);
  const OnnxMessages messages = read_onnx_messages(path);
  const onnx::GraphProto& graph = messages.model->graph();
  ASSERT_EQ(graph.initializer_size(), 2);
  EXPECT_EQ(graph.initializer(1).name(), "zeros");
  EXPECT_EQ(graph.initializer(1).dims(0), zeros.dims(0));
  EXPECT_TRUE(referenced_raw_data(graph.initializer(1).raw_data()));
  const ConstantPtr data = messages.raw_data->find(graph.initializer(0).raw_data(), "w");
  ASSERT_TRUE(data);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(data->bytes), data->size), noise(5000, 1));
}

TEST_F(MessagesOfLargeFiles, AreRefusedWhereWhatIsLargeIsNoRawData) {
  onnx::ModelProto small;
  fill(small.mutable_graph()->add_initializer(), "w", 5000, 1);
  constexpr uint64_t kDocString = 6;
  const fs::path path = folder_.path() / "model.onnx";
  testing::write_before_zeros(path, small.SerializeAsString() + testing::field_head(kDocString, kMoreThan2GB),
                              kMoreThan2GB);
  EXPECT_THAT(testing::message_of([&] { read_onnx_messages(path); }),
              AllOf(HasSubstr(path.string()), HasSubstr("more than 2 GB that are not raw data")));
}

}  // namespace
}  // namespace gantry
