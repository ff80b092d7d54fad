// roi_align: bilinear samples, their zeros outside and their mean are separate along both axes. So
// a region is a product of the features with weights of its rows and of its columns.
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/vision_ops.hpp>

#include "runtime/composed/host_wait.hpp"
#include "runtime/ops/op_operand.hpp"
#include "runtime/ops/op_parts.hpp"
#include "runtime/ops/op_promotion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

using detail::At;
using detail::HostWait;

constexpr OpKind kRoiKind = OpKind::matmul;
// Elements of the products of one call of matmul; more regions take several calls.
constexpr std::int64_t kMostRoiElements = std::int64_t{1} << 26U;
constexpr std::int64_t kMostRoiSamples = std::int64_t{1} << 20U;

DType checked_roi(const Arg& x, const Arg& boxes, const RoiAlignOptions& options) {
  const TensorSpec features = detail::spec_of(kRoiKind, x);
  const TensorSpec regions = detail::spec_of(kRoiKind, boxes);
  const std::array inputs{x, boxes};
  const auto refuse = [&](ErrorCode code, std::string_view what) {
    detail::throw_op_error(code,
                           kRoiKind,
                           fmt::format("{}: x {}, boxes {}",
                                       what,
                                       describe(features.dtype, features.shape),
                                       describe(regions.dtype, regions.shape)),
                           x.location(),
                           inputs);
  };
  if (!is_float(features.dtype) || !is_float(regions.dtype)) {
    refuse(ErrorCode::dtype_mismatch, "takes floats");
  }
  if (features.shape.rank() != 4 || regions.shape.rank() != 2 || regions.shape[1] != 5) {
    refuse(ErrorCode::shape_mismatch, "needs x [n, c, h, w] and boxes [k, 5]");
  }
  if (features.shape[2] < 1 || features.shape[3] < 1) {
    refuse(ErrorCode::shape_mismatch, "the pictures have no elements");
  }
  if (options.size.height() < 1 || options.size.width() < 1) {
    refuse(ErrorCode::invalid_argument,
           fmt::format("size {} x {} is below 1", options.size.height(), options.size.width()));
  }
  if (options.sampling_ratio < 0) {
    refuse(ErrorCode::invalid_argument,
           fmt::format("sampling_ratio {} is below 0", options.sampling_ratio));
  }
  if (!std::isfinite(options.spatial_scale)) {
    refuse(ErrorCode::invalid_argument,
           fmt::format("spatial_scale {} is not finite", options.spatial_scale));
  }
  return detail::common_type(kRoiKind, inputs);
}

// The bins of all regions along one axis.
struct RoiBins {
  Tensor start;  // [k, 1, 1]
  Tensor size;   // [k, 1, 1], of one bin
  Tensor count;  // [k, 1, 1]: samples of a bin, a whole number, as a float
  std::int64_t bins = 1;
};

// One number of each region, [k, 1, 1].
Tensor roi_column(const Tensor& boxes, std::int64_t number, const At& at) {
  Tensor column = slice(at(boxes), 1, {.start = number, .stop = number + 1});
  return unsqueeze(at(std::move(column)), 2);
}

// `axis`: 0 for x, 1 for y.
RoiBins bins_along(const Tensor& boxes, int axis, const RoiAlignOptions& options, const At& at) {
  const double offset = options.aligned ? 0.5 : 0;
  const auto place = [&](std::int64_t number) {
    Tensor scaled = mul(at(roi_column(boxes, number, at)), at(options.spatial_scale));
    return sub(at(std::move(scaled)), at(offset));
  };
  RoiBins result;
  result.bins = axis == 0 ? options.size.width() : options.size.height();
  result.start = place(1 + axis);
  Tensor length = sub(at(place(3 + axis)), at(result.start));
  if (!options.aligned) {
    length = maximum(at(std::move(length)), at(1.0));
  }
  result.size = div(at(std::move(length)), at(static_cast<double>(result.bins)));
  result.count = options.sampling_ratio > 0 ? full(boxes.device(),
                                                   {boxes.shape()[0], 1, 1},
                                                   options.sampling_ratio,
                                                   boxes.dtype(),
                                                   at.location())
                                            : ceil(at(result.size));
  return result;
}

Tensor row_of_numbers(const Tensor& like, std::int64_t count, const At& at) {
  return arange(like.device(), 0, static_cast<double>(count), 1, like.dtype(), at.location());
}

// Weights [k, bins, length] of the elements of an axis: the mean of `samples` triangles for each
// bin. Samples beyond a region's own count do not count.
Tensor bin_weights(const RoiBins& along, std::int64_t samples, std::int64_t length, const At& at) {
  const Tensor number = row_of_numbers(along.start, samples, at);
  Tensor share = div(at(add(at(number), at(0.5))), at(along.count));
  const Tensor bin = unsqueeze(at(row_of_numbers(along.start, along.bins, at)), 1);
  const Tensor step = mul(at(add(at(std::move(share)), at(bin))), at(along.size));
  const Tensor place = add(at(along.start), at(step));
  const Tensor is_inside = logical_and(at(greater_equal(at(place), at(-1.0))),
                                       at(less_equal(at(place), at(static_cast<double>(length)))));
  const Tensor counts = logical_and(at(is_inside), at(less(at(number), at(along.count))));
  const Tensor inside = clamp(at(place), at(0.0), at(static_cast<double>(length - 1)));
  const Tensor elements = row_of_numbers(along.start, length, at);
  const Tensor distance = abs(at(sub(at(unsqueeze(at(inside), 3)), at(elements))));
  const Tensor triangle = relu(at(sub(at(1.0), at(distance))));
  const Tensor weight = where(at(unsqueeze(at(counts), 3)), at(triangle), at(0.0));
  return div(at(sum(at(weight), 2)), at(maximum(at(along.count), at(1.0))));
}

// Samples of a bin along y and x: the ratio, or the most that a region needs. May wait.
std::array<std::int64_t, 2> samples_of(const RoiBins& rows,
                                       const RoiBins& columns,
                                       const RoiAlignOptions& options,
                                       const Arg& boxes,
                                       const HostWait& wait,
                                       const At& at) {
  if (options.sampling_ratio > 0) {
    return {options.sampling_ratio, options.sampling_ratio};
  }
  const Tensor most =
      cast(at(stack({max(at(rows.count)), max(at(columns.count))}, 0, at.location())), DType::i64);
  const std::vector<std::int64_t> read = wait.values_of<std::int64_t>(most, at.location());
  for (const std::int64_t samples : read) {
    if (samples > kMostRoiSamples) {
      detail::throw_op_error(
          ErrorCode::invalid_argument,
          kRoiKind,
          fmt::format("a bin of the largest box takes {} samples along an axis; set "
                      "sampling_ratio",
                      samples),
          boxes);
    }
  }
  return {std::max<std::int64_t>(read[0], 1), std::max<std::int64_t>(read[1], 1)};
}

// Regions in the order of their pictures.
struct RoiOrder {
  std::vector<std::int64_t> places = {};  // the region at each place; empty: all in order
  std::vector<std::int64_t> counts = {};  // regions of each picture
};

// Waits if there are several pictures.
RoiOrder order_of(const Tensor& pictures, std::int64_t n, const HostWait& wait, const At& at) {
  const std::int64_t count = pictures.element_count();
  if (n == 1) {
    return {.counts = {count}};
  }
  RoiOrder order{.counts = std::vector<std::int64_t>(static_cast<std::size_t>(n), 0)};
  std::vector<std::int64_t> read = wait.values_of<std::int64_t>(pictures, at.location());
  for (std::int64_t& picture : read) {
    picture = std::clamp<std::int64_t>(picture, 0, n - 1);  // one outside poisons the weights
    ++order.counts[static_cast<std::size_t>(picture)];
  }
  if (!std::ranges::is_sorted(read)) {
    order.places = std::vector<std::int64_t>(read.size());
    std::iota(order.places.begin(), order.places.end(), std::int64_t{0});
    std::ranges::stable_sort(
        order.places, {}, [&](std::int64_t i) { return read[static_cast<std::size_t>(i)]; });
  }
  return order;
}

// Regions [k, c, rows, columns] of one picture [c, h, w].
Tensor regions_of(const Tensor& picture, const Tensor& rows, const Tensor& columns, const At& at) {
  const Shape shape = picture.shape();
  const std::int64_t count = rows.shape()[0];
  const std::int64_t bins = rows.shape()[1];
  const Tensor lines =
      reshape(at(permute(at(picture), {1, 0, 2})), {shape[1], shape[0] * shape[2]});
  Tensor product = matmul(at(reshape(at(rows), {count * bins, shape[1]})), at(lines));
  product = reshape(at(std::move(product)), {count, bins * shape[0], shape[2]});
  product = matmul(at(std::move(product)), at(transpose(at(columns))));
  product = reshape(at(std::move(product)), {count, bins, shape[0], columns.shape()[1]});
  return permute(at(std::move(product)), {0, 2, 1, 3});
}

Tensor numbers_on(const Device& device, const std::vector<std::int64_t>& values, const At& at) {
  return Tensor::from(
      device, values, Shape{static_cast<std::int64_t>(values.size())}, at.location());
}

// All regions, picture by picture, in calls of limited size.
Tensor regions_by_picture(
    const Tensor& x, Tensor rows, Tensor columns, const RoiOrder& order, const At& at) {
  const Shape shape = x.shape();
  if (!order.places.empty()) {
    const Tensor places = numbers_on(x.device(), order.places, at);
    rows = index_select(at(std::move(rows)), 0, at(places));
    columns = index_select(at(std::move(columns)), 0, at(places));
  }
  const std::int64_t each = std::max<std::int64_t>(rows.shape()[1] * shape[1] * shape[3], 1);
  const std::int64_t most = std::max<std::int64_t>(kMostRoiElements / each, 1);
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (std::size_t n = 0; n < order.counts.size(); ++n) {
    const auto number = static_cast<std::int64_t>(n);
    const std::int64_t end = begin + order.counts[n];
    while (begin < end) {
      const Range range{.start = begin, .stop = std::min(begin + most, end)};
      const Tensor picture = squeeze(at(slice(at(x), 0, {.start = number, .stop = number + 1})), 0);
      parts.push_back(
          regions_of(picture, slice(at(rows), 0, range), slice(at(columns), 0, range), at));
      begin = *range.stop;
    }
  }
  Tensor all = parts.size() == 1 ? std::move(parts[0]) : concat(parts, 0, at.location());
  if (order.places.empty()) {
    return contiguous(at(std::move(all)));
  }
  std::vector<std::int64_t> back(order.places.size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    back[static_cast<std::size_t>(order.places[i])] = static_cast<std::int64_t>(i);
  }
  return index_select(at(std::move(all)), 0, at(numbers_on(x.device(), back, at)));
}

// Phases: check; bins and weights of both axes; the order by pictures; products.
Tensor roi_align_of(const Arg& x,
                    const Arg& boxes,
                    const RoiAlignOptions& options,
                    const HostWait& wait) {
  return detail::named_as("roi_align", [&] {
    static_cast<void>(detail::operand(kRoiKind, x));
    static_cast<void>(detail::operand(kRoiKind, boxes));
    const DType dtype = checked_roi(x, boxes, options);
    const DType inside = compute_type(dtype);
    const At at(x.location());
    const Shape shape = x.tensor().shape();
    const std::int64_t count = boxes.tensor().shape()[0];
    const std::int64_t height = options.size.height();
    const std::int64_t width = options.size.width();
    const Device device = x.tensor().device();
    if (count == 0) {
      return zeros(device, {0, shape[1], height, width}, dtype, at.location());
    }
    const Tensor regions = cast(at(boxes.tensor().detach()), inside);
    const Tensor pictures =
        reshape(at(cast(at(slice(at(regions), 1, {.start = 0, .stop = 1})), DType::i64)), {count});
    const RoiBins rows = bins_along(regions, 1, options, at);
    const RoiBins columns = bins_along(regions, 0, options, at);
    const std::array<std::int64_t, 2> samples = samples_of(rows, columns, options, boxes, wait, at);
    // A number outside of the pictures poisons all weights.
    const Tensor is_there =
        index_select(at(ones(device, {shape[0]}, inside, at.location())), 0, at(pictures));
    Tensor by_row = bin_weights(rows, samples[0], shape[2], at);
    by_row = mul(at(std::move(by_row)), at(reshape(at(is_there), {count, 1, 1})));
    Tensor by_column = bin_weights(columns, samples[1], shape[3], at);
    const RoiOrder order = order_of(pictures, shape[0], wait, at);
    Tensor result = regions_by_picture(
        cast(at(x.tensor()), inside), std::move(by_row), std::move(by_column), order, at);
    return cast(at(std::move(result)), dtype);
  });
}

}  // namespace

Tensor roi_align(Arg x, Arg boxes, const RoiAlignOptions& options) {
  return roi_align_of(x, boxes, options, HostWait());
}
Tensor roi_align(Arg x, Arg boxes, const RoiAlignOptions& options, const WaitOptions& wait) {
  return roi_align_of(x, boxes, options, HostWait(wait));
}

}  // namespace hearth
