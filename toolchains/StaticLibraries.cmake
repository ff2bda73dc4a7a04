# Lets find_package and find_library find static libraries, so that programs need none at run time.
#
# Of the libraries that Debian has as shared ones only, fmt, spdlog and toml++ have all of their code in their headers,
# and ONNX's messages are generated; they are compiled here (static_libraries/). Two have no such way, and what needs
# them is left out: the onnx library's checker, whose complaints are only warnings, and libzip, which reads .npz.
#
# Compile options stay those of the shared libraries, so that ccache gives what a build with these has compiled.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
set(OPENSSL_USE_STATIC_LIBS ON)
set(Protobuf_USE_STATIC_LIBS ON)
list(PREPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR}/static_libraries)
