/* The folder as one shared library: the description and the objects, as gantry_custom_ops() hands them out. */
#include <gantry/custom_op.h>

/* A file's bytes, and where they end. */
#define FILE_BYTES(symbol, path)                                                                                       \
  __asm__(".section .rodata\n.balign 16\n" #symbol ":\n.incbin \"" path "\"\n" #symbol "_end:\n.byte 0\n.previous\n"); \
  extern const char symbol[] __attribute__((visibility("hidden")));                                                    \
  extern const char symbol##_end[] __attribute__((visibility("hidden")))

FILE_BYTES(description, "ops.toml");
FILE_BYTES(object_x86, "biquad-x86-64.o");
FILE_BYTES(object_arm, "biquad-aarch64.o");

__attribute__((visibility("default"))) const GantryCustomOps* gantry_custom_ops(void) {
  static GantryCustomFile x86, arm;
  static const GantryCustomFile* const files[] = {&x86, &arm};
  static GantryCustomOps ops;
  x86 = (GantryCustomFile){"biquad-x86-64.o", object_x86, (uint64_t)(object_x86_end - object_x86)};
  arm = (GantryCustomFile){"biquad-aarch64.o", object_arm, (uint64_t)(object_arm_end - object_arm)};
  ops = (GantryCustomOps){sizeof ops, GANTRY_CUSTOM_OP_VERSION, description, files, 2, 0};
  return &ops;
}
