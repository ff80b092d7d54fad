#include "empty_calls.hpp"

#include "case_families.hpp"
#include "prepared_call.hpp"

#include <hearth/runtime/base/philox.hpp>
#include <hearth/streams/shape_rules.hpp>
#include <hearth/streams/trace/record_rules.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

namespace hearth::conformance {
namespace {

constexpr std::int64_t kMostElements = 2000;  // of an operand of a call in use
constexpr std::size_t kMostSubsets = 4096;    // of its sizes
constexpr DtypeMask kTypes = dtype_bit(DType::f32) | dtype_bit(DType::f16) | dtype_bit(DType::i64) |
                             dtype_bit(DType::boolean);

std::vector<Shape*> shapes_of(CallSpec& call) {
  std::vector<Shape*> shapes;
  for (InputSpec& input : call.inputs) {
    shapes.push_back(&input.shape);
  }
  for (OutputSpec& output : call.outputs) {
    shapes.push_back(&output.shape);
  }
  return shapes;
}

bool is_small(CallSpec call) {
  return std::ranges::all_of(
      shapes_of(call), [](const Shape* shape) { return shape->element_count() <= kMostElements; });
}

bool has_empty(CallSpec call) {
  return std::ranges::any_of(shapes_of(call),
                             [](const Shape* shape) { return shape->element_count() == 0; });
}

std::string key_of(CallSpec call) {
  std::string key(reinterpret_cast<const char*>(call.attributes.data()), call.attributes.size());
  key += std::to_string(call.flags);
  for (const Shape* shape : shapes_of(call)) {
    key += shape->to_string();
  }
  return key;
}

// The empty calls that keep the rules of their kind, each once.
class Collection {
 public:
  explicit Collection(OpKind kind) : case_(op_case(kind)) {
    source_ = std::exchange(case_.calls, {});
    for (const DType dtype : case_.dtypes()) {
      if ((kTypes & dtype_bit(dtype)) != 0) {
        dtype_ = dtype;
        break;
      }
    }
  }

  [[nodiscard]] const std::vector<CallSpec>& source() const { return source_; }

  /// Adds a call with the counts, attributes and flags of a prepared one.
  void add(CallSpec call, const PreparedCall& like) {
    call.dtypes &= kTypes;
    if (has_empty(call) && is_small(call) && keeps_rules(call, like.call().op) &&
        keys_.insert(key_of(call)).second) {
      case_.calls.push_back(std::move(call));
    }
  }
  void add(const CallSpec& call) { add(call, prepared(call)); }
  [[nodiscard]] PreparedCall prepared(const CallSpec& call) const {
    return {case_.kind, call, dtype_};
  }
  OpCase take() { return std::move(case_); }

 private:
  [[nodiscard]] bool keeps_rules(const CallSpec& call, const OpView& op) const {
    std::vector<TensorSpec> inputs;
    std::vector<TensorSpec> outputs;
    for (const InputSpec& input : call.inputs) {
      inputs.push_back({input.dtype.value_or(dtype_), input.shape});
    }
    for (const OutputSpec& output : call.outputs) {
      outputs.push_back({output.dtype.value_or(dtype_), output.shape});
    }
    return rules::check_record(op, inputs, outputs).has_value();
  }

  OpCase case_;
  std::vector<CallSpec> source_;
  DType dtype_ = DType::f32;
  std::set<std::string> keys_;
};

// Sets each group of equal sizes in the call to 0 together, and each single size by itself.
void add_emptied(Collection& all, const CallSpec& call) {
  CallSpec original = call;
  std::vector<std::int64_t> sizes;
  std::size_t place_count = 0;
  for (const Shape* shape : shapes_of(original)) {
    place_count += static_cast<std::size_t>(shape->rank());
    sizes.insert(sizes.end(), shape->dims().begin(), shape->dims().end());
  }
  std::ranges::sort(sizes);
  // clang 14 cannot parse what std::ranges::unique returns.
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  const PreparedCall prepared = all.prepared(original);
  const auto add = [&](const auto& is_emptied) {
    CallSpec emptied = original;
    std::size_t place = 0;
    for (Shape* shape : shapes_of(emptied)) {
      for (int axis = 0; axis < shape->rank(); ++axis, ++place) {
        if (is_emptied(place, (*shape)[axis])) {
          shape->set(axis, 0);
        }
      }
    }
    all.add(std::move(emptied), prepared);
  };
  for (std::size_t set = 1; set < std::size_t{1} << std::min<std::size_t>(sizes.size(), 8); ++set) {
    add([&](std::size_t, std::int64_t size) {
      const auto found = std::ranges::find(sizes, size) - sizes.begin();
      return (set >> found & 1U) != 0;
    });
  }
  const bool is_every = place_count < 12;
  const std::size_t count = is_every ? std::size_t{1} << place_count : kMostSubsets;
  for (std::size_t i = 1; i < count; ++i) {
    const philox::Block random = philox::block(17, i);
    const std::size_t set = is_every ? i : random[0] & random[1];
    add([&](std::size_t place, std::int64_t) { return (set >> place & 1U) != 0; });
  }
}

// Sizes of a small convolution or pool, each of which may be 0.
struct Windows {
  std::int64_t batch;
  std::int64_t channels;
  std::int64_t results;
  std::int64_t height;
  std::int64_t width;
  std::int64_t kernel;
  std::int64_t padding;
};

std::vector<Windows> windows() {
  std::vector<Windows> all;
  for (std::size_t set = 0; set < 1U << 7U; ++set) {
    const auto size = [set](unsigned bit) { return (set >> bit & 1U) != 0 ? 2 : 0; };
    all.push_back({.batch = size(0),
                   .channels = size(1),
                   .results = size(2),
                   .height = size(3),
                   .width = size(4),
                   .kernel = 1 + size(5) / 2,
                   .padding = size(6) / 2});
  }
  return all;
}

void add_convolutions(Collection& all, OpKind kind) {
  for (const Windows& sizes : windows()) {
    const ConvAttributes conv{.padding = {sizes.padding, sizes.padding}};
    const Shape x{sizes.batch, sizes.channels, sizes.height, sizes.width};
    const Shape w{sizes.results, sizes.channels, sizes.kernel, sizes.kernel};
    const Result<TensorSpec> y = rules::conv2d({DType::f32, x}, {DType::f32, w}, nullptr, conv);
    if (!y.has_value()) {
      continue;
    }
    CallSpec call{
        .inputs = {}, .outputs = {}, .attributes = bytes_of(conv), .length = 32, .term = 4};
    const Shape& result = y.value().shape;
    const bool is_input = kind == OpKind::conv2d_backward_input;
    const bool is_weight = kind == OpKind::conv2d_backward_weight;
    call.inputs = {{.shape = is_input ? result : x}, {.shape = is_weight ? result : w}};
    call.outputs = {{.shape = is_input ? x : is_weight ? w : result}};
    all.add(call);
    if (kind == OpKind::conv2d) {
      call.inputs.push_back({.shape = {sizes.results}});
      all.add(call);
    }
  }
}

void add_pools(Collection& all, OpKind kind) {
  const bool is_max = kind == OpKind::max_pool2d || kind == OpKind::max_pool2d_backward;
  const bool is_forward = kind == OpKind::max_pool2d || kind == OpKind::avg_pool2d;
  const OpKind forward = is_max ? OpKind::max_pool2d : OpKind::avg_pool2d;
  for (const Windows& sizes : windows()) {
    const PoolAttributes pool{.kernel = {sizes.kernel, sizes.kernel},
                              .padding = {sizes.padding, sizes.padding},
                              .count_include_pad = sizes.results / 2};
    const Shape x{sizes.batch, sizes.channels, sizes.height, sizes.width};
    const Result<TensorSpec> y = rules::pool2d(forward, {DType::f32, x}, pool);
    if (!y.has_value()) {
      continue;
    }
    const Shape& result = y.value().shape;
    CallSpec call{
        .inputs = {}, .outputs = {}, .attributes = bytes_of(pool), .length = 32, .term = 4};
    call.inputs = {{.shape = is_forward ? x : result}};
    call.outputs = {{.shape = is_forward ? result : x}};
    all.add(call);
    if (is_max && is_forward) {
      call.outputs.push_back({.shape = result, .dtype = DType::i32});
      all.add(call);
    } else if (is_max) {
      call.inputs.push_back({.shape = result,
                             .values = Values::places,
                             .bound = sizes.height * sizes.width,
                             .dtype = DType::i32});
      all.add(call);
    }
  }
}

}  // namespace

OpCase empty_case(OpKind kind) {
  Collection all(kind);
  for (const CallSpec& call : all.source()) {
    if (is_small(call)) {
      add_emptied(all, call);
    }
  }
  if (kind == OpKind::conv2d || kind == OpKind::conv2d_backward_input ||
      kind == OpKind::conv2d_backward_weight) {
    add_convolutions(all, kind);
  }
  if (op_info(kind).op_class == OpClass::pooling) {
    add_pools(all, kind);
  }
  return all.take();
}

}  // namespace hearth::conformance
