// einsum: lowers an equation to views, sums, and one product for each pair of operands.
#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace hearth {
namespace {

// A letter, or an axis under "...": kUnnamed plus its index from the right.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label kUnnamed = 256;
constexpr OpKind kEinsumKind = OpKind::matmul;

bool has(const Labels& labels, Label label) {
  return std::ranges::find(labels, label) != labels.end();
}

// A value with one label for each axis, all distinct.
struct Term {
  Tensor value;
  Labels labels;

  [[nodiscard]] int axis_of(Label label) const {
    return static_cast<int>(std::ranges::find(labels, label) - labels.begin());
  }
  [[nodiscard]] std::int64_t size_of(Label label) const { return value.shape()[axis_of(label)]; }
};

class Einsum final {
 public:
  Einsum(std::string_view equation, std::span<const Tensor> tensors, SourceLoc loc)
      : equation_(equation), loc_(loc) {
    for (const Tensor& tensor : tensors) {
      inputs_.emplace_back(tensor, loc);
      if (detail::operand(kEinsumKind, inputs_.back()).dtype == DType::i8) {
        // The result type would depend on the equation: i32 if a letter is summed, else i8.
        detail::throw_op_error(ErrorCode::dtype_mismatch,
                               kEinsumKind,
                               "does not take i8: write it as matmul, or cast first",
                               loc_,
                               inputs_);
      }
      require_type_of_first(inputs_.back());
    }
    if (inputs_.size() > 1 && inputs_.front().tensor().dtype() == DType::boolean) {
      fail(ErrorCode::dtype_mismatch,
           fmt::format("takes no products of bools, got {}: logical_and is one, or cast first",
                       operands_text()));
    }
    parse();
  }

  [[nodiscard]] Tensor run() {
    Term result = summed(term_of(0), needed_behind(0));
    for (std::size_t i = 1; i < inputs_.size(); ++i) {
      const Labels later = needed_behind(i);
      const Term both = product(result, term_of(i), later);
      result = summed(both, later);
    }
    return in_order(result, output_);
  }

 private:
  // An elementwise product accepts two types, a matmul does not.
  void require_type_of_first(const Arg& input) const {
    const TensorImpl& first = *detail::TensorAccess::impl(inputs_.front().tensor());
    const TensorImpl& other = *detail::TensorAccess::impl(input.tensor());
    if (other.dtype != first.dtype) {
      fail(ErrorCode::dtype_mismatch,
           fmt::format("element types differ: {}, {}",
                       describe(first.dtype, first.layout->shape),
                       describe(other.dtype, other.layout->shape)));
    }
  }

  // "f32[2, 3], f32[3]"
  [[nodiscard]] std::string operands_text() const {
    std::string text;
    for (const Arg& input : inputs_) {
      const TensorImpl& impl = *detail::TensorAccess::impl(input.tensor());
      text += (text.empty() ? "" : ", ") + describe(impl.dtype, impl.layout->shape);
    }
    return text;
  }

  // Checked here, since matmul's error would name other shapes.
  void require_floats(const Term& term, const Labels& inner) const {
    if (is_float(term.value.dtype())) {
      return;
    }
    std::string letters;
    for (const Label label : inner) {
      const std::string letter =
          label < kUnnamed ? std::string(1, static_cast<char>(label)) : "...";
      letters += (letters.empty() ? "" : ", ") + letter;
    }
    fail(ErrorCode::dtype_mismatch,
         fmt::format("products that are summed over {} take floats, got {}: cast first",
                     letters,
                     operands_text()));
  }

  [[noreturn]] void fail(ErrorCode code, std::string_view what) const {
    detail::throw_op_error(
        code, kEinsumKind, fmt::format("\"{}\": {}", equation_, what), loc_, inputs_);
  }

  // ---- the equation ----

  void parse() {
    std::string text;
    std::ranges::copy_if(
        equation_, std::back_inserter(text), [](char letter) { return letter != ' '; });
    const std::size_t arrow = text.find("->");
    std::string left = text.substr(0, arrow);
    left += ',';
    for (std::size_t begin = 0; begin < left.size();) {
      const std::size_t end = left.find(',', begin);
      if (sources_.size() < inputs_.size()) {
        const int rank = inputs_[sources_.size()].tensor().shape().rank();
        sources_.push_back(labels_of(left.substr(begin, end - begin), rank));
      } else {
        sources_.emplace_back();
      }
      begin = end + 1;
    }
    if (sources_.size() != inputs_.size()) {
      fail(ErrorCode::invalid_argument,
           fmt::format("names {} operands, got {}", sources_.size(), inputs_.size()));
    }
    record_sizes();
    if (arrow == std::string::npos) {
      output_ = letters_that_occur_once();
    } else {
      output_ = labels_of(text.substr(arrow + 2), -1);
      for (const Label label : output_) {
        if (std::ranges::count(output_, label) > 1 || !sizes_.contains(label)) {
          fail(ErrorCode::invalid_argument, "the result has a letter twice, or one that is new");
        }
      }
    }
  }

  // The labels of an operand of this rank; -1: of the result, which has all unnamed axes.
  [[nodiscard]] Labels labels_of(std::string_view text, int rank) {
    Labels labels;
    bool has_dots = false;
    const auto letters = static_cast<int>(text.size()) - (text.find('.') == text.npos ? 0 : 3);
    const int unnamed = rank < 0 ? unnamed_ : rank - letters;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char letter = text[i];
      if (letter == '.') {
        if (has_dots || text.substr(i, 3) != "...") {
          fail(ErrorCode::invalid_argument, "dots come as one group of three");
        }
        has_dots = true;
        i += 2;
        for (int place = unnamed; place > 0; --place) {
          labels.push_back(kUnnamed + place - 1);
        }
      } else if ((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')) {
        labels.push_back(letter);
      } else {
        fail(ErrorCode::invalid_argument, fmt::format("'{}' is no letter", letter));
      }
    }
    if (rank >= 0 && static_cast<int>(labels.size()) != rank) {
      fail(ErrorCode::shape_mismatch,
           fmt::format("\"{}\" does not name the axes of {}",
                       text,
                       inputs_[sources_.size()].tensor().shape().to_string()));
    }
    unnamed_ = std::max(unnamed_, has_dots ? unnamed : 0);
    return labels;
  }

  void record_sizes() {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const Shape shape = inputs_[i].tensor().shape();
      for (std::size_t axis = 0; axis < sources_[i].size(); ++axis) {
        const Label label = sources_[i][axis];
        const std::int64_t size = shape[static_cast<int>(axis)];
        const auto [known, is_new] = sizes_.emplace(label, size);
        const bool broadcasts = label >= kUnnamed && (size == 1 || known->second == 1);
        if (!is_new && known->second != size && !broadcasts) {
          fail(ErrorCode::shape_mismatch,
               fmt::format("{} has the sizes {} and {}",
                           label < kUnnamed ? std::string(1, static_cast<char>(label)) : "...",
                           known->second,
                           size));
        }
        if (broadcasts && known->second == 1) {
          known->second = size;
        }
      }
    }
  }

  [[nodiscard]] Labels letters_that_occur_once() const {
    Labels once;
    for (int place = unnamed_; place > 0; --place) {
      once.push_back(kUnnamed + place - 1);
    }
    for (const auto& [label, size] : sizes_) {
      std::ptrdiff_t count = 0;
      for (const Labels& labels : sources_) {
        count += std::ranges::count(labels, label);
      }
      if (label < kUnnamed && count == 1) {
        once.push_back(label);
      }
    }
    return once;
  }

  // ---- values ----

  // The labels that the result or a later operand has.
  [[nodiscard]] Labels needed_behind(std::size_t number) const {
    Labels labels = output_;
    for (std::size_t other = number + 1; other < sources_.size(); ++other) {
      labels.insert(labels.end(), sources_[other].begin(), sources_[other].end());
    }
    return labels;
  }

  // An operand without axes that only broadcast; a repeated label becomes its diagonal.
  [[nodiscard]] Term term_of(std::size_t number) const {
    Term term{inputs_[number].tensor(), sources_[number]};
    for (std::size_t i = 0; i < term.labels.size();) {
      const Label label = term.labels[i];
      if (label >= kUnnamed && term.value.shape()[static_cast<int>(i)] == 1 &&
          sizes_.at(label) != 1) {
        term.value = squeeze(Arg(std::move(term.value), loc_), static_cast<int>(i));
        term.labels.erase(term.labels.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
    for (std::size_t i = 0; i < term.labels.size();) {
      const auto later = term.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      const auto twin = std::find(later, term.labels.end(), term.labels[i]);
      if (twin != term.labels.end()) {
        const auto second = static_cast<std::size_t>(twin - term.labels.begin());
        term = diagonal(term, i, second);
      } else {
        ++i;
      }
    }
    return term;
  }

  // Joins the two axes into a last one: every (n + 1)st of n·n elements.
  [[nodiscard]] Term diagonal(const Term& term, std::size_t first, std::size_t second) const {
    const Label label = term.labels[first];
    std::vector<int> axes;
    Labels labels;
    Shape joined;
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      if (i != first && i != second) {
        axes.push_back(static_cast<int>(i));
        labels.push_back(term.labels[i]);
        joined.push_back(term.value.shape()[static_cast<int>(i)]);
      }
    }
    axes.push_back(static_cast<int>(first));
    axes.push_back(static_cast<int>(second));
    labels.push_back(label);
    const std::int64_t size = term.value.shape()[static_cast<int>(first)];
    joined.push_back(size * size);
    Tensor last = permute(Arg(term.value, loc_), axes);
    Tensor flat = reshape(Arg(std::move(last), loc_), joined.dims());
    return {slice(Arg(std::move(flat), loc_), -1, {.step = size + 1}), std::move(labels)};
  }

  // Sums over the axes that nothing needs later.
  [[nodiscard]] Term summed(const Term& term, const Labels& later) const {
    std::vector<int> axes;
    Labels labels;
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      if (has(later, term.labels[i])) {
        labels.push_back(term.labels[i]);
      } else {
        axes.push_back(static_cast<int>(i));
      }
    }
    if (axes.empty()) {
      return term;
    }
    return {sum(Arg(term.value, loc_), axes), std::move(labels)};
  }

  [[nodiscard]] Tensor in_order(const Term& term, const Labels& order) const {
    std::vector<int> axes;
    Shape shape;  // of the result: includes axes that only broadcast
    for (const Label label : order) {
      if (has(term.labels, label)) {
        axes.push_back(term.axis_of(label));
        shape.push_back(term.size_of(label));
      } else {
        shape.push_back(sizes_.at(label));
      }
    }
    Tensor value = permute(Arg(term.value, loc_), axes);
    return reshape(Arg(std::move(value), loc_), shape.dims());
  }

  // The labels of a pair: common and needed later, only left, only right, common and summed.
  struct Split {
    Labels common, left, right, inner;
  };

  [[nodiscard]] Term product(const Term& first, const Term& second, const Labels& later) const {
    Labels beside_a = second.labels;
    beside_a.insert(beside_a.end(), later.begin(), later.end());
    Labels beside_b = first.labels;
    beside_b.insert(beside_b.end(), later.begin(), later.end());
    const Term a = summed(first, beside_a);
    const Term b = summed(second, beside_b);
    Split parts;
    for (const Label label : a.labels) {
      Labels& part =
          !has(b.labels, label) ? parts.left : (has(later, label) ? parts.common : parts.inner);
      part.push_back(label);
    }
    for (const Label label : b.labels) {
      if (!has(a.labels, label)) {
        parts.right.push_back(label);
      }
    }
    return parts.inner.empty() ? element_by_element(a, b, parts) : contracted(a, b, parts);
  }

  [[nodiscard]] Term element_by_element(const Term& a, const Term& b, const Split& parts) const {
    Labels labels = parts.common;
    labels.insert(labels.end(), parts.left.begin(), parts.left.end());
    labels.insert(labels.end(), parts.right.begin(), parts.right.end());
    const auto spread = [&](const Term& term) {
      std::vector<int> axes;
      Shape shape;
      for (const Label label : labels) {
        const bool is_there = has(term.labels, label);
        if (is_there) {
          axes.push_back(term.axis_of(label));
        }
        shape.push_back(is_there ? term.size_of(label) : 1, loc_);
      }
      Tensor value = permute(Arg(term.value, loc_), axes);
      return reshape(Arg(std::move(value), loc_), shape.dims());
    };
    return {mul(Arg(spread(a), loc_), Arg(spread(b), loc_)), std::move(labels)};
  }

  [[nodiscard]] Term contracted(const Term& a, const Term& b, const Split& parts) const {
    require_floats(a, parts.inner);
    const auto stack = [&](const Term& term, const std::array<const Labels*, 3>& order) {
      std::vector<int> axes;
      Shape shape;
      for (const Labels* const labels : order) {
        std::int64_t size = 1;
        for (const Label label : *labels) {
          axes.push_back(term.axis_of(label));
          size *= term.size_of(label);
        }
        shape.push_back(size);
      }
      Tensor value = permute(Arg(term.value, loc_), axes);
      return reshape(Arg(std::move(value), loc_), shape.dims());
    };
    const Tensor left = stack(a, {&parts.common, &parts.left, &parts.inner});
    const Tensor right = stack(b, {&parts.common, &parts.inner, &parts.right});
    Tensor value = matmul(Arg(left, loc_), Arg(right, loc_));
    Labels labels;
    Shape shape;
    const auto add = [&](const Labels& part, const Term& term) {
      for (const Label label : part) {
        labels.push_back(label);
        shape.push_back(term.size_of(label), loc_);
      }
    };
    add(parts.common, a);
    add(parts.left, a);
    add(parts.right, b);
    return {reshape(Arg(std::move(value), loc_), shape.dims()), std::move(labels)};
  }

  const std::string_view equation_;
  const SourceLoc loc_;
  std::vector<Arg> inputs_;
  std::vector<Labels> sources_;  // of each operand
  Labels output_;
  std::map<Label, std::int64_t> sizes_;
  int unnamed_ = 0;  // the largest number of axes that "..." stands for
};

}  // namespace

Tensor einsum(std::string_view equation, std::span<const Tensor> tensors, SourceLoc loc) {
  return detail::named_as("einsum", [&] { return Einsum(equation, tensors, loc).run(); });
}
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> tensors, SourceLoc loc) {
  return einsum(equation, std::span<const Tensor>(tensors.begin(), tensors.size()), loc);
}

}  // namespace hearth
