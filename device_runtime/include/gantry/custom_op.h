/*
 * What the author of a custom operator's kernel includes; docs/custom-ops.md has the rest. The kernel is
 * compiled to an object file for each architecture, and becomes a part of the modules that use it: it calls
 * nothing but what docs/custom-ops.md lists, and its host through the call that it is given.
 */
#ifndef GANTRY_CUSTOM_OP_H
#define GANTRY_CUSTOM_OP_H

#include <stddef.h>
#include <stdint.h>

#include "kernel_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Newer versions append members; a kernel for an older one runs. */
#define GANTRY_CUSTOM_OP_VERSION 1

/** Element types. A bool takes a byte. */
typedef enum GantryCustomType {
  GANTRY_CUSTOM_F32 = 0,
  GANTRY_CUSTOM_F64 = 1,
  GANTRY_CUSTOM_F16 = 2,
  GANTRY_CUSTOM_BF16 = 3,
  GANTRY_CUSTOM_I8 = 4,
  GANTRY_CUSTOM_I16 = 5,
  GANTRY_CUSTOM_I32 = 6,
  GANTRY_CUSTOM_I64 = 7,
  GANTRY_CUSTOM_U8 = 8,
  GANTRY_CUSTOM_U16 = 9,
  GANTRY_CUSTOM_U32 = 10,
  GANTRY_CUSTOM_U64 = 11,
  GANTRY_CUSTOM_BOOL = 12
} GantryCustomType;

/** A dense tensor, its last dimension innermost. An input's elements must not be written. */
typedef struct GantryCustomTensor {
  uint32_t struct_size; /**< bytes of this struct */
  uint32_t type;        /**< a GantryCustomType */
  uint32_t rank;
  uint32_t reserved;
  void* data;
  const int64_t* shape; /**< rank extents */
  int64_t count;        /**< of elements */
} GantryCustomTensor;

/** An attribute's values: one, or those of a list. Of the three pointers that of its kind is not null. */
typedef struct GantryCustomAttribute {
  uint32_t struct_size; /**< bytes of this struct */
  uint32_t count;
  const char* name;
  const int64_t* integers;
  const double* numbers;
  const char* const* strings;
} GantryCustomAttribute;

/** One call of a kernel, valid until it returns. */
typedef struct GantryCustomCall {
  uint32_t struct_size; /**< bytes of this struct */
  uint32_t version;     /**< GANTRY_CUSTOM_OP_VERSION */
  uint32_t input_count, output_count, attribute_count;
  uint32_t reserved;
  const GantryCustomTensor* const* inputs; /**< as many as are declared; null: one that the node leaves out */
  const GantryCustomTensor* const* outputs;
  const GantryCustomAttribute* const* attributes; /**< those with a value */
  void* scratch; /**< memory of the size that is declared, at a multiple of 64 */
  int64_t scratch_bytes;
  const GantryKernelHost* host; /**< threads and memory of a thread's own (kernel_abi.h) */
} GantryCustomCall;

/** A kernel. What it returns, if not 0, ends the run with an error that names the kernel and the number. */
typedef int32_t (*GantryCustomKernel)(const GantryCustomCall* call);

/** The attribute of that name; null if it has no value. */
static inline const GantryCustomAttribute* gantry_custom_attribute(const GantryCustomCall* call,
                                                                   const char* name) {
  for (uint32_t i = 0; i < call->attribute_count; ++i) {
    const char *a = call->attributes[i]->name, *b = name;
    while (*a != 0 && *a == *b) {
      ++a;
      ++b;
    }
    if (*a == *b) return call->attributes[i];
  }
  return NULL;
}
/** The value of an attribute that is an integer. */
static inline int64_t gantry_custom_integer(const GantryCustomCall* call, const char* name,
                                            int64_t otherwise) {
  const GantryCustomAttribute* found = gantry_custom_attribute(call, name);
  return found != NULL && found->integers != NULL && found->count > 0 ? found->integers[0] : otherwise;
}
/** The value of an attribute that is a float, or an integer. */
static inline double gantry_custom_number(const GantryCustomCall* call, const char* name, double otherwise) {
  const GantryCustomAttribute* found = gantry_custom_attribute(call, name);
  if (found == NULL || found->count == 0) return otherwise;
  if (found->integers != NULL) return (double)found->integers[0];
  return found->numbers != NULL ? found->numbers[0] : otherwise;
}

/* --- A folder of custom operators as one shared library, for the machine that compiles models. */

typedef struct GantryCustomFile {
  const char* name; /**< as the description calls it */
  const void* bytes;
  uint64_t size;
} GantryCustomFile;

typedef struct GantryCustomOps {
  uint32_t struct_size;    /**< bytes of this struct */
  uint32_t version;        /**< GANTRY_CUSTOM_OP_VERSION */
  const char* description; /**< what stands in a folder's ops.toml */
  const GantryCustomFile* const* files;
  uint32_t file_count;
  uint32_t reserved;
} GantryCustomOps;

/** What the library exports as gantry_custom_ops(): it lives as long as the library. */
typedef const GantryCustomOps* (*GantryCustomOpsFn)(void);

#ifdef __cplusplus
}
#endif
#endif
