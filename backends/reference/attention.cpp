#include "elements.hpp"
#include "evaluators.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace hearth::reference {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Queries, keys, values and mask of a call; computes the scores.
class Attention {
 public:
  Attention(const KernelCall& call, std::size_t first, const TensorView* mask)
      : attributes_(call.op.attributes<AttentionAttributes>()),
        q(load_reals(call.inputs[first])),
        k(load_reals(call.inputs[first + 1])),
        v(load_reals(call.inputs[first + 2])),
        shape_(call.inputs[first].shape()) {
    const Shape& keys_shape = call.inputs[first + 1].shape();
    const Shape& values_shape = call.inputs[first + 2].shape();
    const int rank = shape_.rank();
    queries = shape_[rank - 2];
    width = shape_[rank - 1];
    keys = keys_shape[rank - 2];
    value_width = values_shape[rank - 1];
    for (int axis = 0; axis < rank - 2; ++axis) {
      heads *= shape_[axis];
      key_heads *= keys_shape[axis];
    }
    if (mask != nullptr) {
      mask_ = mask;
      is_bool_ = mask->dtype == DType::boolean;
      mask_values_ = load_reals(*mask);
    }
  }

  /// Maps a query head to its key and value head.
  [[nodiscard]] std::int64_t key_head(std::int64_t head) const {
    return head / (heads / key_heads);
  }
  /// Returns scale * q·k + mask, or minus infinity if the query does not see the key.
  [[nodiscard]] double score(std::int64_t head, std::int64_t query, std::int64_t key) const {
    if (attributes_.causal != 0 && key > query + keys - queries) {
      return kNever;
    }
    double sum = 0;
    for (std::int64_t c = 0; c < width; ++c) {
      sum += at(q, (head * queries + query) * width + c) *
             at(k, (key_head(head) * keys + key) * width + c);
    }
    sum *= attributes_.scale;
    if (mask_ == nullptr) {
      return sum;
    }
    const double value = at(mask_values_, mask_place(head, query, key));
    if (!is_bool_) {
      return sum + value;
    }
    if (value == 0) {
      return kNever;
    }
    return sum;
  }
  [[nodiscard]] double scale() const { return attributes_.scale; }

 private:
  // The mask broadcasts to the scores, aligned from the right.
  [[nodiscard]] std::int64_t mask_place(std::int64_t head,
                                        std::int64_t query,
                                        std::int64_t key) const {
    const Shape& own = mask_->shape();
    const int rank = shape_.rank();
    std::int64_t place = 0;
    std::int64_t step = 1;
    for (int axis = rank - 1; axis >= rank - own.rank(); --axis) {
      std::int64_t index = 0;
      if (axis == rank - 1) {
        index = key;
      } else if (axis == rank - 2) {
        index = query;
      } else {
        index = head % shape_[axis];
        head /= shape_[axis];
      }
      const std::int64_t size = own[axis - (rank - own.rank())];
      place += size == 1 ? 0 : index * step;
      step *= size;
    }
    return place;
  }

  AttentionAttributes attributes_;

 public:
  Reals q;
  Reals k;
  Reals v;
  std::int64_t heads = 1;  ///< Over all batches.
  std::int64_t key_heads = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t width = 0;
  std::int64_t value_width = 0;

 private:
  Shape shape_;
  const TensorView* mask_ = nullptr;
  bool is_bool_ = false;
  Reals mask_values_;
};

/// The weights of one query before the division by their sum.
struct Row {
  double top = kNever;
  double sum = 0;
  Reals weights;
};

Row weigh(const Attention& attention, std::int64_t row) {
  Row out;
  for (std::int64_t key = 0; key < attention.keys; ++key) {
    out.weights.push_back(attention.score(row / attention.queries, row % attention.queries, key));
    out.top = std::max(out.weights.back(), out.top);  // NaN makes the sum NaN
  }
  for (double& weight : out.weights) {
    weight = weight == kNever ? 0 : std::exp(weight - out.top);
    out.sum += weight;
  }
  return out;
}

const TensorView* mask_of(const KernelCall& call, std::size_t place) {
  return call.inputs.size() > place ? &call.inputs[place] : nullptr;
}

Status attend(const KernelCall& call) {
  const Attention attention(call, 0, mask_of(call, 3));
  Reals results;
  Reals statistics;
  for (std::int64_t row = 0; row < attention.heads * attention.queries; ++row) {
    const std::int64_t head = row / attention.queries;
    const Row own = weigh(attention, row);
    for (std::int64_t c = 0; c < attention.value_width; ++c) {
      double value = 0;
      for (std::int64_t key = 0; key < attention.keys; ++key) {
        const std::int64_t place = attention.key_head(head) * attention.keys + key;
        value += at(own.weights, key) * at(attention.v, place * attention.value_width + c);
      }
      results.push_back(own.sum == 0 ? 0 : value / own.sum);
    }
    statistics.push_back(own.top);
    statistics.push_back(own.sum == 0 ? 0 : 1 / own.sum);
  }
  store(call.outputs[0], results);
  if (call.outputs.size() > 1) {
    store(call.outputs[1], statistics);
  }
  return {};
}

// Recomputes the weights from the scores: the stored statistics are rounded.
Status attend_backward(const KernelCall& call) {
  const Attention attention(call, 1, mask_of(call, 6));
  const Reals grad = load_reals(call.inputs[0]);
  const Reals result = load_reals(call.inputs[4]);
  Reals of_queries(attention.q.size());
  Reals of_keys(attention.k.size());
  Reals of_values(attention.v.size());
  const std::int64_t width = attention.width;
  const std::int64_t value_width = attention.value_width;
  for (std::int64_t row = 0; row < attention.heads * attention.queries; ++row) {
    const std::int64_t head = row / attention.queries;
    const Row own = weigh(attention, row);
    double mean = 0;  // of the gradients of the weights
    for (std::int64_t c = 0; c < value_width; ++c) {
      mean += at(grad, row * value_width + c) * at(result, row * value_width + c);
    }
    for (std::int64_t key = 0; key < attention.keys; ++key) {
      if (at(own.weights, key) == 0) {
        continue;
      }
      const std::int64_t place = attention.key_head(head) * attention.keys + key;
      const double weight = at(own.weights, key) / own.sum;
      double of_weight = 0;
      for (std::int64_t c = 0; c < value_width; ++c) {
        of_weight += at(grad, row * value_width + c) * at(attention.v, place * value_width + c);
        at(of_values, place * value_width + c) += weight * at(grad, row * value_width + c);
      }
      const double of_product = weight * (of_weight - mean) * attention.scale();
      for (std::int64_t c = 0; c < width; ++c) {
        at(of_queries, row * width + c) += of_product * at(attention.k, place * width + c);
        at(of_keys, place * width + c) += of_product * at(attention.q, row * width + c);
      }
    }
  }
  store(call.outputs[0], of_queries);
  store(call.outputs[1], of_keys);
  store(call.outputs[2], of_values);
  return {};
}

}  // namespace

Status evaluate_attention(const KernelCall& call) {
  return call.op.kind() == OpKind::attention ? attend(call) : attend_backward(call);
}

}  // namespace hearth::reference
