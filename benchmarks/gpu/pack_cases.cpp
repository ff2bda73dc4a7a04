// Packs ONNX's conformance tests that have kernels for a GPU, for a machine that has neither their data nor
// this source tree.
//
//   gpu_pack_cases PACK [--list FILE] [--add FOLDER] [--largest BYTES]
//
// --list takes only the tests that FILE names, one a line. --add takes the packs in FOLDER as well: what
// other tests run on a GPU, as GANTRY_TEST_RECORD=FOLDER end_to_end_test leaves it there
// (tests/support/recorded_case.h). A case of which model and data together have more than BYTES (262144) is
// left out. Of two data sets of a test each is a case of its own; of a test that both Debian's and newer data
// have, the newer counts. Inputs that steer the sizes of others become initialisers, and the shapes of the
// others the model's shapes. Cases of many ops come first: the first of each op, then the second of each, so
// that wherever a run ends it has seen most ops.
#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <stdexcept>

#include "benchmarks/gpu/first_module.h"
#include "host/codegen/find_target.h"
#include "host/driver/compile.h"
#include "host/onnx/import.h"
#include "host/support/error.h"
#include "host/support/output_file.h"
#include "tests/cases/case_pack.h"
#include "tests/conformance/listed.h"
#include "tests/conformance/test_data.h"

namespace gantry::gpu_bundle {
namespace {

namespace fs = std::filesystem;
using conformance::DataSet;
using conformance::PackedCase;

constexpr const char* kTarget = "cuda:sm_80";
constexpr const char* kUsage = "usage: gpu_pack_cases PACK [--list FILE] [--add FOLDER] [--largest BYTES]";

struct Options {
  fs::path pack, list, add;
  size_t largest = 256 << 10;
};

onnx::TensorProto proto_of(const ConstantData& value, const std::string& name) {
  static const std::map<DType, int> types = {
      {DType::kF32, onnx::TensorProto::FLOAT},   {DType::kF64, onnx::TensorProto::DOUBLE},
      {DType::kF16, onnx::TensorProto::FLOAT16}, {DType::kBF16, onnx::TensorProto::BFLOAT16},
      {DType::kI8, onnx::TensorProto::INT8},     {DType::kI16, onnx::TensorProto::INT16},
      {DType::kI32, onnx::TensorProto::INT32},   {DType::kI64, onnx::TensorProto::INT64},
      {DType::kU8, onnx::TensorProto::UINT8},    {DType::kU16, onnx::TensorProto::UINT16},
      {DType::kU32, onnx::TensorProto::UINT32},  {DType::kU64, onnx::TensorProto::UINT64},
      {DType::kBool, onnx::TensorProto::BOOL}};
  const auto type = types.find(value.type.dtype);
  if (type == types.end()) user_error("it is given values of {}", name_of(value.type.dtype));
  onnx::TensorProto proto;
  proto.set_name(name);
  proto.set_data_type(type->second);
  const std::vector<int64_t> shape = *constant_shape(value.type.shape);
  for (int64_t extent : shape) proto.add_dims(extent);
  proto.set_raw_data(value.bytes, value.size);
  return proto;
}

/// The model with the data set's shapes and fixed values in it. Throws where a model alone cannot say what is
/// given.
onnx::ModelProto closed_model(const fs::path& path, const DataSet& data) {
  if (!data.lengths.empty() || std::ranges::count(data.inputs, nullptr) > 0)
    user_error("sequences, and optionals without a value, are given beside a model");
  std::ifstream file(path, std::ios::binary);
  onnx::ModelProto model;
  if (!model.ParseFromIstream(&file)) user_error("{}: is no model", path.string());
  auto& graph = *model.mutable_graph();
  for (size_t i = 0; i < data.names.size() && i < data.inputs.size(); ++i) {
    const ConstantData& value = *data.inputs[i];
    if (data.closed[i]) {
      *graph.add_initializer() = proto_of(value, data.names[i]);
      continue;
    }
    for (auto& input : *graph.mutable_input()) {
      if (input.name() != data.names[i]) continue;
      auto& shape = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
      const std::vector<int64_t> extents = *constant_shape(value.type.shape);
      shape.clear_dim();
      for (int64_t extent : extents) shape.add_dim()->set_dim_value(extent);
    }
  }
  return model;
}

/// Whether something of the model runs on a GPU.
bool has_gpu_kernels(const std::string& model) {
  CompileOptions options;
  const Target target = find_target(kTarget);
  const LoweredProgram program = lower_program(import_onnx_bytes(model, ""), target, options);
  return std::any_of(program.steps.begin(), program.steps.end(),
                     [](const KernelStep& step) { return step.node->placement == Placement::kGpu; });
}

size_t bytes_of(const PackedCase& c) {
  size_t bytes = c.program.size();
  for (const auto* tensors : {&c.inputs, &c.outputs}) {
    for (const ConstantPtr& tensor : *tensors) bytes += tensor->size;
  }
  return bytes;
}

/// How many were left out, and why.
struct LeftOut {
  int no_kernels = 0, too_large = 0;
};

/// With fixed values where a program of whose sizes some show late would run on the CPU.
DataSet case_of(const fs::path& model, const fs::path& set) {
  DataSet data = conformance::read_data_set(model, set, conformance::Steering::kData);
  if (!conformance::has_late_sizes(import_onnx(model, data.import_options()))) return data;
  return conformance::read_data_set(model, set, conformance::Steering::kFixed);
}

void add_cases(const std::string& test, const Options& options, std::vector<PackedCase>& cases,
               LeftOut& left_out) {
  const std::vector<fs::path> folders = conformance::find_test(test);
  if (folders.empty()) return;
  const fs::path model_path = folders.front() / "model.onnx";
  size_t number = 0;
  for (const fs::path& set : conformance::data_sets(folders.front())) {
    const DataSet data = case_of(model_path, set);
    const onnx::ModelProto model = closed_model(model_path, data);
    const std::string op = model.graph().node_size() == 1 ? model.graph().node(0).op_type() : "several ops";
    PackedCase c{number == 0 ? test : fmt::format("{}/{}", test, number),
                 op,
                 false,
                 model.SerializeAsString(),
                 data.open(),
                 data.expected,
                 {}};
    ++number;
    if (bytes_of(c) > options.largest)
      ++left_out.too_large;
    else if (!has_gpu_kernels(c.program))
      ++left_out.no_kernels;
    else
      cases.push_back(std::move(c));
  }
}

void add_recorded(const Options& options, std::vector<PackedCase>& cases, LeftOut& left_out) {
  if (options.add.empty()) return;
  std::set<fs::path> packs;
  for (const auto& entry : fs::directory_iterator(options.add)) {
    if (entry.path().extension() == ".pack") packs.insert(entry.path());
  }
  for (const fs::path& path : packs) {
    const auto pack = conformance::CasePack::read(path);
    for (const auto& entry : pack.entries()) {
      PackedCase c = pack.load(entry.name);
      if (bytes_of(c) > options.largest)
        ++left_out.too_large;
      else
        cases.push_back(std::move(c));
    }
  }
}

/// The first case of each op, the second of each, …
void spread(std::vector<PackedCase>& cases) {
  std::map<std::string, size_t> seen;
  std::vector<std::pair<size_t, PackedCase>> ranked;
  for (PackedCase& c : cases) {
    const size_t rank = seen[c.op]++;
    ranked.emplace_back(rank, std::move(c));
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  cases.clear();
  for (auto& [rank, c] : ranked) cases.push_back(std::move(c));
}

std::vector<std::string> chosen_tests(const Options& options) {
  std::vector<std::string> tests = conformance::tests_that_pass();
  if (options.list.empty()) return tests;
  std::ifstream file(options.list);
  if (!file) user_error("{}: cannot be read", options.list.string());
  std::set<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line[0] != '#') names.insert(line);
  }
  std::erase_if(tests, [&](const std::string& test) { return names.erase(test) == 0; });
  if (!names.empty()) user_error("{}: {} is no test that passes", options.list.string(), *names.begin());
  return tests;
}

int run(const Options& options) {
  if (conformance::data_roots().empty())
    user_error("ONNX's test data is not there: install libonnx-testdata");
  std::vector<PackedCase> cases;
  LeftOut left_out;
  for (const std::string& test : chosen_tests(options)) {
    try {
      add_cases(test, options, cases, left_out);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: left out: %s\n", test.c_str(), error.what());
    }
  }
  add_recorded(options, cases, left_out);
  spread(cases);
  const size_t count = cases.size();
  std::vector<PackedCase> first = first_cases();
  cases.insert(cases.begin(), std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()));
  const std::string pack = conformance::write_pack(cases);
  write_file(options.pack, pack);
  std::printf("%s: %zu cases, %zu bytes; left out: %d without kernels for a GPU, %d of more than %zu bytes\n",
              options.pack.c_str(), count, pack.size(), left_out.no_kernels, left_out.too_large,
              options.largest);
  return 0;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--list" && has_value)
      options.list = argv[++i];
    else if (argument == "--add" && has_value)
      options.add = argv[++i];
    else if (argument == "--largest" && has_value)
      options.largest = std::stoul(argv[++i]);
    else if (argument.starts_with("--") || !options.pack.empty())
      user_error("{}", kUsage);
    else
      options.pack = argument;
  }
  if (options.pack.empty()) user_error("{}", kUsage);
  return options;
}

}  // namespace
}  // namespace gantry::gpu_bundle

int main(int argc, char** argv) {
  try {
    return gantry::gpu_bundle::run(gantry::gpu_bundle::parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_pack_cases: %s\n", error.what());
    return 1;
  }
}
