// What toml++ has as a library, compiled from its headers: see StaticLibraries.cmake.
#define TOML_IMPLEMENTATION
#include <toml++/toml.h>
