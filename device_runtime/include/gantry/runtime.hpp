/**
 * The gantry runtime for C++17 and newer: gantry/runtime.h with owners, typed access and two ways to fail.
 *
 *   gantry::Module module = gantry::Module::load("resnet18.gmod");
 *   gantry::Session session = gantry::Session::create(module);
 *   session.set_input("image", pixels);                       // a std::vector<float>: copied
 *   session.run();
 *   for (float score : session.output<float>("scores")) …     // valid until the next run
 *
 * Every function that can fail comes twice. try_load() and the like return a Result, which holds the value or
 * a Failure (kind and message); load() and the like throw Error, and are not there under -fno-exceptions. A
 * call costs what the C interface's costs: texts are made only where something fails.
 *
 * Threading: a Module may be used by several threads, a Session by one at a time. A Session keeps its module.
 * Whatever was moved from may only be destroyed or assigned to.
 */
#ifndef GANTRY_RUNTIME_HPP
#define GANTRY_RUNTIME_HPP

#include <string_view>

#include "gantry/module.hpp"
#include "gantry/result.hpp"
#include "gantry/runtime.h"
#include "gantry/session.hpp"
#include "gantry/tensor.hpp"

namespace gantry {

/// The version of the library that the program runs with, "0.1.0".
inline std::string_view version() {
  return gantry_version();
}

}  // namespace gantry

#endif
