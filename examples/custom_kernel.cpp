// A kernel of your own, in C++ for CPUs and in a text for GPUs: RMS norm of each row. It is checked
// against plain ops on each device of the machine, and timed beside them.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <hearth/hearth.hpp>

using hearth::HostKernelCall;
using hearth::Tensor;
using hearth::TensorForm;

// Computes y = x / sqrt(mean(x²) + epsilon), row by row.
void norm_rows(const HostKernelCall& call) {
  const auto x = call.input<float>(0);
  const auto y = call.output<float>();
  const auto columns = static_cast<std::size_t>(call.input_shape(0)[1]);
  const auto epsilon = static_cast<float>(call.number(0));
  call.parallel_for(call.input_shape(0)[0], 16, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row) {
      float sums[8] = {};  // several sums, so that additions do not wait for one another
      for (std::size_t i = 0; i < columns; ++i) {
        sums[i % 8] += x[row * columns + i] * x[row * columns + i];
      }
      float sum = 0;
      for (const float each : sums) {
        sum += each;
      }
      const float factor = 1 / std::sqrt(sum / static_cast<float>(columns) + epsilon);
      for (std::size_t i = 0; i < columns; ++i) {
        y[row * columns + i] = x[row * columns + i] * factor;
      }
    }
  });
}

// The same for GPUs, one workgroup per row. This text is GLSL and CUDA C++ at once: SHARED and
// barrier() are words of both, and so are literals with f. Hearth supplies x(i), set_y(i, value),
// x_size(axis) and epsilon.
constexpr const char* kNormRows = R"(
SHARED(float, part, THREADS);

void kernel() {
  const INDEX columns = x_size(1);
  const INDEX first = INDEX(GROUP) * columns;
  float sum = 0.0f;
  for (INDEX i = INDEX(THREAD); i < columns; i += THREADS) {
    sum += x(first + i) * x(first + i);
  }
  part[THREAD] = sum;
  barrier();
  for (uint width = THREADS / 2; width > 0; width /= 2) {
    if (THREAD < width) {
      part[THREAD] += part[THREAD + width];
    }
    barrier();
  }
  const float factor = 1.0f / sqrt(part[0] / float(columns) + epsilon);
  for (INDEX i = INDEX(THREAD); i < columns; i += THREADS) {
    set_y(first + i, x(first + i) * factor);
  }
}
)";

Tensor factor_of(const Tensor& x, double epsilon) {
  return rsqrt(mean(square(x), {1}, {.keep_dims = true}) + epsilon);
}

std::int64_t group_a_row(std::span<const TensorForm> in, std::span<const TensorForm> /*results*/) {
  return in[0].shape[0];
}

hearth::CustomKernel make_norm() {
  return hearth::custom_op({
      .name = "row_norm",
      .inputs = {{"x", {hearth::DType::f32}}},
      .numbers = {{"epsilon"}},
      .rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> {
        if (in[0].shape.rank() != 2) {
          throw std::invalid_argument("x has to be [rows, columns]");
        }
        return {in[0]};
      },
      .host = norm_rows,
      .glsl = {.text = kNormRows, .threads = 64, .groups = group_a_row},
      .cuda = {.text = kNormRows, .threads = 64, .groups = group_a_row},
      .vjp =
          [](const hearth::CustomGradient& call) {
            const Tensor& y = call.outputs[0];
            const Tensor along = mean(call.gradient * y, {1}, {.keep_dims = true});
            const Tensor factor = factor_of(call.inputs[0], call.numbers[0]);
            return std::vector<Tensor>{factor * (call.gradient - y * along)};
          },
      .reference =
          [](std::span<const Tensor> in, std::span<const double> numbers) {
            return std::vector<Tensor>{in[0] * factor_of(in[0], numbers[0])};
          },
  });
}

template <class Run>
double milliseconds(const hearth::Device& device, const Run& run) {
  constexpr int kRounds = 20;
  const auto run_once = [&] {
    const Tensor result = run();  // kept until sync(): a tensor without a handle is not computed
    device.sync();
  };
  run_once();
  run_once();  // all kernels are compiled now
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    run_once();
  }
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  return time.count() / kRounds;
}

int main() {
  const hearth::CustomKernel norm = make_norm();
  for (const hearth::AvailableDevice& each : hearth::available_devices()) {
    if (!each.lack.empty()) {
      std::printf("%s: %s\n", each.name.c_str(), each.lack.c_str());
      continue;
    }
    const hearth::Runtime runtime({.devices = {{.name = each.name}}});
    const hearth::Device device = runtime.device();
    hearth::Generator generator(1);
    const Tensor small = random_normal(device, {37, 100}, generator);
    norm.check({small}, {1e-6});  // checks values and gradients; an error names the place
    const Tensor x = random_normal(device, {2048, 1024}, generator);
    const double own = milliseconds(device, [&] { return norm({x}, {1e-6}); });
    const double plain = milliseconds(device, [&] { return x * factor_of(x, 1e-6); });
    std::printf(
        "%s: as its reference; %.2f ms, plain ops %.2f ms\n", each.name.c_str(), own, plain);
  }
}
