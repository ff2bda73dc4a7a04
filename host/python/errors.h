// gantry's errors as Python's exceptions, its texts as Python's, and host code without Python's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "gantry/runtime.h"
#include "host/support/error.h"
#include "rpc/error.h"

namespace gantry::python {

/// gantry::Error and rpc::Error leave the module as gantry.InputError, BoardError or InternalError, by their
/// kinds.
void translate_errors();

/// The failure of a call of gantry/runtime.h: what gantry_last_error says, as the kind that its status is.
[[noreturn]] void raise_runtime_error(GantryStatus status, const std::string& message);

/// A str of paths, names or messages, which need not be UTF-8: other bytes are in it as Python's os module
/// shows them ("surrogateescape").
pybind11::str to_text(std::string_view bytes);
/// The bytes of such a str; of another object those of its str. What Python throws where half a character in
/// it stands for no byte.
std::string from_text(const pybind11::handle& text);

/// Calls host code while other threads of Python go on. What it throws that is no error of gantry's is a bug.
template <typename Work>
auto without_lock(Work&& work) {
  const pybind11::gil_scoped_release released;
  try {
    return std::forward<Work>(work)();
  } catch (const Error&) {
    throw;
  } catch (const rpc::Error&) {
    throw;
  } catch (const pybind11::error_already_set&) {
    throw;  // an interrupt
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kInternal, error.what());
  }
}

}  // namespace gantry::python
