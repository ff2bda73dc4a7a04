#!/bin/sh
# Rebuilds the images of this folder, for both architectures. Needs gcc and gcc-aarch64-linux-gnu.
set -eu
cd "$(dirname "$0")"
flags="-O1 -shared -nostdlib -ffreestanding -fPIC -fvisibility=hidden -fno-stack-protector
  -fno-asynchronous-unwind-tables -Wl,--build-id=none -Wl,-z,noexecstack -Wl,-s
  -Wl,-z,max-page-size=4096 -I../../../device_runtime/include"
for source in kernels imports thread_local constructor; do
  # shellcheck disable=SC2086
  x86_64-linux-gnu-gcc $flags -Wl,-z,noseparate-code -o "${source}_x86_64.so" "$source.c"
  # shellcheck disable=SC2086
  aarch64-linux-gnu-gcc $flags -mno-outline-atomics -o "${source}_aarch64.so" "$source.c"
done
