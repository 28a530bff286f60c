// The C interface of tilec's runtime: compiled programs on this processor or on a GPU.
//
// Each function returns a `tile_status`. After one that is not TILE_OK, tile_error_message() says
// what is wrong, on the thread that made the call. Handles may move between threads, but one
// thread at a time uses a handle. Every pointer must be valid for the call, and strings end with a
// zero and are UTF-8; a null pointer is an error, except where a function allows one.
//
// This file is made from src/*.rs by `cargo test -p tile-c --test header`.


#ifndef TILE_H
#define TILE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// The result of a call.
typedef enum tile_status {
  TILE_OK = 0,
  // The program, the file or a value is at fault.
  TILE_ERROR_INPUT = 1,
  // The call is at fault: a null pointer, an unknown type, an output that was not computed.
  TILE_ERROR_USAGE = 2,
  // The device or the machine is at fault.
  TILE_ERROR_MACHINE = 3,
} tile_status;

// A program with the sizes that its next sessions are made for.
typedef struct tile_model tile_model;

// A program compiled for its sizes, with its memory on a device.
typedef struct tile_session tile_session;

// The type of a tensor's elements: one of the constants TILE_BOOL to TILE_F64. Tensors are dense
// and row-major: the last axis varies fastest. (It is a number and not an enum, since C can pass
// any number.)
typedef uint32_t tile_dtype;

// One byte, 0 or 1.
#define TILE_BOOL 0

#define TILE_I8 1

#define TILE_I16 2

#define TILE_I32 3

#define TILE_I64 4

#define TILE_U8 5

#define TILE_U16 6

#define TILE_U32 7

#define TILE_U64 8

#define TILE_F16 9

#define TILE_BF16 10

#define TILE_F32 11

#define TILE_F64 12

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the message of this thread's last error, or an empty string. It is valid until the next
// call on this thread that fails.
const char *tile_error_message(void);

// Returns the version of this library, such as `0.1.0`.
const char *tile_version(void);

// Reads a model from a file: a pack (.tilepack), an ONNX file (.onnx) or a Tile file. The library
// may have been built for packs only.
//
// # Safety
// `path` is a string, and `out` valid for a write.
enum tile_status tile_model_load(const char *path, struct tile_model **out);

// Reads and checks the text of a Tile program of `length` bytes, without a zero at the end. It is
// an error if the library was built for packs only.
//
// # Safety
// `source` points to `length` bytes, and `out` is valid for a write.
enum tile_status tile_model_compile(const char *source, size_t length, struct tile_model **out);

// Reads a pack of `length` bytes from memory, which may be freed afterwards.
//
// # Safety
// `bytes` points to `length` bytes, and `out` is valid for a write.
enum tile_status tile_model_from_pack(const uint8_t *bytes, size_t length, struct tile_model **out);

// Sets a size by its name in the program's header, for the sessions that are created afterwards.
//
// # Safety
// `handle` is a model, and `name` a string.
enum tile_status tile_model_set_dim(struct tile_model *handle, const char *name, size_t size);

// Sets the type and shape of an input, for the sessions that are created afterwards. It may be
// left out if the sizes are known otherwise; the type is f32 then.
//
// # Safety
// `handle` is a model, `name` a string, and `shape` points to `rank` sizes.
enum tile_status tile_model_set_shape(struct tile_model *handle,
                                      const char *name,
                                      tile_dtype dtype,
                                      const size_t *shape,
                                      size_t rank);

// Selects the function or model of the program to run. The default is the last model, or the last
// function if there is no model.
//
// # Safety
// `handle` is a model, and `name` a string.
enum tile_status tile_model_set_entry(struct tile_model *handle, const char *name);

// Sets a hyper-parameter to a whole number, for the sessions that are created afterwards.
//
// # Safety
// `handle` is a model, and `name` a string.
enum tile_status tile_model_set_int(struct tile_model *handle, const char *name, int64_t value);

// Sets a hyper-parameter to a number, for the sessions that are created afterwards.
//
// # Safety
// `handle` is a model, and `name` a string.
enum tile_status tile_model_set_float(struct tile_model *handle, const char *name, double value);

// Sets a hyper-parameter to true (not 0) or false (0), for the sessions that are created
// afterwards.
//
// # Safety
// `handle` is a model, and `name` a string.
enum tile_status tile_model_set_bool(struct tile_model *handle, const char *name, int32_t value);

// Sets a hyper-parameter to a name, such as that of a function, for the sessions that are created
// afterwards.
//
// # Safety
// `handle` is a model, and `name` and `value` are strings.
enum tile_status tile_model_set_name(struct tile_model *handle,
                                     const char *name,
                                     const char *value);

// Frees a model. Its sessions stay. A null pointer is allowed.
//
// # Safety
// `handle` is null or a model, which is not used afterwards.
void tile_model_free(struct tile_model *handle);

// Compiles a model for a device: "cpu", "wgpu" (the best GPU) or "wgpu:N". A null pointer is the
// best GPU, or this processor if there is none. Weights that a pack or an ONNX file has are set.
// The session outlives its model. Several sessions may run at once, on different threads.
//
// # Safety
// `model` is a model, `device` null or a string, and `out` valid for a write.
enum tile_status tile_session_create(const struct tile_model *model,
                                     const char *device,
                                     struct tile_session **out);

// Compiles a model for the device of another session, such as one for another batch size, and
// takes the weights that have a value there. The sessions share the memory of a weight until it is
// set again, which changes it only in that session. The other session may be freed first.
//
// # Safety
// `model` is a model, `other` a session, and `out` valid for a write.
enum tile_status tile_session_create_sharing(const struct tile_model *model,
                                             const struct tile_session *other,
                                             struct tile_session **out);

// Reads weights from a file: .safetensors, .npz or PyTorch's .pt.
//
// # Safety
// `handle` is a session, and `path` a string.
enum tile_status tile_session_load_weights(struct tile_session *handle, const char *path);

// Initialises the weights without a value. The same seed gives the same values on every device.
// It is an error for a pack, which has no initial values.
//
// # Safety
// `handle` is a session.
enum tile_status tile_session_initialise(struct tile_session *handle, uint64_t seed);

// Sets an input, or a weight by its path, for all later runs. `data` has the elements in row-major
// order; it is copied, and needs no alignment.
//
// # Safety
// `handle` is a session, `name` a string, `shape` points to `rank` sizes, and `data` to the
// elements.
enum tile_status tile_session_set_input(struct tile_session *handle,
                                        const char *name,
                                        tile_dtype dtype,
                                        const size_t *shape,
                                        size_t rank,
                                        const void *data);

// Lets all later runs read an input from memory of the app, without a copy on the cpu device if
// `data` is aligned to its elements. The input is read in tile_session_run alone. Until it is set
// or borrowed again, or the session is freed, `data` must stay valid; its elements may change
// between runs.
//
// # Safety
// `handle` is a session, `name` a string, `shape` points to `rank` sizes, and `data` to the
// elements, which stay valid as said above.
enum tile_status tile_session_borrow_input(struct tile_session *handle,
                                           const char *name,
                                           tile_dtype dtype,
                                           const size_t *shape,
                                           size_t rank,
                                           const void *data);

// Lets all later runs write an output to memory of the app, without a copy on the cpu device if
// `data` is aligned to its elements. `bytes` is the size of the memory, which must be that of the
// output. The memory must stay valid until another call of this function for the output, or until
// the session is freed. It must not overlap that of another output or of a borrowed input. With a
// null pointer, later runs write the output to memory of the session again.
//
// # Safety
// `handle` is a session, `name` a string, and `data` is null or points to `bytes` bytes, which
// nobody else uses during a run.
enum tile_status tile_session_set_output(struct tile_session *handle,
                                         const char *name,
                                         void *data,
                                         size_t bytes);

// Runs the program, and waits for the results. Every input must have been set.
//
// # Safety
// `handle` is a session.
enum tile_status tile_session_run(struct tile_session *handle);

// Returns an output of the last run, in memory that is not the caller's to free. The shape and the
// data are valid until the next call that changes the session: a run, or the setting of an input
// or weight. A null pointer for any result is allowed.
//
// # Safety
// `handle` is a session, `name` a string, and the other pointers are null or valid for a write.
enum tile_status tile_session_output(struct tile_session *handle,
                                     const char *name,
                                     tile_dtype *dtype,
                                     const size_t **shape,
                                     size_t *rank,
                                     const void **data);

// Frees a session. A null pointer is allowed.
//
// # Safety
// `handle` is null or a session, which is not used afterwards.
void tile_session_free(struct tile_session *handle);

// Returns the numbers of inputs, outputs and weights. A null pointer for any of them is allowed.
//
// # Safety
// `handle` is a session, and the other pointers are null or valid for a write.
enum tile_status tile_session_counts(struct tile_session *handle,
                                     size_t *inputs,
                                     size_t *outputs,
                                     size_t *weights);

// Describes input number `number`, counted from 0 in the order of the program's header. The name
// and the shape are valid until the session is freed. A null pointer for any result is allowed.
//
// # Safety
// `handle` is a session, and the other pointers are null or valid for a write.
enum tile_status tile_session_input_info(struct tile_session *handle,
                                         size_t number,
                                         const char **name,
                                         tile_dtype *dtype,
                                         const size_t **shape,
                                         size_t *rank);

// Describes output number `number`: see tile_session_input_info.
//
// # Safety
// `handle` is a session, and the other pointers are null or valid for a write.
enum tile_status tile_session_output_info(struct tile_session *handle,
                                          size_t number,
                                          const char **name,
                                          tile_dtype *dtype,
                                          const size_t **shape,
                                          size_t *rank);

// Describes weight number `number`: see tile_session_input_info. The name is the path, such as
// `encoder.dense.Kernel`, by which tile_session_set_input sets the weight.
//
// # Safety
// `handle` is a session, and the other pointers are null or valid for a write.
enum tile_status tile_session_weight_info(struct tile_session *handle,
                                          size_t number,
                                          const char **name,
                                          tile_dtype *dtype,
                                          const size_t **shape,
                                          size_t *rank);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TILE_H */
