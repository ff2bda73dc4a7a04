// Tensors as the command line shows and checks them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rpc/client/types.h"

namespace gantry::cli {

/// Dense row-major tensor on the workstation; the same type that travels to boards, and the same bytes: of
/// strings their lengths, then what they say (host/compiler/string_tensors.h).
using HostTensor = rpc::Tensor;

bool is_string(const rpc::ElementType& type);
/// "f32", "i64", "bool", …; "type(code=9, bits=4)" for what has no name.
std::string type_name(const rpc::ElementType& type);
std::optional<rpc::ElementType> parse_type_name(std::string_view name);
/// What elements of type `read` in one of NumPy's files are where `wanted` is: types that NumPy has no name for are
/// bytes there, integers of less than 8 bits and floats of 8 and less. "V1", bytes of a type without a name, are u8 where
/// nothing else is wanted.
rpc::ElementType stands_for(const rpc::ElementType& read, const rpc::ElementType& wanted);
/// Gives the tensor the type that its own stands for; signed integers of less than 8 bits that are "V1" are extended by
/// their sign, as ml_dtypes has them in the lowest bits.
void read_as(HostTensor& tensor, const rpc::ElementType& wanted);
/// What elements of type `given` in an array in memory are where `wanted` is: integers of less than 8 bits,
/// which NumPy and PyTorch have not, are bytes of the same sign there. All other types have names: nothing
/// else stands for another.
rpc::ElementType array_stands_for(const rpc::ElementType& given, const rpc::ElementType& wanted);
/// User error that names `source` where an element of less than 8 bits has more.
void check_elements(const HostTensor& tensor, const std::string& source);
/// "1x3x224x224"; "scalar" for none; -1 prints as "?".
std::string shape_text(const std::vector<int64_t>& shape);
/// "f32 1x3x224x224"
std::string type_and_shape(const rpc::ElementType& type, const std::vector<int64_t>& shape);
/// Product of the dimensions. User error on overflow or a negative dimension.
int64_t element_count(const std::vector<int64_t>& shape);
/// Bytes of the dense tensor, of strings those of their numbers. User error on overflow.
int64_t byte_count(const rpc::ElementType& type, const std::vector<int64_t>& shape);
/// Element `index` as a double, whatever its type of numbers.
double element_as_double(const HostTensor& tensor, int64_t index);

struct TensorSummary {
  double min = 0, max = 0, mean = 0;  ///< of the finite elements
  int64_t non_finite = 0;
  std::vector<double> first;  ///< at most eight
};
/// Of numbers.
TensorSummary summarise(const HostTensor& tensor);
/// The strings of such a tensor, in row-major order: views of its bytes. User error where those are no such.
std::vector<std::string_view> texts_of(const HostTensor& tensor);

}  // namespace gantry::cli
