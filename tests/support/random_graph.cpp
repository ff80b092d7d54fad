#include "random_graph.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <random>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/recompute.hpp>

#include "tests/support/random_graph_ops.hpp"

namespace hearth::testing {
namespace {

using Tensors = std::vector<Tensor>;

constexpr const char* kFile = "graph";
constexpr std::size_t kMostValues = 12;
constexpr std::size_t kMostKept = 40;

/// State that the graphs of a program share.
struct StoryWriter {
  std::uint32_t line = 0;
  GraphFigures* figures = nullptr;
  std::vector<std::string>* story = nullptr;

  [[nodiscard]] SourceLoc next() { return {kFile, ++line}; }
  void write(std::string_view name, const Tensor& x, const Tensor& made) const {
    if (figures != nullptr) {
      ++figures->ops;
    }
    if (story != nullptr) {
      story->push_back(fmt::format("{}: {} of {} makes {}",
                                   line,
                                   name,
                                   describe(x.dtype(), x.shape()),
                                   made.is_valid() ? describe(made.dtype(), made.shape()) : "-"));
    }
  }
};

/// The error's text without the number of the op in its stream, which differs in each run.
std::string text_of(const Error& error) {
  return fmt::format(
      "{} [{}, op {}, line {}]", error.text, name(error.code), error.op, error.location.line);
}

/// Replaces every NaN by one of them. `exponent`: the bits of an infinity.
template <class Bits>
void make_nans_of_one(Bits exponent, Bytes& bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(Bits)) {
    Bits bits{};
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    const auto magnitude = static_cast<Bits>(bits & (static_cast<Bits>(~Bits{0}) >> 1U));
    if (magnitude > exponent) {
      bits = static_cast<Bits>(~Bits{0});
      std::memcpy(bytes.data() + at, &bits, sizeof bits);
    }
  }
}
/// The index of one of the values, biased to the latest ones.
std::size_t pick_place(ByteReader& bytes, const Tensors& values) {
  const std::size_t reach =
      bytes.pick(3) == 0 ? values.size() : std::min<std::size_t>(values.size(), 3);
  return values.size() - 1 - static_cast<std::size_t>(bytes.pick(static_cast<int>(reach)));
}

/// Makes `op_count` ops from the bytes, each of earlier values; some values are dropped.
void grow(ByteReader& bytes, Tensors& values, int op_count, bool may_fail, StoryWriter& writer) {
  const std::span<const GraphOp> ops = graph_ops();
  for (int i = 0; i < op_count; ++i) {
    std::size_t which = static_cast<std::size_t>(bytes.pick(static_cast<int>(ops.size())));
    if (may_fail && bytes.pick(8) == 1) {
      which = ops.size() - 1;
    }
    const GraphOp& op = ops[which];
    const std::size_t place = pick_place(bytes, values);
    const Tensor x = values[place];
    if (op.may_fail && !may_fail) {
      continue;
    }
    GraphDraft draft(bytes, values, writer.next());
    Tensor made = make_graph_op(op, draft, x);
    writer.write(op.name, x, made);
    if (bytes.pick(4) == 0 && values.size() > 2) {
      values.erase(values.begin() + static_cast<std::ptrdiff_t>(place));
    }
    if (made.is_valid() && made.element_count() > 0) {
      values.push_back(std::move(made));
    }
    if (values.size() > kMostValues) {
      values.erase(values.begin() + bytes.pick(static_cast<int>(kMostValues)));
    }
  }
}

/// Makes ops in a checkpoint, whose result is the last value.
void grow_again(ByteReader& bytes, Tensors& values, StoryWriter& writer) {
  Bytes recipe;
  for (int i = 0; i < 24; ++i) {
    recipe.push_back(static_cast<std::byte>(bytes.pick(256)));
  }
  const std::size_t count = std::min<std::size_t>(values.size(), 3);
  const Tensors given(values.end() - static_cast<std::ptrdiff_t>(count), values.end());
  // The second run reuses the lines of the first and prints nothing.
  const auto again = [](const Tensors& in, const Bytes& recipe_of, std::uint32_t line) {
    ByteReader inner(recipe_of);
    Tensors made = in;
    StoryWriter inner_writer{.line = line};
    grow(inner, made, 3, false, inner_writer);
    for (Tensor& each : made) {
      if (is_float(each.dtype())) {
        continue;
      }
      each = cast({each, {kFile, line}}, DType::f32);
    }
    return mul({made.back(), {kFile, line}}, {0.5, {kFile, line}});
  };
  const std::uint32_t line = writer.line + 1;
  writer.line += 4;
  Tensor made = checkpoint(again, given, recipe, line);
  writer.write("checkpoint", given.back(), made);
  values.push_back(std::move(made));
}

/// The latest float tensor; an empty tensor if there is none.
Tensor latest_float(const Tensors& values) {
  for (std::size_t i = values.size(); i > 0; --i) {
    if (is_float(values[i - 1].dtype())) {
      return values[i - 1];
    }
  }
  return {};
}

class Program {
 public:
  Program(const Device& device, std::span<const std::byte> bytes, StoryWriter writer)
      : device_(device), bytes_(bytes), writer_(writer) {}

  std::vector<GraphResult> run() {
    make_leaves();
    for (int graph = 0; graph < 3 && bytes_.left() > 0; ++graph) {
      const int way = bytes_.pick(8);
      if (way < 2) {
        run_plainly();
      } else {
        differentiate(way);
      }
      if (bytes_.pick(8) == 0) {
        static_cast<void>(device_.catch_up_later().wait());  // which may report a failure
      }
    }
    values_.clear();
    return read();
  }

 private:
  void make_leaves() {
    constexpr std::array<std::int64_t, 8> kSizes{1, 2, 3, 4, 5, 7, 9, 16};
    constexpr std::array<std::int64_t, 12> kLast{1, 2, 3, 4, 5, 8, 13, 16, 33, 100, 257, 513};
    constexpr std::array kTypes{
        DType::f32, DType::f32, DType::f32, DType::f64, DType::f64, DType::f16, DType::bf16};
    const int rank = 1 + bytes_.pick(3);
    Shape broad;
    for (int axis = 0; axis + 1 < rank; ++axis) {
      broad.push_back(kSizes.at(static_cast<std::size_t>(bytes_.pick(8))));
    }
    broad.push_back(kLast.at(static_cast<std::size_t>(bytes_.pick(12))));
    while (broad.element_count() > 3000) {
      broad.set(rank - 1, (broad[rank - 1] + 1) / 2);
    }
    const DType type = kTypes.at(static_cast<std::size_t>(bytes_.pick(7)));
    may_fail_ = bytes_.pick(6) == 1;
    leaves_.push_back(make_leaf(broad, type));
    for (int more = 1 + bytes_.pick(3); more > 0; --more) {
      const int kind = bytes_.pick(8);
      Shape shape = broad;
      if (kind == 1) {  // one number a row
        shape.set(rank - 1, 1);
      } else if (kind == 2) {  // one row
        shape = Shape{broad[rank - 1]};
      } else if (kind == 3) {
        shape = Shape{};
      } else if (kind == 4) {  // one number a column
        shape.set(0, 1);
      }
      Tensor leaf = make_leaf(shape, bytes_.pick(8) == 0 ? DType::f32 : type);
      leaves_.push_back(std::move(leaf));
    }
    if (bytes_.pick(2) == 0) {
      static_cast<void>(device_.catch_up_later().wait());
    }
    values_ = leaves_;
    std::ranges::reverse(values_);  // the broad one becomes the latest
  }

  Tensor make_leaf(const Shape& shape, DType type) {
    const SourceLoc loc = writer_.next();
    std::mt19937_64 random(static_cast<std::uint64_t>(bytes_.pick(256)));
    std::vector<float> numbers(static_cast<std::size_t>(shape.element_count()));
    for (float& number : numbers) {
      number = static_cast<float>(static_cast<double>(random() >> 11U) * 0x1p-51 - 2);
    }
    Tensor leaf = Tensor::from(device_, std::move(numbers), shape, loc);
    leaf = type == DType::f32 ? leaf : cast({std::move(leaf), loc}, type);
    writer_.write("leaf", leaf, leaf);
    return leaf;
  }

  void run_plainly() {
    grow(bytes_, values_, 2 + bytes_.pick(12), may_fail_, writer_);
    keep(values_);
  }

  /// Differentiates by the leaves, or by values that earlier graphs made of them.
  void differentiate(int way) {
    Tensors inputs;
    for (const Tensor& value : values_) {
      if (is_float(value.dtype()) && inputs.size() < 4) {
        inputs.push_back(value);
      }
    }
    if (inputs.empty()) {
      inputs.push_back(leaves_.front());
    }
    std::optional<RecomputeScope> scope;
    if (way == 7) {
      scope.emplace(RecomputeOptions{.kept_bytes = 64LL * bytes_.pick(8)});
    }
    Tensors inner;
    const int op_count = 1 + bytes_.pick(8);
    const SourceLoc loc = writer_.next();
    Tensors gradients = grad(
        [&](const Tensors& tracked) {
          Tensors values = tracked;
          grow(bytes_, values, way == 6 ? op_count / 2 : op_count, may_fail_, writer_);
          if (way == 6) {
            grow_again(bytes_, values, writer_);
            grow(bytes_, values, op_count / 2, may_fail_, writer_);
          }
          Tensor last = latest_float(values);
          if (!last.is_valid()) {
            last = tracked.back();
          }
          if (bytes_.pick(3) == 0) {
            inner.push_back(values.back().detach());
          }
          GraphDraft draft(bytes_, values, writer_.next());
          Tensor loss = graph_loss(draft, last);
          writer_.write("loss", last, loss);
          inner.push_back(loss.detach());
          return loss;
        },
        inputs,
        loc);
    if (writer_.figures != nullptr) {
      ++writer_.figures->sweeps;
    }
    keep(inner);
    keep(gradients);
    // Later ops may use gradients.
    values_.insert(values_.end(), gradients.begin(), gradients.end());
    while (values_.size() > kMostValues) {
      values_.erase(values_.begin());
    }
  }

  void keep(const Tensors& made) {
    for (const Tensor& each : made) {
      if (kept_.size() < kMostKept) {
        kept_.push_back(each);
      }
    }
  }

  std::vector<GraphResult> read() {
    std::vector<GraphResult> results;
    for (const Tensor& tensor : kept_) {
      GraphResult& result = results.emplace_back();
      result.what = describe(tensor.dtype(), tensor.shape());
      try {
        result.bytes = tensor.read_bytes().get();
        make_nans_one(tensor.dtype(), result.bytes);
      } catch (const DeviceError& error) {
        result.error = text_of(error.error());
      }
      if (writer_.figures != nullptr) {
        ++writer_.figures->results;
        writer_.figures->failed += result.error.empty() ? 0U : 1U;
      }
    }
    return results;
  }

  Device device_;
  ByteReader bytes_;
  StoryWriter writer_;
  bool may_fail_ = false;
  Tensors leaves_;
  Tensors values_;
  Tensors kept_;
};

}  // namespace

std::vector<GraphResult> run_graphs(const Device& device,
                                    std::span<const std::byte> bytes,
                                    GraphFigures* figures,
                                    std::vector<std::string>* story) {
  return Program(device, bytes, {.figures = figures, .story = story}).run();
}

void make_nans_one(DType dtype, Bytes& bytes) {
  switch (dtype) {
    case DType::f16:
      return make_nans_of_one<std::uint16_t>(0x7c00U, bytes);
    case DType::bf16:
      return make_nans_of_one<std::uint16_t>(0x7f80U, bytes);
    case DType::f32:
      return make_nans_of_one<std::uint32_t>(0x7f800000U, bytes);
    case DType::f64:
      return make_nans_of_one<std::uint64_t>(0x7ff0000000000000U, bytes);
    default:
      return;
  }
}

std::vector<std::string> compare_graphs(const std::vector<GraphResult>& want,
                                        const std::vector<GraphResult>& got) {
  if (want.size() != got.size()) {
    return {fmt::format("{} results, not {}", got.size(), want.size())};
  }
  std::vector<std::string> wrong;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (want[i].error != got[i].error) {
      wrong.push_back(fmt::format(
          "result {}, {}: error '{}', not '{}'", i, want[i].what, got[i].error, want[i].error));
    } else if (want[i].what != got[i].what || want[i].bytes != got[i].bytes) {
      const auto differs = std::ranges::mismatch(want[i].bytes, got[i].bytes);
      const auto from = static_cast<std::size_t>(differs.in1 - want[i].bytes.begin()) / 8 * 8;
      const auto part = [from](const Bytes& bytes) {
        return to_hex(
            std::span(bytes).subspan(from).first(std::min<std::size_t>(bytes.size() - from, 16)));
      };
      wrong.push_back(fmt::format("result {}, {} ({}): from byte {} of {} on {}, not {}",
                                  i,
                                  want[i].what,
                                  got[i].what,
                                  from,
                                  want[i].bytes.size(),
                                  part(got[i].bytes),
                                  part(want[i].bytes)));
    }
  }
  return wrong;
}

}  // namespace hearth::testing
