#include "host/zoo/zoo.h"

#include <functional>

#include "host/support/error.h"
#include "host/support/output_file.h"
#include "host/support/suggest.h"
#include "host/zoo/builder.h"
#include "host/zoo/networks.h"

namespace gantry {
namespace {

using Build = std::function<void(zoo::ModelBuilder&, int64_t size)>;

struct Entry {
  ZooNetwork network;
  Build build;
};

Build residual(bool bottleneck, std::vector<int> blocks) {
  return [=](zoo::ModelBuilder& model, int64_t size) { zoo::resnet(model, size, bottleneck, blocks); };
}

Build encoder(const zoo::BertShape& shape) {
  return [=](zoo::ModelBuilder& model, int64_t size) { zoo::bert(model, size, shape); };
}

// Of the encoders' tables of positions: no sequence is longer.
constexpr int64_t kPositions = 512;
// The weights of vgg16's first layer behind the convolutions grow with the image: with the next size they
// alone are 2 GiB, more than an ONNX file may have.
constexpr int64_t kLargestOfVgg = 480;

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all = {
      {{"resnet18", "residual network, 11.7 M parameters, 1.8 GMAC", 224, 1, 32},
       residual(false, {2, 2, 2, 2})},
      {{"resnet34", "residual network, 21.8 M parameters, 3.7 GMAC", 224, 1, 32},
       residual(false, {3, 4, 6, 3})},
      {{"resnet50", "residual network of bottlenecks, 25.6 M parameters, 4.1 GMAC", 224, 1, 32},
       residual(true, {3, 4, 6, 3})},
      {{"resnet101", "residual network of bottlenecks, 44.5 M parameters, 7.8 GMAC", 224, 1, 32},
       residual(true, {3, 4, 23, 3})},
      {{"mobilenet_v2", "inverted bottlenecks, 3.5 M parameters, 0.3 GMAC", 224, 1, 32}, zoo::mobilenet_v2},
      {{"mobilenet_v3", "large; hard-swish and channel attention, 5.5 M parameters, 0.2 GMAC", 224, 1, 32},
       zoo::mobilenet_v3},
      {{"efficientnet_b0", "SiLU and channel attention, 5.3 M parameters, 0.4 GMAC", 224, 1, 32},
       zoo::efficientnet_b0},
      {{"shufflenet_v2", "channel shuffles, 2.3 M parameters, 0.15 GMAC", 224, 32, 32}, zoo::shufflenet_v2},
      {{"squeezenet1_1", "fire modules, 1.2 M parameters, 0.35 GMAC", 224, 1, 32}, zoo::squeezenet1_1},
      {{"densenet121", "densely connected, 8.0 M parameters, 2.9 GMAC", 224, 32, 32}, zoo::densenet121},
      {{"vgg16", "plain convolutions, 138 M parameters, 15.5 GMAC", 224, 32, 32, kLargestOfVgg}, zoo::vgg16},
      {{"bert_base", "transformer encoder, 12 layers of 768, 109 M parameters, 128 tokens", 128, 1, 1,
        kPositions},
       encoder({12, 768, 12, 3072, 30522, kPositions})},
      {{"bert_tiny", "transformer encoder, 2 layers of 128, 4.4 M parameters, 128 tokens", 128, 1, 1,
        kPositions},
       encoder({2, 128, 2, 512, 30522, kPositions})},
      {{"lstm", "two bidirectional LSTM layers of 128 over 50 steps", 50, 1, 1}, zoo::lstm},
  };
  return all;
}

const Entry& find_entry(std::string_view name) {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) {
    if (entry.network.name == name) return entry;
    names.push_back(entry.network.name);
  }
  user_error("there is no network '{}' in the zoo (`gantry zoo --list` shows all){}", name,
             did_you_mean(name, names));
}

void check(const ZooNetwork& network, const ZooOptions& options) {
  constexpr int64_t kLargestBatch = 4096;
  if (options.batch < 1 || options.batch > kLargestBatch) {
    user_error("zoo: --batch {}: give a number from 1 to {}", options.batch, kLargestBatch);
  }
  if (options.size == 0) return;
  if (options.size < network.smallest_size || options.size > network.largest_size ||
      options.size % network.size_multiple != 0) {
    const std::string multiple =
        network.size_multiple == 1 ? "" : fmt::format(", a multiple of {}", network.size_multiple);
    user_error("zoo: --size {}: {} takes sizes from {} to {}{}", options.size, network.name,
               network.smallest_size, network.largest_size, multiple);
  }
}

}  // namespace

const std::vector<ZooNetwork>& zoo_networks() {
  static const std::vector<ZooNetwork> networks = [] {
    std::vector<ZooNetwork> result;
    for (const Entry& entry : entries()) result.push_back(entry.network);
    return result;
  }();
  return networks;
}

std::string build_zoo_model(std::string_view name, const ZooOptions& options) {
  const Entry& entry = find_entry(name);
  check(entry.network, options);
  zoo::ModelBuilder model(entry.network.name, options);
  entry.build(model, options.size == 0 ? entry.network.size : options.size);
  return model.serialize();
}

uint64_t write_zoo_model(std::string_view name, const ZooOptions& options,
                         const std::filesystem::path& path) {
  OutputFile file(path);  // first, so that an unwritable path costs no time
  file.write(build_zoo_model(name, options));
  file.commit();
  return file.written();
}

}  // namespace gantry
