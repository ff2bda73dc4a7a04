// Arrays of Python and tensors of the runtime: NumPy's, and all that speak DLPack.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "gantry/dlpack.h"
#include "gantry/runtime.h"
#include "host/cli/tensor_text.h"

namespace gantry::python {

struct DeleteManaged {
  void operator()(DLManagedTensor* tensor) const {
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  }
};
using ManagedTensor = std::unique_ptr<DLManagedTensor, DeleteManaged>;

/// An array's memory as the runtime takes it; valid while this lives and the array is not changed. Not
/// movable: the tensor points into it.
class InputArray {
 public:
  /// `name`: of the input, for messages. User errors: no array, not in the CPU's memory, elements of a kind
  /// or byte order that no model has, more dimensions than a model's tensors, masked or negated elements.
  InputArray(const pybind11::handle& array, const std::string& name);
  InputArray(const InputArray&) = delete;
  InputArray& operator=(const InputArray&) = delete;

  /// Of strings type and shape alone: their elements are texts().
  const DLTensor& tensor() const { return tensor_; }
  const std::vector<std::string>& texts() const { return texts_; }
  /// Whether it is a tensor of PyTorch, whose callers want such results.
  bool is_torch() const { return is_torch_; }

 private:
  void check_rank(int64_t rank) const;
  void check_mask(const pybind11::array& array) const;
  void check_sign(const pybind11::handle& tensor) const;
  void take_numpy(const pybind11::array& array);
  bool take_added_type(const pybind11::array& array);
  void take_texts(const pybind11::array& array);
  bool take_dlpack(const pybind11::handle& array);
  void check_device(const pybind11::handle& array) const;
  void take_any(const pybind11::handle& array);

  std::string name_;
  DLTensor tensor_{};
  int64_t shape_[GANTRY_MAX_RANK], strides_[GANTRY_MAX_RANK];
  pybind11::object owner_;
  ManagedTensor managed_;
  bool is_torch_ = false;
  std::vector<std::string> texts_;
};

/// "f32", "bool" …; "complex64" for what models do not have.
std::string type_text(DLDataType type);

/// A tensor of the runtime that owns itself as a NumPy array, or as a PyTorch tensor, of the same memory.
/// Integers of less than 8 bits become bytes; bf16 and others that NumPy does not know a gantry.Tensor.
pybind11::object to_python(ManagedTensor tensor, bool torch);
/// The same of a tensor from a board. Strings become a NumPy array of Python's.
pybind11::object to_python(cli::HostTensor tensor, bool torch);

/// The elements, dense and row-major. User error for more than there are bytes of addresses.
cli::HostTensor dense_copy(const DLTensor& tensor);
/// The array's elements, dense and row-major.
cli::HostTensor to_host(const pybind11::handle& array, const std::string& name);

/// gantry.Tensor: memory that speaks DLPack.
void add_tensor_class(pybind11::module_& module);

}  // namespace gantry::python
