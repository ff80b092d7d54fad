#include "runtime/device/dispatch/view_layout.hpp"

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/streams/op_attributes.hpp>

namespace hearth {
namespace {

/// The model: a view as the memory offsets of its elements, in row-major order.
struct Places {
  Shape shape;
  std::vector<std::int64_t> of;
};

std::vector<std::int64_t> places_of(const detail::Layout& layout, std::int64_t offset) {
  std::vector<std::int64_t> places;
  const std::int64_t count = layout.shape.element_count();
  std::vector<std::int64_t> index(static_cast<std::size_t>(layout.shape.rank()), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t place = offset;
    for (std::size_t axis = 0; axis < index.size(); ++axis) {
      place += index[axis] * layout.strides[axis];
    }
    places.push_back(place);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < layout.shape[static_cast<int>(axis)]) {
        break;
      }
      index[axis] = 0;
    }
  }
  return places;
}

/// For each element of a result of this shape, the offset of the element of `from` that it reads.
template <class Source>
Places gathered(const Places& from, const Shape& shape, const Source& source) {
  Places result{shape, {}};
  const detail::Layout target(shape);
  const Strides strides = contiguous_strides(from.shape);
  for (std::int64_t flat = 0; flat < shape.element_count(); ++flat) {
    std::vector<std::int64_t> index;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      index.push_back(flat / target.strides[static_cast<std::size_t>(axis)] % shape[axis]);
    }
    const std::vector<std::int64_t> in = source(index);
    std::int64_t place = 0;
    for (std::size_t axis = 0; axis < in.size(); ++axis) {
      place += in[axis] * strides[axis];
    }
    result.of.push_back(from.of[static_cast<std::size_t>(place)]);
  }
  return result;
}

template <class Attributes>
ViewLayout view(OpKind kind,
                const Attributes& attributes,
                const detail::Layout& from,
                const Shape& to) {
  OpRecord record;
  record.kind = kind;
  record.input_count = 1;
  record.output_count = 1;
  std::vector<std::byte> blob;
  const auto bytes = std::as_bytes(std::span(&attributes, 1));
  if (fits_immediate<Attributes>) {
    std::copy(bytes.begin(), bytes.end(), std::begin(record.immediate));
  } else {
    blob.assign(bytes.begin(), bytes.end());
    record.blob_size_bytes = static_cast<std::uint32_t>(blob.size());
  }
  return view_layout(OpView(record, blob.data()), from, detail::Layout(to));
}

/// One random view of a tensor that is itself a view.
class RandomView {
 public:
  RandomView(std::mt19937_64& random, const detail::Layout& from, const Places& places)
      : random_(random), from_(from), places_(places) {
    switch (random() % 4) {
      case 0:
        permute();
        break;
      case 1:
        slice();
        break;
      case 2:
        expand();
        break;
      default:
        reshape();
    }
  }

  ViewLayout got;
  Places want;
  OpKind kind = OpKind::reshape;

 private:
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }
  void permute() {
    kind = OpKind::permute;
    PermuteAttributes attributes;
    std::vector<std::uint8_t> axes(static_cast<std::size_t>(from_.shape.rank()));
    for (std::size_t i = 0; i < axes.size(); ++i) {
      axes[i] = static_cast<std::uint8_t>(i);
    }
    std::shuffle(axes.begin(), axes.end(), random_);
    Shape to;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      attributes.axes[i] = axes[i];
      to.push_back(from_.shape[axes[i]]);
    }
    got = view(kind, attributes, from_, to);
    want = gathered(places_, to, [&](const std::vector<std::int64_t>& index) {
      std::vector<std::int64_t> in(index.size());
      for (std::size_t i = 0; i < axes.size(); ++i) {
        in[axes[i]] = index[i];
      }
      return in;
    });
  }
  void slice() {
    kind = OpKind::slice;
    SliceAttributes attributes;
    Shape to;
    for (int axis = 0; axis < from_.shape.rank(); ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      const std::int64_t size = from_.shape[axis];
      attributes.step[i] = below(2) == 0 ? 1 + below(2) : -1 - below(2);
      attributes.start[i] = size == 0 ? 0 : below(size);
      const std::int64_t left =
          attributes.step[i] > 0 ? size - 1 - attributes.start[i] : attributes.start[i];
      const std::int64_t most = size == 0 ? 0 : left / std::abs(attributes.step[i]) + 1;
      to.push_back(below(20) == 0 ? 0 : std::min<std::int64_t>(most, 1 + below(most + 1)));
    }
    got = view(kind, attributes, from_, to);
    want = gathered(places_, to, [&](const std::vector<std::int64_t>& index) {
      std::vector<std::int64_t> in(index.size());
      for (std::size_t i = 0; i < in.size(); ++i) {
        in[i] = attributes.start[i] + index[i] * attributes.step[i];
      }
      return in;
    });
  }
  void expand() {
    kind = OpKind::expand;
    Shape to;
    const int added = from_.shape.rank() < 4 ? static_cast<int>(below(2)) : 0;
    for (int i = 0; i < added; ++i) {
      to.push_back(1 + below(3));
    }
    for (int axis = 0; axis < from_.shape.rank(); ++axis) {
      to.push_back(from_.shape[axis] == 1 ? 1 + below(3) : from_.shape[axis]);
    }
    got = view(kind, AxisAttributes{}, from_, to);
    want = gathered(places_, to, [&](const std::vector<std::int64_t>& index) {
      std::vector<std::int64_t> in(index.begin() + added, index.end());
      for (std::size_t i = 0; i < in.size(); ++i) {
        in[i] = from_.shape[static_cast<int>(i)] == 1 ? 0 : in[i];
      }
      return in;
    });
  }
  void reshape() {
    std::vector<std::int64_t> dims;
    std::int64_t left = from_.shape.element_count();
    if (left == 0) {
      dims = {0, 3};
    } else {
      for (const std::int64_t prime : {2, 2, 3, 3, 5}) {
        if (left % prime == 0 && below(2) == 0 && dims.size() < 5) {
          dims.push_back(prime);
          left /= prime;
        }
      }
      dims.push_back(left);
      if (below(3) == 0) {
        dims.push_back(1);
      }
      std::shuffle(dims.begin(), dims.end(), random_);
    }
    const Shape to{std::span<const std::int64_t>(dims)};
    got = view(kind, AxisAttributes{}, from_, to);
    want = Places{to, places_.of};
  }

  std::mt19937_64& random_;
  const detail::Layout& from_;
  const Places& places_;
};

TEST(ViewLayout, ChainsOfRandomViewsReadTheRightElements) {
  const std::uint64_t seed = 20261121;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  int views = 0;
  int copies = 0;
  for (int round = 0; round < 5000; ++round) {
    detail::Layout layout{Shape{static_cast<std::int64_t>(random() % 4 + 1),
                                static_cast<std::int64_t>(random() % 6),
                                static_cast<std::int64_t>(random() % 5 + 1)}};
    Places places{layout.shape, places_of(layout, 0)};
    std::int64_t offset = 0;
    for (int depth = 0; depth < 5; ++depth) {
      const RandomView step(random, layout, places);
      if (!step.got.possible) {
        ASSERT_EQ(step.kind, OpKind::reshape) << "only a reshape may need a copy";
        ++copies;
        break;
      }
      ++views;
      offset += step.got.offset_elements;
      layout = step.got.layout;
      places = step.want;
      ASSERT_EQ(layout.shape, places.shape);
      ASSERT_EQ(places_of(layout, offset), places.of)
          << "round " << round << ", depth " << depth << ", "
          << (step.kind == OpKind::reshape ? "reshape" : "another kind") << " to "
          << layout.shape.to_string();
      std::vector<std::int64_t> in_order = places_of(detail::Layout(layout.shape), offset);
      ASSERT_TRUE(!layout.contiguous || places.of == in_order);
    }
  }
  EXPECT_GT(views, 10'000);
  EXPECT_GT(copies, 100);
}

TEST(ViewLayout, AReshapeOfATransposedMatrixNeedsACopy) {
  const detail::Layout transposed(Shape{3, 2}, Strides{1, 3});
  EXPECT_FALSE(view(OpKind::reshape, AxisAttributes{}, transposed, Shape{6}).possible);
  EXPECT_TRUE(view(OpKind::reshape, AxisAttributes{}, transposed, Shape{3, 1, 2}).possible);
}

TEST(ViewLayout, AReshapeOfARepeatedRowMayJoinTheRepeatsOnly) {
  const detail::Layout repeated(Shape{4, 3}, Strides{0, 1});
  EXPECT_TRUE(view(OpKind::reshape, AxisAttributes{}, repeated, Shape{2, 2, 3}).possible);
  EXPECT_FALSE(view(OpKind::reshape, AxisAttributes{}, repeated, Shape{12}).possible);
}

}  // namespace
}  // namespace hearth
