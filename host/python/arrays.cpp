#include "host/python/arrays.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "device_runtime/src/data_type.h"
#include "device_runtime/src/strided_copy.h"
#include "gantry/runtime.h"
#include "host/compiler/string_tensors.h"
#include "host/support/error.h"

namespace py = pybind11;

namespace gantry::python {
namespace {

constexpr const char* kCapsule = "dltensor";
constexpr const char* kUsedCapsule = "used_dltensor";

std::string type_name_of(const py::handle& value) {
  return py::str(py::type::of(value).attr("__name__"));
}

std::string library_of(const py::handle& value) {
  const std::string module = py::str(py::type::of(value).attr("__module__"));
  return module.substr(0, module.find('.'));
}

/// Whether it is a tensor of PyTorch; quick for what is not.
bool is_torch_tensor(const py::handle& value) {
  const char* name = Py_TYPE(value.ptr())->tp_name;
  return (std::strcmp(name, "Tensor") == 0 || std::strcmp(name, "Parameter") == 0) &&
         library_of(value) == "torch";
}

/// Of a tensor of PyTorch: what its __dlpack_device__ says, which is written in Python, in a twentieth of the
/// time.
bool is_in_cpu_memory(const py::handle& tensor) {
  static PyObject* const name = PyUnicode_InternFromString("is_cpu");
  PyObject* const said = PyObject_GetAttr(tensor.ptr(), name);
  if (said == nullptr) PyErr_Clear();  // an old version
  const bool is = said == Py_True;
  Py_XDECREF(said);
  return is;
}

std::string device_text(int type, int id) {
  switch (type) {
    case kDLCUDA:
    case kDLCUDAManaged:
      return "cuda:" + std::to_string(id);
    case kDLROCM:
      return "rocm:" + std::to_string(id);
    case kDLMetal:
      return "metal:" + std::to_string(id);
    default:
      return fmt::format("a device of DLPack's kind {}", type);
  }
}

/// A type that the runtime knows, of NumPy's kinds; of code 255 where there is none.
DLDataType type_of(char kind, py::ssize_t bytes) {
  const auto bits = static_cast<uint8_t>(8 * bytes);
  switch (kind) {
    case 'f':
      return {kDLFloat, bits, 1};
    case 'i':
      return {kDLInt, bits, 1};
    case 'u':
      return {kDLUInt, bits, 1};
    case 'b':
      return {kDLBool, bits, 1};
    default:
      return {255, bits, 1};
  }
}

/// A type that ml_dtypes adds to NumPy's, by its name there.
struct AddedType {
  std::string_view name;
  DLDataType type;
};
constexpr AddedType kAddedTypes[] = {{"bfloat16", {kDLBfloat, 16, 1}},
                                     {"float8_e4m3fn", {kDLFloat8_e4m3fn, 8, 1}},
                                     {"float8_e4m3fnuz", {kDLFloat8_e4m3fnuz, 8, 1}},
                                     {"float8_e5m2", {kDLFloat8_e5m2, 8, 1}},
                                     {"float8_e5m2fnuz", {kDLFloat8_e5m2fnuz, 8, 1}},
                                     {"float8_e8m0fnu", {kDLFloat8_e8m0fnu, 8, 1}},
                                     {"float6_e2m3fn", {kDLFloat6_e2m3fn, 6, 1}},
                                     {"float6_e3m2fn", {kDLFloat6_e3m2fn, 6, 1}},
                                     {"float4_e2m1fn", {kDLFloat4_e2m1fn, 4, 1}},
                                     {"int4", {kDLInt, 4, 1}},
                                     {"uint4", {kDLUInt, 4, 1}},
                                     {"int2", {kDLInt, 2, 1}},
                                     {"uint2", {kDLUInt, 2, 1}}};

void release_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kCapsule)) return;  // somebody has taken it
  DeleteManaged()(static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kCapsule)));
}

py::capsule to_capsule(ManagedTensor tensor) {
  PyObject* capsule = PyCapsule_New(tensor.get(), kCapsule, release_capsule);
  if (capsule == nullptr) throw py::error_already_set();
  tensor.release();
  return py::reinterpret_steal<py::capsule>(capsule);
}

/// NumPy's number of the type; -1 for what it does not have.
int numpy_number(DLDataType type) {
  using Numbers = py::detail::npy_api;
  constexpr int kHalf = 23;  // missing in pybind11's list
  if (type.lanes != 1) return -1;
  const int size = type.bits <= 8 ? 0 : type.bits == 16 ? 1 : type.bits == 32 ? 2 : 3;
  switch (type.code) {
    case kDLFloat: {
      constexpr int kFloats[] = {-1, kHalf, Numbers::NPY_FLOAT_, Numbers::NPY_DOUBLE_};
      return kFloats[size];
    }
    case kDLInt: {
      constexpr int kInts[] = {Numbers::NPY_BYTE_, Numbers::NPY_SHORT_, Numbers::NPY_INT_,
                               Numbers::NPY_LONG_};
      return kInts[size];
    }
    case kDLUInt: {
      constexpr int kUnsigned[] = {Numbers::NPY_UBYTE_, Numbers::NPY_USHORT_, Numbers::NPY_UINT_,
                                   Numbers::NPY_ULONG_};
      return kUnsigned[size];
    }
    case kDLBool:
      return Numbers::NPY_BOOL_;
    default:
      return -1;
  }
}

/// Bytes of an element; 0 for types that no model has. By the type's number: NumPy 2 keeps the size elsewhere
/// than NumPy 1, and pybind11 before 2.12 reads 0 there.
py::ssize_t element_bytes(const py::array& array) {
  constexpr int kHalf = 23;
  // bool, then signed and unsigned by turns: char, short, int, long, long long; float, double, long double
  constexpr py::ssize_t kBytes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 8, 8, 4, 8, sizeof(long double)};
  const int number = array.dtype().num();
  if (number == kHalf) return 2;
  return number >= 0 && number < static_cast<int>(std::size(kBytes)) ? kBytes[number] : 0;
}

/// The array keeps the tensor.
py::array to_numpy(ManagedTensor tensor) {
  const DLTensor& view = tensor->dl_tensor;
  const auto bytes = static_cast<py::ssize_t>((view.dtype.bits + 7) / 8);
  py::ssize_t shape[GANTRY_MAX_RANK], strides[GANTRY_MAX_RANK];
  py::ssize_t step = bytes;
  for (int axis = view.ndim - 1; axis >= 0; --axis) {
    shape[axis] = view.shape[axis];
    strides[axis] = view.strides == nullptr ? step : view.strides[axis] * bytes;
    step *= view.shape[axis];
  }
  const py::dtype type(numpy_number(view.dtype));
  void* data = static_cast<char*>(view.data) + view.byte_offset;
  const auto rank = static_cast<size_t>(view.ndim);
  const py::capsule owner(tensor.get(),
                          [](void* held) { DeleteManaged()(static_cast<DLManagedTensor*>(held)); });
  tensor.release();
  return py::array(type, std::vector<py::ssize_t>(shape, shape + rank),
                   std::vector<py::ssize_t>(strides, strides + rank), data, owner);
}

bool numpy_knows(DLDataType type) {
  return numpy_number(type) >= 0;
}

/// Its type and shape.
cli::HostTensor without_elements(const DLTensor& tensor) {
  return {{tensor.dtype.code, tensor.dtype.bits}, {tensor.shape, tensor.shape + tensor.ndim}, {}};
}

/// The same tensor, its memory owned by DLPack's.
ManagedTensor to_managed(cli::HostTensor tensor) {
  struct Owned {
    DLManagedTensor managed{};
    cli::HostTensor tensor;
  };
  auto owned = std::make_unique<Owned>();
  owned->tensor = std::move(tensor);
  DLTensor& view = owned->managed.dl_tensor;
  view.data = owned->tensor.bytes.data();
  view.device = {kDLCPU, 0};
  view.ndim = static_cast<int32_t>(owned->tensor.shape.size());
  view.dtype = {owned->tensor.type.code, owned->tensor.type.bits, 1};
  view.shape = owned->tensor.shape.data();
  owned->managed.manager_ctx = owned.get();
  owned->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Owned*>(self->manager_ctx); };
  return ManagedTensor(&owned.release()->managed);
}

/// What __dlpack__ was asked for by its keywords. Python's BufferError for memory that is not the CPU's.
void check_asked_device(const py::kwargs& asked) {
  if (!asked.contains("dl_device")) return;
  const py::object device = asked["dl_device"];
  if (device.is_none() || device.equal(py::make_tuple(static_cast<int>(kDLCPU), 0))) return;
  const std::string text =
      fmt::format("a gantry.Tensor is in the CPU's memory, DLPack's device ({}, 0), and not on {}",
                  static_cast<int>(kDLCPU), std::string(py::str(device)));
  PyErr_SetString(PyExc_BufferError, text.c_str());
  throw py::error_already_set();
}

/// gantry.Tensor: hands its memory to the first who asks for it by DLPack, and stays readable.
class Tensor {
 public:
  explicit Tensor(ManagedTensor tensor) : tensor_(tensor.release(), DeleteManaged()) {}

  py::tuple shape() const {
    py::tuple shape(tensor_->dl_tensor.ndim);
    for (int axis = 0; axis < tensor_->dl_tensor.ndim; ++axis) shape[axis] = tensor_->dl_tensor.shape[axis];
    return shape;
  }
  std::string dtype() const { return type_text(tensor_->dl_tensor.dtype); }
  /// By the keywords of the array API's standard; of these max_version and stream change nothing.
  py::capsule dlpack(const py::kwargs& asked) const {
    check_asked_device(asked);
    const bool copies = asked.contains("copy") && py::bool_(py::object(asked["copy"]));
    return copies ? to_capsule(to_managed(dense_copy(tensor_->dl_tensor))) : share();
  }

 private:
  py::capsule share() const {
    struct Shared {
      DLManagedTensor managed{};
      std::shared_ptr<DLManagedTensor> owner;
    };
    auto shared = std::make_unique<Shared>();
    shared->owner = tensor_;
    shared->managed.dl_tensor = tensor_->dl_tensor;
    shared->managed.manager_ctx = shared.get();
    shared->managed.deleter = [](DLManagedTensor* self) { delete static_cast<Shared*>(self->manager_ctx); };
    return to_capsule(ManagedTensor(&shared.release()->managed));
  }

  std::shared_ptr<DLManagedTensor> tensor_;
};

py::object to_torch(ManagedTensor tensor) {
  const py::module_ torch = py::module_::import("torch");
  const DLDataType type = tensor->dl_tensor.dtype;
  // Older versions do not take bools this way, and no version some unsigned types, nor less than 8 bits.
  if (numpy_knows(type) && (type.code == kDLBool || type.code == kDLUInt || type.bits < 8)) {
    const py::array array = to_numpy(std::move(tensor));
    return type.bits <= 8 ? torch.attr("from_numpy")(array) : py::object(array);
  }
  if (type.bits < 8) return py::cast(Tensor(std::move(tensor)));
  return torch.attr("utils").attr("dlpack").attr("from_dlpack")(to_capsule(std::move(tensor)));
}

}  // namespace

InputArray::InputArray(const py::handle& array, const std::string& name) : name_(name) {
  if (py::isinstance<py::array>(array)) {
    take_numpy(py::reinterpret_borrow<py::array>(array));
  } else {
    is_torch_ = is_torch_tensor(array);
    if (is_torch_) check_sign(array);
    take_any(array);
  }
}

/// User error for an array of numpy.ma with masked elements, which have no value.
void InputArray::check_mask(const py::array& array) const {
  if (Py_TYPE(array.ptr()) == py::detail::npy_api::get().PyArray_Type_) return;  // the usual one: no subclass
  if (py::module_::import("numpy.ma").attr("is_masked")(array).cast<bool>())
    user_error("input '{}': elements of its array are masked; give array.filled(VALUE)", name_);
}

/// User error for a tensor of PyTorch whose elements are to be read with their signs changed: DLPack has no
/// word for that.
void InputArray::check_sign(const py::handle& tensor) const {
  static PyObject* const name = PyUnicode_InternFromString("is_neg");
  PyObject* const said = PyObject_CallMethodNoArgs(tensor.ptr(), name);
  if (said == nullptr) PyErr_Clear();  // an old version
  const bool is_negated = said == Py_True;
  Py_XDECREF(said);
  if (is_negated)
    user_error("input '{}': its tensor is negated where it is read; give tensor.resolve_neg()", name_);
}

/// User error for more dimensions than a model's tensors have.
void InputArray::check_rank(int64_t rank) const {
  if (rank <= GANTRY_MAX_RANK) return;
  user_error("input '{}': its array has {} dimensions; no model takes more than {}", name_, rank,
             GANTRY_MAX_RANK);
}

void InputArray::take_numpy(const py::array& array) {
  check_rank(array.ndim());
  check_mask(array);
  const py::dtype type = array.dtype();
  const char order = type.byteorder();
  if (order == '>' && type.kind() != 'U') {
    user_error("input '{}': its array is big-endian ({}); give array.astype(array.dtype.newbyteorder('='))",
               name_, std::string(py::str(type.attr("str"))));
  }
  if (type.kind() == 'U' || type.kind() == 'S' || type.kind() == 'O' || type.kind() == 'T')
    return take_texts(array);
  const py::ssize_t bytes = element_bytes(array);
  if (bytes == 0 && take_added_type(array)) return;
  tensor_.dtype = type_of(type.kind(), bytes);
  if (tensor_.dtype.code == 255 || bytes == 0) {
    user_error("input '{}': no model has elements of NumPy's type {}", name_,
               std::string(py::str(static_cast<py::handle>(type))));
  }
  owner_ = array;
  bool whole = true;  // whether steps are whole elements
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) {
    shape_[axis] = array.shape(axis);
    strides_[axis] = array.strides(axis) / bytes;
    whole = whole && array.strides(axis) % bytes == 0;
  }
  const auto address = reinterpret_cast<uintptr_t>(array.data());
  if (!whole || address % static_cast<uintptr_t>(bytes) != 0) {
    // A field of a record, say.
    return take_numpy(
        py::module_::import("numpy").attr("array")(array, py::arg("order") = "C").cast<py::array>());
  }
  tensor_.data = const_cast<void*>(array.data());
  tensor_.device = {kDLCPU, 0};
  tensor_.ndim = static_cast<int32_t>(array.ndim());
  tensor_.shape = shape_;
  tensor_.strides = strides_;
}

/// False for an array of another type than those that ml_dtypes adds to NumPy's.
bool InputArray::take_added_type(const py::array& array) {
  const std::string name = py::str(array.dtype().attr("name"));
  const auto* added = std::ranges::find(kAddedTypes, std::string_view(name), &AddedType::name);
  if (added == std::end(kAddedTypes)) return false;
  const DLDataType& type = added->type;
  // Whether signs of integers are extended there differs by version: as NumPy's own they are.
  const bool is_integer = type.code == kDLInt || type.code == kDLUInt;
  const py::object known = is_integer ? array.attr("astype")(type.code == kDLInt ? "int8" : "uint8")
                                      : array.attr("view")(type.bits == 16 ? "uint16" : "uint8");
  take_numpy(known.cast<py::array>());
  tensor_.dtype = type;
  return true;
}

/// An array of str, bytes, or objects that are such.
void InputArray::take_texts(const py::array& array) {
  for (const py::handle element : array.attr("ravel")().attr("tolist")()) {
    if (py::isinstance<py::str>(element)) {
      // Bytes that are no UTF-8 are what Python's os module makes of them.
      texts_.push_back(element.attr("encode")("utf-8", "surrogateescape").cast<std::string>());
    } else if (py::isinstance<py::bytes>(element)) {
      texts_.push_back(element.cast<std::string>());
    } else {
      user_error("input '{}': its array of Python objects holds a {}; models take numbers or texts", name_,
                 type_name_of(element));
    }
  }
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) shape_[axis] = array.shape(axis);
  tensor_.dtype = {kDLOpaqueHandle, 64, 1};
  tensor_.device = {kDLCPU, 0};
  tensor_.ndim = static_cast<int32_t>(array.ndim());
  tensor_.shape = shape_;
}

/// False where it has no capsule to give; the error is Python's then.
bool InputArray::take_dlpack(const py::handle& array) {
  PyObject* result = PyObject_CallMethod(array.ptr(), "__dlpack__", nullptr);
  if (result == nullptr) return false;
  const auto capsule = py::reinterpret_steal<py::object>(result);
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
  if (managed == nullptr) return false;
  PyCapsule_SetName(capsule.ptr(), kUsedCapsule);
  PyCapsule_SetDestructor(capsule.ptr(), nullptr);
  managed_.reset(managed);
  check_rank(managed->dl_tensor.ndim);
  tensor_ = managed->dl_tensor;
  return true;
}

/// User error where the CPU cannot read it, or where it does not say.
void InputArray::check_device(const py::handle& array) const {
  if (!py::hasattr(array, "__dlpack_device__")) return;
  int type = 0, id = 0;
  try {
    const py::tuple device = array.attr("__dlpack_device__")();
    type = py::int_(device[0]);
    id = py::int_(device[1]);
  } catch (const py::error_already_set& error) {
    user_error("input '{}': its {} does not say where it is: {}; give tensor.cpu()", name_,
               type_name_of(array), std::string(py::str(error.value())));
  }
  if (type != kDLCPU && type != kDLCUDAHost) {
    user_error("input '{}': its {} is on {}, and calls take what is in the CPU's memory; give tensor.cpu()",
               name_, type_name_of(array), device_text(type, id));
  }
}

void InputArray::take_any(const py::handle& array) {
  if (!py::hasattr(array, "__dlpack__")) {
    user_error("input '{}': a {} is no array; numpy.asarray(…) makes one of lists and numbers", name_,
               type_name_of(array));
  }
  if (!(is_torch_ && is_in_cpu_memory(array))) check_device(array);
  if (!take_dlpack(array)) {
    py::error_already_set error;
    // PyTorch before 2 has no bools in DLPack, but in NumPy.
    if (is_torch_ && std::string(py::str(array.attr("dtype"))) == "torch.bool")
      return take_numpy(array.attr("numpy")().cast<py::array>());
    user_error("input '{}': {}", name_, std::string(py::str(error.value())));
  }
  tensor_.device = {kDLCPU, 0};
}

std::string type_text(DLDataType type) {
  return runtime::dlpack_name(type);
}

py::object to_python(ManagedTensor tensor, bool torch) {
  if (torch) return to_torch(std::move(tensor));
  if (numpy_knows(tensor->dl_tensor.dtype)) return to_numpy(std::move(tensor));
  return py::cast(Tensor(std::move(tensor)));
}

/// A NumPy array of str.
py::object texts_to_numpy(const cli::HostTensor& tensor) {
  const py::module_ numpy = py::module_::import("numpy");
  const std::vector<std::string_view> texts = cli::texts_of(tensor);
  py::tuple shape(tensor.shape.size());
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) shape[axis] = tensor.shape[axis];
  // Filled one by one: of a list of texts NumPy would make its own type of texts.
  const py::object array = numpy.attr("empty")(texts.size(), py::arg("dtype") = "object");
  for (size_t i = 0; i < texts.size(); ++i)
    array[py::int_(i)] = py::bytes(texts[i].data(), texts[i].size()).attr("decode")("utf-8", "surrogateescape");
  return array.attr("reshape")(shape);
}

py::object to_python(cli::HostTensor tensor, bool torch) {
  if (cli::is_string(tensor.type)) return texts_to_numpy(tensor);
  return to_python(to_managed(std::move(tensor)), torch);
}

cli::HostTensor dense_copy(const DLTensor& tensor) {
  cli::HostTensor host = without_elements(tensor);
  host.bytes.resize(static_cast<size_t>(cli::byte_count(host.type, host.shape)));
  if (!host.bytes.empty()) runtime::copy_dense(tensor, host.bytes.data());
  return host;
}

cli::HostTensor to_host(const py::handle& array, const std::string& name) {
  const InputArray input(array, name);
  const DLTensor& tensor = input.tensor();
  if (tensor.dtype.lanes != 1) user_error("input '{}': no model has vectors as elements", name);
  if (tensor.dtype.code != kDLOpaqueHandle) return dense_copy(tensor);
  cli::HostTensor host = without_elements(tensor);
  host.bytes = packed_strings(std::vector<std::string_view>(input.texts().begin(), input.texts().end()));
  return host;
}

void add_tensor_class(py::module_& module) {
  py::class_<Tensor>(module, "Tensor")
      .def_property_readonly("shape", &Tensor::shape)
      .def_property_readonly("dtype", &Tensor::dtype)
      .def("__dlpack__", &Tensor::dlpack)
      .def("__dlpack_device__", [](const Tensor&) { return py::make_tuple(static_cast<int>(kDLCPU), 0); })
      .def("__repr__", [](const Tensor& tensor) {
        return fmt::format("gantry.Tensor({} {})", tensor.dtype(), std::string(py::str(tensor.shape())));
      });
}

}  // namespace gantry::python
