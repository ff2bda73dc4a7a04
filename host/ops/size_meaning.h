// What the symbolic sizes of a model measure: the batch, an image's height, a sequence's length …
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "host/graph/graph.h"

namespace gantry {

/// In the order of the module file's SizeMeaning.
enum class SizeMeaning : uint8_t { kUnknown, kBatch, kChannels, kDepth, kHeight, kWidth, kLength, kSamples };

/// For each symbol of the parameters' dimensions, by what says it best: its name ("batch_size", "H",
/// "seq_len"), the ops over images and sequences that it reaches, its place in the input. A guess: for
/// messages and made-up inputs, never for what is computed.
std::map<std::string, SizeMeaning> size_meanings(const Function& main);

}  // namespace gantry
