// Printing and parsing of dimensions.
#include <cctype>
#include <utility>
#include <vector>

#include "host/graph/dim_broadcast.h"
#include "host/graph/dim_node.h"
#include "host/support/error.h"

namespace gantry {
namespace {

/// Recursive descent over: sum := product (('+'|'-') product)*, product := unary ('*' unary)*.
class DimParser {
 public:
  explicit DimParser(std::string_view text) : text_(text) {}

  Dim parse() {
    Dim result = sum();
    skip_space();
    if (at_ < text_.size()) fail("unexpected text after it");
    return result;
  }

 private:
  static constexpr int kMaxDepth = 200;

  [[noreturn]] void fail(std::string_view what) {
    user_error("'{}' is not a dimension: {} (at character {})", text_, what, at_ + 1);
  }
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}'", c));
  }

  Dim sum() {
    if (++depth_ > kMaxDepth) fail("it is nested too deeply");
    std::vector<Dim> parts{product()};
    for (;;) {
      if (accept('+')) {
        parts.push_back(product());
      } else if (accept('-')) {
        parts.push_back(product() * Dim(-1));
      } else {
        break;
      }
    }
    --depth_;
    return sum_of(std::move(parts));
  }

  /// In pairs: one after the other a long sum would be copied for each of its terms.
  static Dim sum_of(std::vector<Dim> parts) {
    while (parts.size() > 1) {
      const size_t pairs = parts.size() / 2;
      for (size_t i = 0; i < pairs; ++i) parts[i] = parts[2 * i] + parts[2 * i + 1];
      if (parts.size() % 2 == 1) parts[pairs] = std::move(parts.back());
      parts.resize(pairs + parts.size() % 2);
    }
    return parts[0];
  }

  Dim product() {
    Dim result = unary();
    while (accept('*')) result = result * unary();
    return result;
  }

  Dim unary() {
    bool negative = false;
    while (accept('-')) negative = !negative;
    Dim result = primary(negative);
    return result;
  }

  Dim primary(bool negative) {
    skip_space();
    if (at_ >= text_.size()) fail("it ends too early");
    const char c = text_[at_];
    if (std::isdigit(static_cast<unsigned char>(c))) return integer(negative);
    Dim result;
    if (accept('(')) {
      result = sum();
      expect(')');
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
      result = name();
    } else {
      fail("expected a number, a name or '('");
    }
    return negative ? result * Dim(-1) : result;
  }

  // The sign takes part, so that the smallest int64 can be read.
  int64_t integer(bool negative) {
    int64_t value = 0;
    while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
      const int64_t digit = text_[at_++] - '0';
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, negative ? -digit : digit, &value)) {
        fail("the number does not fit into 64 bits");
      }
    }
    return value;
  }

  Dim name() {
    const size_t start = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_' || text_[at_] == '.')) {
      ++at_;
    }
    const std::string_view word = text_.substr(start, at_ - start);
    if (!accept('(')) return Dim::symbol(word);
    const Dim a = sum();
    expect(',');
    const Dim b = sum();
    expect(')');
    if (word == "floordiv") return floordiv(a, b);
    if (word == "mod") return mod(a, b);
    if (word == "max") return max(a, b);
    if (word == "min") return min(a, b);
    if (word == "broadcast") return broadcast(a, b);
    fail(fmt::format("there is no function '{}'", word));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::string Dim::str() const {
  if (node_->terms.empty()) return "0";
  std::string text;
  for (const DimTerm& term : node_->terms) {
    std::string product;
    for (const AtomPtr& atom : term.factors) product += (product.empty() ? "" : "*") + atom->text;
    std::string coefficient;
    if (term.factors.empty() || (term.coefficient != 1 && term.coefficient != -1)) {
      coefficient = std::to_string(term.coefficient);
      if (!product.empty()) coefficient += "*";
    } else if (term.coefficient == -1) {
      coefficient = "-";
    }
    if (!text.empty() && term.coefficient > 0) text += "+";
    text += coefficient + product;
  }
  return text;
}

std::string to_string(const DimRange& range) {
  if (range.high == DimRange().high) return fmt::format("{}..", range.low);
  return fmt::format("{}..{}", range.low, range.high);
}

Dim Dim::parse(std::string_view text) {
  return DimParser(text).parse();
}

}  // namespace gantry
