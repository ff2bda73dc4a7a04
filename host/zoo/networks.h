// The networks, each with all its nodes and weights.
#pragma once

#include "host/zoo/builder.h"

namespace gantry::zoo {

// classic.cpp
void vgg16(ModelBuilder& model, int64_t size);
void squeezenet1_1(ModelBuilder& model, int64_t size);
void densenet121(ModelBuilder& model, int64_t size);

// resnet.cpp
/// `bottleneck`: blocks of 1x1, 3x3, 1x1 instead of two 3x3; `blocks`: a stage each.
void resnet(ModelBuilder& model, int64_t size, bool bottleneck, const std::vector<int>& blocks);

// mobile.cpp
void mobilenet_v2(ModelBuilder& model, int64_t size);
void mobilenet_v3(ModelBuilder& model, int64_t size);
void efficientnet_b0(ModelBuilder& model, int64_t size);
void shufflenet_v2(ModelBuilder& model, int64_t size);

// sequence.cpp
struct BertShape {
  int64_t layers, hidden, heads, feed_forward, vocabulary, positions;
};
/// Encoder over token ids (batch, sequence) -> hidden states (batch, sequence, hidden); `sequence` is at most
/// `shape.positions`.
void bert(ModelBuilder& model, int64_t sequence, const BertShape& shape);
/// Two bidirectional LSTM layers over (batch, sequence, 64) and a projection to 10 classes at every position.
void lstm(ModelBuilder& model, int64_t sequence);

}  // namespace gantry::zoo
