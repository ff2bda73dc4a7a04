// Constants whose bytes wait on the disk.
#pragma once

#include "host/graph/graph.h"
#include "host/support/spill_file.h"

namespace gantry {

/// What is large together, in bytes: less is not worth the time of writing it, and more may decide on what
/// compiling takes.
inline constexpr size_t kLargeTogether = size_t{64} << 20;

/// Constants of fewer bytes are never moved: there are many of them, which together are little.
inline constexpr size_t kLeastSpilled = size_t{256} << 10;

/// `file` if the function's constants are large together, so that more beside them should not be in memory;
/// else null.
SpillFile* spill_if_large(const Function& function, SpillFile* file);

/// A constant over the bytes that `owner` points to, as many as the type has: those of a spill file, say.
ConstantPtr constant_over(const TensorType& type, std::shared_ptr<const void> owner);

/// Whether it is worth moving to the disk and nobody else holds it, so that memory is won. Strings stay.
bool may_spill(const ConstantPtr& constant);
/// The same constant with its bytes in the file; itself where the disk does not take them.
ConstantPtr spilled(ConstantPtr constant, SpillFile& file);

}  // namespace gantry
