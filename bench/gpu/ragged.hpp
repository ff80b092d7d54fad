// The section `ragged` of hearth-gpu-bench: products and losses whose rows are no whole number of
// words, beside the next multiple of 8, in turns. Each product is checked: some thousand elements,
// half of them at the edges, against sums in f64. Threads: one.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "bench/gpu/figures.hpp"

namespace hearth::bench {

struct RaggedSizes {
  std::int64_t rows, columns, depth;
  bool is_first = false;  ///< Measured for every type, in every form.
};

// Each dimension alone, then all.
inline constexpr std::array kRaggedSizes{RaggedSizes{4097, 4096, 4096},
                                         RaggedSizes{4096, 4097, 4096, true},
                                         RaggedSizes{4096, 4096, 4097, true},
                                         RaggedSizes{4097, 4097, 4097, true},
                                         RaggedSizes{4096, 4100, 4096},
                                         RaggedSizes{4096, 4098, 4098},
                                         RaggedSizes{2049, 2048, 2048},
                                         RaggedSizes{2048, 2049, 2048},
                                         RaggedSizes{2048, 2048, 2049},
                                         RaggedSizes{2049, 2049, 2049, true},
                                         RaggedSizes{2052, 2052, 2052},
                                         RaggedSizes{8191, 8191, 8191}};

class Ragged final {
 public:
  explicit Ragged(Device device) : device_(std::move(device)) {}

  void measure() const {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
      for (const RaggedSizes& sizes : kRaggedSizes) {
        const bool is_short = dtype != DType::bf16 && !sizes.is_first;
        for (int sides = 0; sides < (is_short ? 1 : 4); ++sides) {
          product({dtype, sizes, (sides & 1) != 0, (sides & 2) != 0, false});
        }
        if (is_float(dtype) && dtype != DType::f32) {
          product({dtype, sizes, false, true, true});
        }
      }
    }
    for (const std::int64_t classes : {50257, 50258, 50260}) {
      losses(DType::bf16, 8192, classes);
      losses(DType::f32, 4096, classes);
    }
  }

 private:
  using Sizes = RaggedSizes;
  struct Product {
    DType dtype;
    Sizes sizes;
    bool turns_a, turns_b, has_gelu;
  };
  [[nodiscard]] static std::int64_t next(std::int64_t size) { return (size + 7) / 8 * 8; }

  [[nodiscard]] Tensor factor(const Shape& shape, DType dtype, std::uint64_t seed) const {
    Generator generator(seed);
    return dtype == DType::i8 ? randint(device_, shape, generator, -127, 128, dtype)
                              : random_normal(device_, shape, generator, 0.0, 1.0, dtype);
  }

  struct Sides {
    Tensor a, b;
  };
  [[nodiscard]] Sides sides(const Product& p, const Sizes& sizes) const {
    const auto make = [&](std::int64_t down, std::int64_t across, bool turns, std::uint64_t seed) {
      return turns ? transpose(factor({across, down}, p.dtype, seed))
                   : factor({down, across}, p.dtype, seed);
    };
    return {make(sizes.rows, sizes.depth, p.turns_a, 1),
            make(sizes.depth, sizes.columns, p.turns_b, 2)};
  }

  [[nodiscard]] static Tensor multiply(const Product& p, const Sides& sides) {
    const Tensor product = matmul(sides.a, sides.b);
    return p.has_gelu ? gelu(product) : product;
  }

  // Seconds per call in a chain of calls.
  double run(int count, const std::function<Tensor()>& call) const {
    std::array<Tensor, 4> results;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) {
      Tensor made = call();
      made.publish();
      results[static_cast<std::size_t>(i % 4)] = std::move(made);
    }
    device_.sync();
    return seconds_since(start) / count;
  }

  struct Times {
    double own, next;
  };
  // Medians of runs in turns.
  [[nodiscard]] Times times(const std::function<Tensor()>& own,
                            const std::function<Tensor()>& next) const {
    constexpr double kRun = 0.012;
    constexpr int kRuns = 7;
    run(2, own);
    run(2, next);
    const int own_count = std::max(2, static_cast<int>(kRun / run(3, own)));
    const int next_count = std::max(2, static_cast<int>(kRun / run(3, next)));
    std::vector<double> first;
    std::vector<double> second;
    for (int i = 0; i < kRuns; ++i) {
      first.push_back(run(own_count, own));
      second.push_back(run(next_count, next));
    }
    return {median_of(first).median, median_of(second).median};
  }

  void product(const Product& p) const {
    const Sizes& own = p.sizes;
    const Sizes after{next(own.rows), next(own.columns), next(own.depth)};
    const Sides own_sides = sides(p, own);
    const Sides next_sides = sides(p, after);
    const double error = largest_error(p, own_sides);
    const Times found =
        times([&] { return multiply(p, own_sides); }, [&] { return multiply(p, next_sides); });
    const auto rate = [](const Sizes& sizes, double seconds) {
      return 2e-12 * static_cast<double>(sizes.rows) * static_cast<double>(sizes.columns) *
             static_cast<double>(sizes.depth) / seconds;
    };
    fmt::print(
        "{{\"bench\": \"ragged_matmul\", \"dtype\": \"{}\", \"size\": \"{}x{}x{}\", \"turned\": "
        "\"{}{}\", \"gelu\": {}, \"TFLOPs\": {:.1f}, \"next\": {:.1f}, \"ratio\": {:.3f}, "
        "\"error\": {:.2e}}}\n",
        name(p.dtype),
        own.rows,
        own.columns,
        own.depth,
        p.turns_a ? "a" : "",
        p.turns_b ? "b" : "",
        p.has_gelu,
        rate(own, found.own),
        rate(after, found.next),
        rate(own, found.own) / rate(after, found.next),
        error);
    std::fflush(stdout);
  }

  // Indices along an axis: both ends, and some between.
  [[nodiscard]] static std::vector<std::int64_t> places(std::int64_t size) {
    std::vector<std::int64_t> found;
    for (std::int64_t i = 0; i < 16; ++i) {
      found.push_back(i);
      found.push_back(size - 1 - i);
      found.push_back(i * 2654435761 % size);
      found.push_back((i * 40503 + 77) * 1597 % size);
    }
    return found;
  }

  [[nodiscard]] Tensor picked(const Tensor& x,
                              int axis,
                              const std::vector<std::int64_t>& at) const {
    const Tensor index = Tensor::from(device_, at, {static_cast<std::int64_t>(at.size())});
    return index_select(x, axis, index);
  }

  // Largest error relative to the root of the depth; 1e30 if any result is not finite.
  [[nodiscard]] double largest_error(const Product& p, const Sides& sides) const {
    const std::int64_t depth = p.sizes.depth;
    const auto rows = places(p.sizes.rows);
    const auto columns = places(p.sizes.columns);
    // Fills the memory of the result with other numbers first.
    {
      Tensor poison = full(device_, {p.sizes.rows, p.sizes.columns}, 97.0, DType::f32);
      poison.publish();
      device_.sync();
    }
    Tensor result = multiply(p, sides);
    result.publish();
    if (is_float(result.dtype()) && !all(is_finite(result)).to_vector<std::uint8_t>().front()) {
      return 1e30;
    }
    const auto host = [](const Tensor& x) { return x.to(DType::f32).to_vector<float>(); };
    const std::vector<float> a = host(picked(sides.a, 0, rows));
    const std::vector<float> b = host(transpose(picked(sides.b, 1, columns)) + 0);
    const std::vector<float> got = host(picked(picked(result, 0, rows), 1, columns));
    double largest = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t j = 0; j < columns.size(); ++j) {
        double sum = 0;
        for (std::int64_t k = 0; k < depth; ++k) {
          sum += static_cast<double>(
                     a[i * static_cast<std::size_t>(depth) + static_cast<std::size_t>(k)]) *
                 static_cast<double>(
                     b[j * static_cast<std::size_t>(depth) + static_cast<std::size_t>(k)]);
        }
        const double want = p.has_gelu ? 0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0))) : sum;
        largest = std::max(largest, std::abs(got[i * columns.size() + j] - want));
      }
    }
    return largest / std::sqrt(static_cast<double>(depth));
  }

  // The loss alone, and with the gradient of the logits.
  void losses(DType dtype, std::int64_t rows, std::int64_t classes) const {
    const auto make = [&](std::int64_t count) {
      Generator generator(5);
      return std::pair(factor({rows, count}, dtype, 3),
                       randint(device_, {rows}, generator, 0, count, DType::i64));
    };
    const auto own = make(classes);
    const auto after = make(next(classes));
    const auto forward = [](const auto& in) { return cross_entropy(in.first, in.second); };
    const auto both = [](const auto& in) {
      return grad([&](const std::vector<Tensor>& x) { return cross_entropy(x[0], in.second); },
                  {in.first})
          .front();
    };
    const auto soft = [](const auto& in) { return softmax(in.first, -1); };
    const auto report = [&](std::string_view what, const Times& found, double error) {
      fmt::print(
          "{{\"bench\": \"ragged_{}\", \"dtype\": \"{}\", \"size\": \"{}x{}\", \"us\": {:.1f}, "
          "\"next_us\": {:.1f}, \"ratio\": {:.3f}, \"error\": {:.2e}}}\n",
          what,
          name(dtype),
          rows,
          classes,
          found.own * 1e6,
          found.next * 1e6,
          found.next / found.own,
          error);
      std::fflush(stdout);
    };
    report("cross_entropy", times([&] { return forward(own); }, [&] { return forward(after); }), 0);
    const auto [soft_error, grad_error] = line_errors(own.first, own.second, soft(own), both(own));
    report("cross_entropy_grad",
           times([&] { return both(own); }, [&] { return both(after); }),
           grad_error);
    report("softmax", times([&] { return soft(own); }, [&] { return soft(after); }), soft_error);
  }

  // Largest errors of softmax in some rows, relative to the row's largest value, and of the
  // gradients.
  [[nodiscard]] std::pair<double, double> line_errors(const Tensor& logits,
                                                      const Tensor& targets,
                                                      const Tensor& soft,
                                                      const Tensor& gradients) const {
    const std::int64_t rows = logits.shape()[0];
    const auto classes = static_cast<std::size_t>(logits.shape()[1]);
    const std::vector<std::int64_t> at{0, 1, 2, 3, 5, 8, 13, rows / 2, rows - 2, rows - 1};
    const auto host = [&](const Tensor& x) {
      return picked(x, 0, at).to(DType::f32).to_vector<float>();
    };
    const std::vector<float> x = host(logits);
    const std::vector<float> y = host(soft);
    const std::vector<float> g = host(gradients);
    const std::vector<std::int64_t> target = picked(targets, 0, at).to_vector<std::int64_t>();
    double soft_error = 0;
    double grad_error = 0;
    for (std::size_t r = 0; r < at.size(); ++r) {
      const float* const line = x.data() + r * classes;
      const double top = *std::max_element(line, line + classes);
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c) {
        sum += std::exp(line[c] - top);
      }
      for (std::size_t c = 0; c < classes; ++c) {
        const double want = std::exp(line[c] - top) / sum;
        const double hit = static_cast<std::int64_t>(c) == target[r] ? 1 : 0;
        soft_error = std::max(soft_error, std::abs(y[r * classes + c] - want) * sum);
        grad_error =
            std::max(grad_error,
                     std::abs(g[r * classes + c] * static_cast<double>(rows) - (want - hit)) *
                         (hit == 0 ? sum : 1));
      }
    }
    return {soft_error, grad_error};
  }

  Device device_;
};

}  // namespace hearth::bench
