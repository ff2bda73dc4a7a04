#include "host/python/errors.h"

namespace py = pybind11;

namespace gantry::python {
namespace {

void set_error(int exit_code, const char* message) {
  const char* names[] = {"InputError", "BoardError", "InternalError"};
  const py::object type = py::module_::import("gantry._errors").attr(names[exit_code - 1]);
  PyErr_SetObject(type.ptr(), to_text(message).ptr());
}

}  // namespace

void translate_errors() {
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const Error& error) {
      set_error(static_cast<int>(error.kind()), error.what());
    } catch (const rpc::Error& error) {
      set_error(rpc::exit_code(error.kind()), error.what());
    }
  });
}

py::str to_text(std::string_view bytes) {
  const auto size = static_cast<Py_ssize_t>(bytes.size());
  PyObject* text = PyUnicode_DecodeUTF8(bytes.data(), size, "surrogateescape");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

std::string from_text(const py::handle& text) {
  return py::str(text).attr("encode")("utf-8", "surrogateescape").cast<std::string>();
}

void raise_runtime_error(GantryStatus status, const std::string& message) {
  switch (status) {
    case GANTRY_OUT_OF_MEMORY:
    case GANTRY_KERNEL_FAILED:
      throw Error(ErrorKind::kBoard, message);
    case GANTRY_INTERNAL:
      throw Error(ErrorKind::kInternal, message);
    default:
      throw Error(ErrorKind::kUser, message);
  }
}

}  // namespace gantry::python
