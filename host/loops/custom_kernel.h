// Kernels that are no loop nests: object code that the user wrote, called with tensors and attributes
// (device_runtime/include/gantry/custom_op.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "host/graph/type.h"

namespace gantry {

/// A file of machine code: a relocatable object, or an archive of some.
struct ObjectFile {
  std::string name;  ///< for messages: "ops/mu_law-x86-64.o"
  std::string bytes;
};

/// A custom kernel for GPUs. Its entry takes a pointer for each input, output, and the scratch
/// memory, in that order, then its sizes as 64-bit integers.
struct CustomGpuKernel {
  std::string family;  ///< of GPUs, as targets have it
  ObjectFile text;     ///< in the family's language
  std::string entry;
  int64_t threads = 0;  ///< of a block
};

/// The code of a custom op. Shared and never changed.
struct CustomKernel {
  std::string op;        ///< for messages: "my.domain::MyOp"
  std::string source;    ///< for messages: the description that names the files
  std::string function;  ///< its GantryCustomKernel in the objects
  std::map<std::string, std::vector<ObjectFile>> objects;  ///< by architecture: "x86-64", "aarch64"
  std::optional<CustomGpuKernel> gpu;
  std::string digest;  ///< of all of this, in hexadecimal
};

/// A value of an attribute, or a list of them.
struct CustomAttribute {
  std::string name;
  std::variant<std::vector<int64_t>, std::vector<double>, std::vector<std::string>> values;
  bool is_list = false;  ///< else there is one value
  friend bool operator==(const CustomAttribute&, const CustomAttribute&) = default;
};

/// What a kernel hands a custom one. Dimensions are constants or one of the kernel's symbols.
struct CustomCall {
  struct Tensor {
    bool present = true;  ///< else an optional input that the node leaves out
    TensorType type;
    int buffer = -1;          ///< among those of the kernel; -1: `immediate`
    std::string immediate{};  ///< the bytes of a constant that is no buffer
  };
  std::shared_ptr<const CustomKernel> code;
  std::vector<Tensor> inputs, outputs;
  std::vector<CustomAttribute> attributes;
  int scratch = -1;  ///< among the kernel's buffers; -1: it has none
  Dim scratch_bytes;
};

/// Indented text that says all that decides what the call does; it stands where other kernels have their
/// stages.
std::string to_string(const CustomCall& call);

/// "beta=1.5, mode='linear', pads=[1, 2]". Floats are told from integers by a point, an exponent, inf or nan.
std::string to_string(const std::vector<CustomAttribute>& attributes);
/// Reads what to_string wrote. A user error quotes what is wrong.
std::vector<CustomAttribute> parse_custom_attributes(std::string_view text);
/// One value or list of such a text. A user error quotes what is wrong.
CustomAttribute parse_custom_value(std::string name, std::string_view text);

}  // namespace gantry
