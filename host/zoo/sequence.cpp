// Devlin et al., "BERT", 2019 (encoder, post-normalisation, exact GELU); Hochreiter and Schmidhuber, "Long
// short-term memory", 1997.
#include <cmath>

#include "host/zoo/layers.h"
#include "host/zoo/networks.h"

namespace gantry::zoo {
namespace {

/// x W + b over the last axis, W stored (inputs, outputs).
std::string dense(ModelBuilder& model, const std::string& name, const std::string& x, int64_t inputs,
                  int64_t outputs, double gain) {
  const double deviation = std::sqrt(gain / static_cast<double>(inputs));
  const std::string product =
      model.node("MatMul", name, {x, model.normal(name + ".weight", {inputs, outputs}, 0, deviation)});
  return model.node("Add", name + ".add", {product, model.normal(name + ".bias", {outputs}, 0, 0.02)});
}

/// Layer normalisation over the last axis in the primitive ops that exporters write.
std::string layer_norm(ModelBuilder& model, const std::string& name, const std::string& x, int64_t width) {
  const AttributeList last_axis = {{"axes", std::vector<int64_t>{-1}}, {"keepdims", int64_t{1}}};
  const std::string mean = model.node("ReduceMean", name + ".mean", {x}, last_axis);
  const std::string centred = model.node("Sub", name + ".centre", {x, mean});
  const std::string squared = model.node("Pow", name + ".square", {centred, model.scalar(name + ".two", 2)});
  const std::string variance = model.node("ReduceMean", name + ".variance", {squared}, last_axis);
  const std::string guarded =
      model.node("Add", name + ".guard", {variance, model.scalar(name + ".epsilon", 1e-5f)});
  const std::string deviation = model.node("Sqrt", name + ".deviation", {guarded});
  const std::string normalised = model.node("Div", name + ".normalise", {centred, deviation});
  const std::string scaled =
      model.node("Mul", name + ".scale", {normalised, model.uniform(name + ".weight", {width}, 0.9, 1.1)});
  return model.node("Add", name + ".shift", {scaled, model.normal(name + ".bias", {width}, 0, 0.05)});
}

/// x * (1 + erf(x / sqrt 2)) / 2
std::string gelu(ModelBuilder& model, const std::string& name, const std::string& x) {
  const std::string scaled =
      model.node("Div", name + ".div", {x, model.scalar(name + ".sqrt2", 1.41421356f)});
  const std::string erf = model.node("Erf", name + ".erf", {scaled});
  const std::string shifted = model.node("Add", name + ".add", {erf, model.scalar(name + ".one", 1)});
  const std::string product = model.node("Mul", name + ".mul", {x, shifted});
  return model.node("Mul", name + ".half", {product, model.scalar(name + ".factor", 0.5f)});
}

std::string self_attention(ModelBuilder& model, const std::string& name, const std::string& x,
                           const BertShape& shape) {
  const int64_t head = shape.hidden / shape.heads;
  const std::string heads_shape = model.int64_constant(name + ".heads_shape", {0, 0, shape.heads, head});
  auto project = [&](const std::string& part, const std::vector<int64_t>& order) {
    const std::string y = dense(model, name + "." + part, x, shape.hidden, shape.hidden, 1);
    const std::string split = model.node("Reshape", name + "." + part + ".heads", {y, heads_shape});
    return model.node("Transpose", name + "." + part + ".transpose", {split}, {{"perm", order}});
  };
  const std::string query = project("query", {0, 2, 1, 3});
  const std::string key = project("key", {0, 2, 3, 1});
  const std::string value = project("value", {0, 2, 1, 3});
  const std::string scores = model.node("MatMul", name + ".scores", {query, key});
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(head)));
  const std::string scaled =
      model.node("Div", name + ".scale", {scores, model.scalar(name + ".sqrt_head", root)});
  const std::string weights = model.node("Softmax", name + ".softmax", {scaled}, {{"axis", int64_t{-1}}});
  const std::string mixed = model.node("MatMul", name + ".mix", {weights, value});
  const std::string back =
      model.node("Transpose", name + ".transpose", {mixed}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  const std::string joined = model.node(
      "Reshape", name + ".join", {back, model.int64_constant(name + ".joined_shape", {0, 0, shape.hidden})});
  return dense(model, name + ".output", joined, shape.hidden, shape.hidden, 1);
}

/// The first rows of the position table, as many as the sequence is long.
std::string positions(ModelBuilder& model, const std::string& ids, int64_t sequence, const BertShape& shape) {
  const std::string table = model.normal("embeddings.position", {1, shape.positions, shape.hidden}, 0, 0.3);
  std::string end;
  if (model.options().dynamic) {
    const std::string ids_shape = model.node("Shape", "embeddings.shape", {ids});
    end = model.node("Gather", "embeddings.length",
                     {ids_shape, model.int64_constant("embeddings.axis1", {1})}, {{"axis", int64_t{0}}});
  } else {
    end = model.int64_constant("embeddings.length", {sequence});
  }
  return model.node("Slice", "embeddings.positions",
                    {table, model.int64_constant("embeddings.start", {0}), end,
                     model.int64_constant("embeddings.axes", {1})});
}

}  // namespace

void bert(ModelBuilder& model, int64_t sequence, const BertShape& shape) {
  const ModelDim length = model.options().dynamic ? ModelDim(std::string("sequence")) : ModelDim(sequence);
  const std::string ids = model.int64_input("input_ids", {model.batch(), length});
  const std::string table = model.normal("embeddings.word", {shape.vocabulary, shape.hidden}, 0, 1);
  std::string x = model.node("Gather", "embeddings.words", {table, ids}, {{"axis", int64_t{0}}});
  x = model.node("Add", "embeddings.add", {x, positions(model, ids, sequence, shape)});
  x = layer_norm(model, "embeddings.norm", x, shape.hidden);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const std::string name = "layer." + std::to_string(layer);
    const std::string attention = self_attention(model, name + ".attention", x, shape);
    x = layer_norm(model, name + ".norm1", model.node("Add", name + ".residual1", {x, attention}),
                   shape.hidden);
    std::string y = dense(model, name + ".intermediate", x, shape.hidden, shape.feed_forward, 1);
    y = gelu(model, name + ".gelu", y);
    y = dense(model, name + ".output", y, shape.feed_forward, shape.hidden, 2);
    x = layer_norm(model, name + ".norm2", model.node("Add", name + ".residual2", {x, y}), shape.hidden);
  }
  model.float_output("last_hidden_state", {model.batch(), length, shape.hidden});
}

void lstm(ModelBuilder& model, int64_t sequence) {
  constexpr int64_t kInputs = 64, kHidden = 128, kDirections = 2, kClasses = 10;
  const ModelDim length = model.options().dynamic ? ModelDim(std::string("sequence")) : ModelDim(sequence);
  std::string x = model.float_input("input", {model.batch(), length, kInputs});
  x = model.node("Transpose", "to_time_major", {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  int64_t width = kInputs;
  for (int layer = 0; layer < 2; ++layer) {
    const std::string name = "lstm" + std::to_string(layer + 1);
    const double range = 1 / std::sqrt(static_cast<double>(kHidden));
    const std::string w = model.uniform(name + ".W", {kDirections, 4 * kHidden, width}, -range, range);
    const std::string r = model.uniform(name + ".R", {kDirections, 4 * kHidden, kHidden}, -range, range);
    const std::string b = model.uniform(name + ".B", {kDirections, 8 * kHidden}, -range, range);
    // (sequence, directions, batch, hidden) -> (sequence, batch, directions * hidden)
    x = model.node("LSTM", name, {x, w, r, b},
                   {{"direction", std::string("bidirectional")}, {"hidden_size", kHidden}});
    x = model.node("Transpose", name + ".transpose", {x}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    width = kDirections * kHidden;
    x = model.node("Reshape", name + ".join", {x, model.int64_constant(name + ".shape", {0, 0, width})});
  }
  x = model.node("Transpose", "to_batch_major", {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  dense(model, "classifier", x, width, kClasses, 1);
  model.float_output("logits", {model.batch(), length, kClasses});
}

}  // namespace gantry::zoo
