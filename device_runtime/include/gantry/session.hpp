// Sessions: inputs, runs, outputs. A part of gantry/runtime.hpp; C++17.
#ifndef GANTRY_SESSION_HPP
#define GANTRY_SESSION_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gantry/module.hpp"
#include "gantry/result.hpp"
#include "gantry/runtime.h"
#include "gantry/tensor.hpp"

namespace gantry {
namespace detail {

struct ReleaseSession {
  void operator()(GantrySession* session) const { gantry_session_release(session); }
};

/// The elements' type of what std::data() is defined for.
template <typename Elements>
using ElementOf =
    std::remove_cv_t<std::remove_pointer_t<decltype(std::data(std::declval<const Elements&>()))>>;

/// Whether a type has its elements inside of it: std::array and arrays.
template <typename T, typename = void>
inline constexpr bool holds_elements = std::is_array_v<T>;
template <typename T>
inline constexpr bool holds_elements<T, std::void_t<decltype(std::tuple_size<T>::value)>> = true;

/// Whether elements are still there after the call: they have a name, or belong to somebody else than the
/// argument.
template <typename Elements>
inline constexpr bool outlives_call = std::is_lvalue_reference_v<Elements> ||
                                      (std::is_trivially_copyable_v<std::remove_reference_t<Elements>> &&
                                       !holds_elements<std::remove_reference_t<Elements>>);

}  // namespace detail

/// How a session runs.
struct SessionOptions {
  int threads = 0;                 ///< 0: one a physical CPU allowed to this process
  std::vector<std::int32_t> cpus;  ///< thread i is pinned to cpus[i], 0 the caller's; no more; empty: chosen
  std::string device;              ///< "cpu" (also if empty), "cuda", "cuda:1", "cuda-emulated"
};

/// Workspace and threads that run a module. Move-only.
class Session {
 public:
  /// Fails where a device or CPU is not there (GANTRY_INVALID_ARGUMENT, GANTRY_INCOMPATIBLE) or memory is
  /// short.
  static Result<Session> try_create(const Module& module, const SessionOptions& options = {}) {
    GantrySessionOptions given{};
    given.struct_size = sizeof given;
    given.threads = options.threads;
    given.cpus = options.cpus.empty() ? nullptr : options.cpus.data();
    given.cpu_count = static_cast<std::int32_t>(options.cpus.size());
    given.device = options.device.empty() ? nullptr : options.device.c_str();
    GantrySession* session = nullptr;
    const GantryStatus status = gantry_session_create(module.get(), &given, &session);
    if (status != GANTRY_OK) return detail::last_failure(status);
    return Session(module.module_, session);
  }

  Session(Session&&) noexcept = default;
  Session& operator=(Session&&) noexcept = default;

  /// Copies an input: dense or strided, in the CPU's memory, of the model's element type and shape; else it
  /// fails.
  Result<void> try_set_input(const Which& which, const DLTensor& tensor) { return give(which, tensor, 0); }
  /// As above, of elements in row-major order: a std::vector, std::array, std::span or array of them. Fails
  /// also where there are more or fewer than the shape has.
  template <typename Elements, typename = detail::ElementOf<Elements>>
  Result<void> try_set_input(const Which& which, const Elements& elements, const Shape& shape) {
    return give(which, elements, &shape, 0);
  }
  /// As above, of the model's shape; fails where that has dimensions that it leaves open.
  template <typename Elements, typename = detail::ElementOf<Elements>>
  Result<void> try_set_input(const Which& which, const Elements& elements) {
    return give(which, elements, nullptr, 0);
  }

  /// As try_set_input without a copy: every following run reads the memory, which must stay until the input
  /// is set again or the session ends. What is strided or does not start at a multiple of 64 bytes is copied
  /// at every run.
  Result<void> try_borrow_input(const Which& which, const DLTensor& tensor) { return give(which, tensor, 1); }
  /// As above, of elements in row-major order, of a shape given or the model's.
  template <typename Elements, typename = detail::ElementOf<Elements>>
  Result<void> try_borrow_input(const Which& which, Elements&& elements, const Shape& shape) {
    static_assert(detail::outlives_call<Elements>, "the elements must outlive the call");
    return give(which, elements, &shape, 1);
  }
  template <typename Elements, typename = detail::ElementOf<Elements>>
  Result<void> try_borrow_input(const Which& which, Elements&& elements) {
    static_assert(detail::outlives_call<Elements>, "the elements must outlive the call");
    return give(which, elements, nullptr, 1);
  }
  /// As try_borrow_input of a tensor that the session keeps as long as it reads it.
  Result<void> try_keep_input(const Which& which, Tensor tensor) {
    if (!tensor) return detail::invalid("an input was given as a tensor that was given away");
    const auto index = detail::find(module_.get(), detail::kInputs, which);
    if (!index) return index.error();
    const DLTensor& elements = tensor.dlpack();
    return give(*index, elements, 1, std::move(tensor));
  }

  /// Runs once. Fails where an input has not been set (GANTRY_INVALID_ARGUMENT) or a kernel fails.
  Result<void> try_run() { return detail::checked(gantry_run(get())); }

  /// An output of the last run, valid until the next run, an input of another shape, or the session's end.
  /// Fails where its elements are no T, or nothing has run.
  template <typename T>
  Result<TensorView<const T>> try_output(const Which& which) const {
    const auto index = detail::find(module_.get(), detail::kOutputs, which);
    if (!index) return index.error();
    DLTensor tensor;
    const GantryStatus status = gantry_get_output(get(), *index, &tensor);
    if (status != GANTRY_OK) return detail::last_failure(status);
    if (!is_same_type(tensor.dtype, element_type<T>)) {
      return detail::view_as<const T>(tensor, detail::name_of(module_.get(), detail::kOutputs, *index));
    }
    return TensorView<const T>(static_cast<const T*>(tensor.data), detail::shape_of(tensor));
  }
  /// As try_output of whatever type, as DLPack has it.
  Result<DLTensor> try_output_dlpack(const Which& which) const {
    const auto index = detail::find(module_.get(), detail::kOutputs, which);
    if (!index) return index.error();
    DLTensor tensor;
    const GantryStatus status = gantry_get_output(get(), *index, &tensor);
    if (status != GANTRY_OK) return detail::last_failure(status);
    return tensor;
  }
  /// An output as a tensor that outlives the session; Tensor::release() gives it to who speaks DLPack.
  Result<Tensor> try_take_output(const Which& which) const {
    const auto index = detail::find(module_.get(), detail::kOutputs, which);
    if (!index) return index.error();
    DLManagedTensor* tensor = nullptr;
    const GantryStatus status = gantry_take_output(get(), *index, &tensor);
    if (status != GANTRY_OK) return detail::last_failure(status);
    return Tensor(tensor);
  }

  /// Runs once with a clock around every step; texts live as long as the session. A plan of more than 4096
  /// steps runs once more: how many there are is known then.
  Result<std::vector<GantryStepTime>> try_time_steps() {
    std::vector<GantryStepTime> steps(4096);
    for (;;) {
      const auto room = static_cast<std::int32_t>(steps.size());
      std::int32_t count = 0;
      const GantryStatus status =
          gantry_time_steps(get(), steps.data(), sizeof(GantryStepTime), room, &count);
      if (status != GANTRY_OK) return detail::last_failure(status);
      steps.resize(static_cast<std::size_t>(count));
      if (count <= room) return steps;
    }
  }
  /// What the session holds, for the shapes that are bound now.
  Result<GantrySessionMemory> try_memory() const {
    GantrySessionMemory memory{};
    memory.struct_size = sizeof memory;
    const GantryStatus status = gantry_session_memory(get(), &memory);
    if (status != GANTRY_OK) return detail::last_failure(status);
    return memory;
  }

#if GANTRY_HAS_EXCEPTIONS
  /// As try_create; throws Error.
  static Session create(const Module& module, const SessionOptions& options = {}) {
    return try_create(module, options).value();
  }
  /// As try_set_input; throws Error.
  template <typename Input>
  void set_input(const Which& which, const Input& input) {
    try_set_input(which, input).value();
  }
  /// As try_set_input; throws Error.
  template <typename Elements>
  void set_input(const Which& which, const Elements& elements, const Shape& shape) {
    try_set_input(which, elements, shape).value();
  }
  /// As try_borrow_input; throws Error.
  template <typename Input>
  void borrow_input(const Which& which, Input&& input) {
    try_borrow_input(which, std::forward<Input>(input)).value();
  }
  /// As try_borrow_input; throws Error.
  template <typename Elements>
  void borrow_input(const Which& which, Elements&& elements, const Shape& shape) {
    try_borrow_input(which, std::forward<Elements>(elements), shape).value();
  }
  /// As try_keep_input; throws Error.
  void keep_input(const Which& which, Tensor tensor) {
    try_keep_input(which, std::move(tensor)).value();
  }
  /// As try_run; throws Error.
  void run() {
    try_run().value();
  }
  /// As try_output; throws Error.
  template <typename T>
  TensorView<const T> output(const Which& which) const {
    return try_output<T>(which).value();
  }
  /// As try_output_dlpack; throws Error.
  DLTensor output_dlpack(const Which& which) const {
    return try_output_dlpack(which).value();
  }
  /// As try_take_output; throws Error.
  Tensor take_output(const Which& which) const {
    return try_take_output(which).value();
  }
  /// As try_time_steps; throws Error.
  std::vector<GantryStepTime> time_steps() {
    return try_time_steps().value();
  }
  /// As try_memory; throws Error.
  GantrySessionMemory memory() const {
    return try_memory().value();
  }
#endif

  /// For the C interface; stays this object's.
  GantrySession* get() const noexcept {
    return session_.get();
  }

 private:
  Session(std::shared_ptr<GantryModule> module, GantrySession* session)
      : module_(std::move(module)), session_(session) {}

  Result<void> give(const Which& which, const DLTensor& tensor, int borrow) {
    const auto index = detail::find(module_.get(), detail::kInputs, which);
    if (!index) return index.error();
    return give(*index, tensor, borrow, Tensor(nullptr));
  }
  /// Gives elements of that shape, or of the model's if it is null.
  template <typename Elements>
  Result<void> give(const Which& which, const Elements& elements, const Shape* shape, int borrow) {
    const auto index = detail::find(module_.get(), detail::kInputs, which);
    if (!index) return index.error();
    Shape of_model;
    if (shape == nullptr) {
      const auto description = detail::describe(module_.get(), detail::kInputs, *index);
      if (!description) return description.error();
      of_model = Shape(description->shape, static_cast<std::size_t>(description->rank));
      shape = &of_model;
    }
    if (shape->count() < 0 || static_cast<std::uint64_t>(shape->count()) != std::size(elements)) {
      return wrong_count(*index, std::size(elements), *shape);
    }
    return give(*index,
                detail::make_tensor(std::data(elements), element_type<detail::ElementOf<Elements>>, *shape),
                borrow, Tensor(nullptr));
  }
  /// Gives the tensor, which belongs to `owner` or to somebody else, and lets go what the input was before.
  Result<void> give(std::int32_t index, const DLTensor& tensor, int borrow, Tensor owner) {
    const GantryStatus status = gantry_set_input(get(), index, &tensor, borrow);
    if (status != GANTRY_OK) return detail::last_failure(status);
    const auto at = static_cast<std::size_t>(index);
    if (owner && kept_.size() <= at) kept_.resize(at + 1);
    if (at < kept_.size()) kept_[at] = std::move(owner);
    return {};
  }
  Failure wrong_count(std::int32_t index, std::size_t given, const Shape& shape) const {
    const std::string name = detail::name_of(module_.get(), detail::kInputs, index);
    if (!shape.is_known()) {
      return detail::invalid(name + " has the shape " + to_string(shape) + ": give one, where -1 stands");
    }
    return detail::invalid(name + ": " + std::to_string(given) + " elements were given for the shape " +
                           to_string(shape));
  }

  std::shared_ptr<GantryModule> module_;
  std::vector<Tensor> kept_;  ///< of inputs that the session reads in place, by number; outlive the session
  std::unique_ptr<GantrySession, detail::ReleaseSession> session_;
};

}  // namespace gantry

#endif
