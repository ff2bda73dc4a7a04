// Classifies a picture with a compiled network, as classify.c does, in C++:
//
//   gantry zoo resnet18 -o resnet18.onnx && gantry compile resnet18.onnx -o resnet18.gmod
//   classify_cpp resnet18.gmod photo.jpg
//
// Prints the five likeliest classes with their probabilities. The module must take one f32 image, (1, 3,
// height, width), and give one f32 score a class.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "gantry/runtime.hpp"
#include "image.h"

namespace {

constexpr std::int64_t kDefaultSize = 224;  // height and width for a model that leaves them open
constexpr std::size_t kTop = 5;

// What this program asks of a module or a picture beyond what the runtime does.
struct Unsuitable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The shape of the image that the module wants.
gantry::Shape input_shape(const gantry::Module& module) {
  if (module.input_count() != 1) throw Unsuitable("the module must have one input, the image");
  const gantry::TensorDescription input = module.input(0);
  if (!gantry::is_same_type(input.type, gantry::element_type<float>) || input.shape.rank() != 4) {
    throw Unsuitable("the module's input '" + input.name + "' must be f32 (1, 3, height, width), not " +
                     gantry::to_string(input.type) + " " + gantry::to_string(input.shape));
  }
  const std::int64_t usual[4] = {1, 3, kDefaultSize, kDefaultSize};
  std::int64_t dims[4];
  for (std::size_t axis = 0; axis < 4; ++axis) {
    dims[axis] = input.shape[axis] < 0 ? usual[axis] : input.shape[axis];
  }
  if (dims[0] != 1 || dims[1] != 3 || std::min(dims[2], dims[3]) < 1 || std::max(dims[2], dims[3]) > 8192) {
    throw Unsuitable("the module's input must be one image of three colours");
  }
  return gantry::Shape(dims);
}

// The picture or array at the path, as the network wants it: colour by colour.
std::vector<float> read_pixels(const std::string& path, const gantry::Shape& shape) {
  std::vector<float> pixels(static_cast<std::size_t>(shape.count()));
  const bool is_array = path.size() > 4 && path.compare(path.size() - 4, 4, ".npy") == 0;
  const int failed = is_array ? read_npy(path.c_str(), pixels.data(), pixels.size())
                              : read_picture(path.c_str(), pixels.data(), shape[2], shape[3]);
  if (failed != 0) throw Unsuitable("'" + path + "' is no input");  // it has said why
  return pixels;
}

// Softmax over the scores, shifted by the largest so that no exponential overflows; prints the best.
void print_top(gantry::TensorView<const float> scores) {
  if (scores.empty()) throw Unsuitable("the module gives no scores");
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const std::size_t shown = std::min(kTop, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  const double largest = scores[order[0]];
  double sum = 0;
  for (const float score : scores) sum += std::exp(score - largest);
  for (std::size_t rank = 0; rank < shown; ++rank) {
    const double probability = std::exp(scores[order[rank]] - largest) / sum;
    std::printf("%zu. class %4zu  %6.2f %%\n", rank + 1, order[rank], 100 * probability);
  }
}

void classify(const std::string& module_path, const std::string& picture_path) {
  const gantry::Module module = gantry::Module::load(module_path);
  gantry::Session session = gantry::Session::create(module);
  const gantry::Shape shape = input_shape(module);
  const std::vector<float> pixels = read_pixels(picture_path, shape);
  // The pixels stay until the run is over, so that they need not be copied.
  session.borrow_input(0, pixels, shape);
  session.run();
  print_top(session.output<float>(0));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: classify_cpp MODULE.gmod PICTURE.jpg|PICTURE.png|ARRAY.npy\n");
    return 1;
  }
  try {
    classify(argv[1], argv[2]);
    return 0;
  } catch (const gantry::Error& error) {
    // The kind says what helps: another gantry for the board, another file, less memory.
    std::fprintf(stderr, "classify: %s\n", error.what());
    if (error.code() == GANTRY_INCOMPATIBLE) {
      std::fprintf(stderr, "classify: compile the model for this machine: gantry compile MODEL --target …\n");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "classify: %s\n", error.what());
  }
  return 1;
}
