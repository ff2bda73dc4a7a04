/**
 * Strings of models, for programs that link the library gantry_runtime_builtins: it has all that
 * gantry_runtime has, and what models with strings need beside kernels. gantry_runtime refuses those models
 * by name.
 *
 * The DLDataType of such a tensor is {kDLOpaqueHandle, 64, 1}: an element is the number of a string. Errors
 * and threading are as in gantry/runtime.h.
 */
#ifndef GANTRY_STRINGS_H
#define GANTRY_STRINGS_H

#include "gantry/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Gives an input of strings, as gantry_set_input gives others: texts[i], of lengths[i] bytes (null: each ends
 * at its 0), for each element in row-major order. Copied.
 */
GANTRY_API GantryStatus gantry_set_strings(GantrySession* session, int32_t index, const int64_t* shape,
                                           int32_t rank, const char* const* texts, const size_t* lengths);
/**
 * The string of a number that an output of the last run has: `length` bytes, which no 0 need follow. Valid
 * until the next run or release. INVALID_ARGUMENT where there is none of that number.
 */
GANTRY_API GantryStatus gantry_get_string(const GantrySession* session, uint64_t number, const char** text,
                                          size_t* length);

#ifdef __cplusplus
}
#endif
#endif
