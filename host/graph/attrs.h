// Typed attributes of ops: plain structs that list their fields once.
//
//   struct SoftmaxAttrs : AttrsOf<SoftmaxAttrs> {
//     int64_t axis = -1;
//     void fields(AttrVisitor& visit) override { visit("axis", axis); }
//   };
//
// Printer, parser, equality and hashing all come from fields(). A field at its default is not printed: that
// of a new struct, or, of a list whose length other fields give, what fields() says:
//
//   visit.filled("strides", strides, kernel.size(), 1);  // ones, as many as the kernel has extents
//
// Dimensions are sizes, which are not negative, unless fields() says so, for a kernel takes its symbols for
// >= 0 (host/driver/kernel_work.h):
//
//   visit.signed_numbers("start", start);
//
// What an op means, and how it was chosen to be computed, stand apart: the choices are one value of the
// struct, visited as choices, which the text form has behind the arguments:
//
//   visit.choices([&] { visit("block", form.block); });  // op(%x, axis=1) by (block=8)
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/graph/type.h"

namespace gantry {

/// Called once a field, in declaration order. Readers look at the value, writers assign it.
class AttrVisitor {
 public:
  virtual ~AttrVisitor() = default;
  virtual void operator()(std::string_view name, int64_t& value) = 0;
  virtual void operator()(std::string_view name, double& value) = 0;
  virtual void operator()(std::string_view name, bool& value) = 0;
  virtual void operator()(std::string_view name, std::string& value) = 0;
  virtual void operator()(std::string_view name, DType& value) = 0;
  virtual void operator()(std::string_view name, Dim& value) = 0;
  virtual void operator()(std::string_view name, std::vector<int64_t>& value) = 0;
  virtual void operator()(std::string_view name, std::vector<double>& value) = 0;
  virtual void operator()(std::string_view name, Shape& value) = 0;

  /// As visit(name, value) of numbers that may be negative when the program runs, which sizes are not.
  virtual void signed_numbers(std::string_view name, Dim& value) { (*this)(name, value); }
  virtual void signed_numbers(std::string_view name, Shape& value) { (*this)(name, value); }

  /// As visit(name, value) of a list that is `count` times `fill` unless given; fields that say how many that
  /// is stand before it.
  template <typename List>
  void filled(std::string_view name, List& value, size_t count, typename List::value_type fill) {
    if (!becomes_usual(name, value, List(count, fill))) (*this)(name, value);
  }
  /// Likewise as signed_numbers(name, value).
  void filled_signed_numbers(std::string_view name, Shape& value, size_t count, const Dim& fill) {
    if (!becomes_usual(name, value, Shape(count, fill))) signed_numbers(name, value);
  }

  /// As visit(name, value) of a field that only its op's user can know: it is always printed.
  template <typename T>
  void always(std::string_view name, T& value) {
    if (!takes_usual(name, false)) (*this)(name, value);
  }
  template <typename Enum>
  void always(std::string_view name, Enum& value, std::initializer_list<std::string_view> names) {
    if (!takes_usual(name, false)) enumeration(name, value, names);
  }

  /// Fields that `visit_them` visits say how the op is computed, not what it means.
  template <typename Fields>
  void choices(const Fields& visit_them) {
    const bool around = std::exchange(in_choices_, true);
    visit_them();
    in_choices_ = around;
  }

  /// Enumerations travel as their printed names: `visit.enumeration("kind", kind, {"sum", "mean"})`; the
  /// enumerators count from 0 in that order. A name that is not listed is a user error.
  template <typename Enum>
  void enumeration(std::string_view name, Enum& value, std::initializer_list<std::string_view> names) {
    enumeration(name, value, std::span(names.begin(), names.size()));
  }
  template <typename Enum>
  void enumeration(std::string_view name, Enum& value, std::span<const std::string_view> names) {
    auto index = static_cast<int64_t>(value);
    enumeration_index(name, index, names);
    value = static_cast<Enum>(index);
  }

 protected:
  /// Asked of a list of filled(), which may be as usual already: whether it is to be, and not visited. Of a
  /// field of always(), which is never as usual: whether it stays as it is.
  virtual bool takes_usual(std::string_view, bool) { return false; }
  virtual void enumeration_index(std::string_view name, int64_t& index,
                                 std::span<const std::string_view> names) = 0;
  /// Whether the field that is visited is one of choices().
  bool in_choices() const { return in_choices_; }

 private:
  template <typename List>
  bool becomes_usual(std::string_view name, List& value, List usual) {
    if (!takes_usual(name, value == usual)) return false;
    value = std::move(usual);
    return true;
  }

  bool in_choices_ = false;
};

/// A visitor of some kinds of fields: those that a derived class does not look at pass by.
class PartialAttrVisitor : public AttrVisitor {
 public:
  void operator()(std::string_view, int64_t&) override {}
  void operator()(std::string_view, double&) override {}
  void operator()(std::string_view, bool&) override {}
  void operator()(std::string_view, std::string&) override {}
  void operator()(std::string_view, DType&) override {}
  void operator()(std::string_view, Dim&) override {}
  void operator()(std::string_view, std::vector<int64_t>&) override {}
  void operator()(std::string_view, std::vector<double>&) override {}
  void operator()(std::string_view, Shape&) override {}

 protected:
  void enumeration_index(std::string_view, int64_t&, std::span<const std::string_view>) override {}
};

/// Base of all attribute structs. Immutable once attached to a node (nodes share them).
struct Attrs {
  virtual ~Attrs() = default;
  virtual void fields(AttrVisitor& visit) = 0;
  virtual std::shared_ptr<Attrs> clone() const = 0;
};

template <typename Derived>
struct AttrsOf : Attrs {
  std::shared_ptr<Attrs> clone() const override {
    return std::make_shared<Derived>(static_cast<const Derived&>(*this));
  }
};

/// Attributes of an op that has none.
struct NoAttrs : AttrsOf<NoAttrs> {
  void fields(AttrVisitor&) override {}
};

/// "strides=[2, 2], dilations=[1, 1], groups=1": every field, choices among them; empty for none. Keys of
/// records and of kernels are made of it.
std::string to_string(const Attrs& attrs);
struct AttrTexts {
  std::string meaning, choices;
};
/// "strides=[2, 2]": fields that are not as in `defaults`, which is of the same type, nor as usual.
AttrTexts texts(const Attrs& attrs, const Attrs& defaults);
/// Names of the fields, in order.
std::vector<std::string> attr_names(const Attrs& attrs);
bool equal(const Attrs& a, const Attrs& b);

}  // namespace gantry
