// The shared library is made of the layers' archives; CMake wants a source of its own.
