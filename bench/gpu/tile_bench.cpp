// hearth-gpu-tiles: measures each tile of the tables in product.cpp for a product of a given size.
//     hearth-gpu-tiles [--dtype f16] [--size ROWSxCOLUMNSxDEPTH] [--transposed a|b|ab] [--tile N]
//                      [--dump FOLDER] [--texts FOLDER]
// Prints one JSON line each, with the largest error among some thousand recomputed sums. --dump
// writes each kernel's text to FOLDER; with --pretend 1 the texts are those for an H100, and
// nothing is measured. --texts measures edited texts in place of ours: a file TILE.NAME.comp runs
// with the grid of that tile. Clocks are warmed up first. Factors are random, because a GPU
// multiplies zeros faster.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/gpu/device/own_scratch.hpp"
#include "backends/gpu/launches/launch_encoder.hpp"
#include "backends/gpu/products/matrix_product.hpp"
#include "backends/gpu/products/product.hpp"
#include "backends/gpu/store/kernel_store.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "backends/vulkan/device/physical_list.hpp"
#include "backends/vulkan/queue/vulkan_queue.hpp"
#include "backends/vulkan/vulkan_gpu.hpp"
#include "bench/gpu/large_gpu.hpp"

namespace hearth::vulkan {
namespace {

using Seconds = std::chrono::duration<double>;
namespace fs = std::filesystem;

struct Choice {
  std::string device = "0";
  std::string transposed;
  std::string dump;
  std::string texts;
  DType dtype = DType::f16;
  std::int64_t rows = 4096, columns = 4096, depth = 4096;
  int tile = -1;
  bool pretends = false;
  bool sums_f16 = false;
};

constexpr std::int64_t kSamples = 4096;

/// Forwards to the launch encoder with other limits, and with other texts where given.
class TileEncoder final : public gpu::KernelEncoder {
 public:
  TileEncoder(const gpu::GpuDevice& device,
              gpu::KernelStore& kernels,
              gpu::LaunchStream& ops,
              bool pretends)
      : memory_(device, ops),
        own_(device.facts().limits, kernels, nullptr, ops, memory_),
        limits_(device.facts().limits),
        pretends_(pretends) {
    if (pretends) {
      limits_ = gpu::kLargeGpu;
    }
    limits_.baked_from = 0;
  }
  [[nodiscard]] const gpu::DeviceLimits& limits() const noexcept override { return limits_; }
  [[nodiscard]] Status dispatch(const gpu::KernelKey& key,
                                gpu::KernelText text,
                                const gpu::ParameterBlock& parameters,
                                gpu::Grid grid) override {
    const bool is_main = dispatches_++ == 0;
    gpu::KernelKey own = key;
    own.add(number_).add(limits_.only_tile);
    const auto make = [&]() -> std::string {
      if (is_main && !text_.empty()) {
        return text_;
      }
      std::string made = text();
      if (is_main && !dump_.empty()) {
        std::ofstream(dump_) << made;
      }
      return made;
    };
    if (pretends_) {
      static_cast<void>(make());
      return {};
    }
    return own_.dispatch(own, make, parameters, grid);
  }
  void barrier() override { own_.barrier(); }
  [[nodiscard]] Result<std::uint64_t> scratch(std::int64_t size_bytes) override {
    return own_.scratch(size_bytes);
  }
  [[nodiscard]] std::uint64_t error_cell() const noexcept override { return 0; }
  [[nodiscard]] std::uint64_t guard() const noexcept override { return 0; }
  [[nodiscard]] std::span<const std::int8_t> keeps() const noexcept override { return {}; }

  /// Sets the next tile of the table, and an optional text for it.
  void set(int tile, std::string text, std::string dump) {
    limits_.only_tile = tile;
    text_ = std::move(text);
    dump_ = std::move(dump);
    ++number_;
  }
  void begin() noexcept { dispatches_ = 0; }

 private:
  gpu::OwnScratch memory_;
  gpu::LaunchEncoder own_;
  gpu::DeviceLimits limits_;
  bool pretends_;
  std::string text_;
  std::string dump_;
  int dispatches_ = 0;
  int number_ = 0;
};

class Tiles final {
 public:
  explicit Tiles(Choice choice) : choice_(std::move(choice)) {
    const PhysicalList list = list_physical().value();
    device_ = VulkanDevice::open("gpu",
                                 list.instance,
                                 list.devices.at(std::stoul(choice_.device)),
                                 {.allows_f16_sums = choice_.sums_f16})
                  .value();
    gpu_ = VulkanGpu::make(device_).value();
    kernels_ = std::make_unique<gpu::KernelStore>(gpu_->compiler(), nullptr);
    ops_ = std::make_unique<gpu::LaunchStream>(gpu_->make_queue(gpu::QueueWork::kernels).value());
    encoder_ = std::make_unique<TileEncoder>(*gpu_, *kernels_, *ops_, choice_.pretends);
    const std::int64_t size = size_bytes(choice_.dtype);
    a_ =
        device_->make_buffer(choice_.rows * choice_.depth * size, gpu::MemoryPlace::device).value();
    b_ = device_->make_buffer(choice_.depth * choice_.columns * size, gpu::MemoryPlace::device)
             .value();
    y_ = device_
             ->make_buffer(choice_.rows * choice_.columns * size_bytes(result_dtype()),
                           gpu::MemoryPlace::device)
             .value();
    errors_ = device_->make_buffer(kSamples * 4, gpu::MemoryPlace::host_read).value();
    fill(a_, choice_.dtype, choice_.rows * choice_.depth, 1);
    fill(b_, choice_.dtype, choice_.depth * choice_.columns, 2);
    wait();
  }

  void run() {
    if (!choice_.texts.empty()) {
      std::vector<fs::path> files;
      for (const fs::directory_entry& entry : fs::directory_iterator(choice_.texts)) {
        files.push_back(entry.path());
      }
      std::ranges::sort(files);
      for (const fs::path& file : files) {
        std::ostringstream text;
        text << std::ifstream(file).rdbuf();
        measure(std::stoi(file.filename().string()), text.str(), file.stem().string());
      }
      return;
    }
    for (int tile = 0; tile < gpu::tile_count(choice_.dtype, has_units(), encoder_->limits());
         ++tile) {
      if (choice_.tile < 0 || choice_.tile == tile) {
        measure(tile, "", std::to_string(tile));
      }
    }
  }

 private:
  [[nodiscard]] bool has_units() const noexcept {
    return can_cooperate(choice_.dtype, choice_.rows, choice_.columns, encoder_->limits());
  }

  void wait() {
    ops_->flush().value();
    const VkSemaphore semaphore = semaphore_of(ops_->queue());
    const std::uint64_t value = ops_->submitted();
    VkSemaphoreWaitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
    info.semaphoreCount = 1;
    info.pSemaphores = &semaphore;
    info.pValues = &value;
    constexpr std::uint64_t kMost = 60'000'000'000U;
    if (device_->api().vkWaitSemaphores(device_->handle(), &info, kMost) != VK_SUCCESS) {
      throw std::runtime_error("the GPU does not finish");
    }
  }

  [[nodiscard]] DType result_dtype() const noexcept {
    return choice_.dtype == DType::i8 ? DType::i32 : choice_.dtype;
  }

  // Fills a buffer with sums of four uniform numbers, which are about normal; integers are forty
  // times as large.
  void fill(const Buffer& buffer, DType dtype, std::int64_t count, int seed) {
    constexpr int kThreads = 256;
    gpu::ParameterBlock parameters;
    parameters.add(buffer.address()).add(static_cast<std::int32_t>(count)).add(seed);
    gpu::KernelKey key(gpu::KernelFamily::custom);
    key.add(1U).add(dtype);
    const auto text = [&] {
      return gpu::glsl_prelude({.threads = kThreads}) +
             gpu::glsl_parameters("uint64_t to; int count; int seed; ", parameters.size_bytes()) +
             fmt::format(R"(
uint mix_bits(uint x) {{
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}}
void main() {{
  const uint i = GROUP * 256u + THREAD;
  if (i >= uint(p.count)) {{
    return;
  }}
  float sum = -2.0;
  for (uint k = 0u; k < 4u; ++k) {{
    sum += float(mix_bits(mix_bits(i * 4u + k) + uint(p.seed) * 0x9e3779b9u) >> 8) / 16777216.0;
  }}
  store_{}(p.to, int(i), {}(sum * {}));
}})",
                         gpu::glsl_suffix(dtype),
                         gpu::glsl_compute_type(dtype),
                         is_float(dtype) ? "1.7320508" : "40.0");
    };
    const gpu::KernelHandle kernel = kernels_->kernel(key, text).value();
    ops_->begin_launch({}, {}).value();
    ops_->dispatch(kernel, parameters, encoder_->linear((count + kThreads - 1) / kThreads)).value();
    ops_->barrier();
  }

  [[nodiscard]] gpu::MatrixProduct product() const {
    const auto data = [](const Buffer& buffer) {
      return reinterpret_cast<const std::byte*>(buffer.address());  // NOLINT: a device address
    };
    const bool turns_a = choice_.transposed.find('a') != std::string::npos;
    const bool turns_b = choice_.transposed.find('b') != std::string::npos;
    return {.dtype = choice_.dtype,
            .a = data(a_),
            .b = data(b_),
            .rows = choice_.rows,
            .columns = choice_.columns,
            .depth = choice_.depth,
            .a_row = turns_a ? 1 : choice_.depth,
            .a_depth = turns_a ? choice_.rows : 1,
            .b_depth = turns_b ? 1 : choice_.columns,
            .b_column = turns_b ? choice_.depth : 1};
  }

  void encode() {
    const OpRecord record;
    const hearth::detail::Layout layout(Shape{choice_.rows, choice_.columns});
    const TensorView view{
        reinterpret_cast<std::byte*>(y_.address()), &layout, result_dtype()};  // NOLINT
    const KernelCall call{OpView(record, nullptr), {}, std::span(&view, 1), nullptr, nullptr};
    const gpu::ByteSpan span{y_.address(),
                             y_.address() + static_cast<std::uint64_t>(y_.size_bytes())};
    encoder_->begin();
    ops_->begin_launch({}, {&span, 1}).value();
    if (const Status status = gpu::encode_product(product(), call, *encoder_);
        !status.has_value()) {
      throw std::runtime_error(status.error().text);
    }
  }

  // Computes the sums of samples spread over the result again, and returns the largest error.
  double largest_error() {
    constexpr int kThreads = 64;
    const gpu::MatrixProduct p = product();
    gpu::ParameterBlock parameters;
    parameters.add(a_.address()).add(b_.address()).add(y_.address()).add(errors_.address());
    for (const std::int64_t value :
         {p.rows, p.columns, p.depth, p.a_row, p.a_depth, p.b_depth, p.b_column}) {
      parameters.add(static_cast<std::int32_t>(value));
    }
    gpu::KernelKey key(gpu::KernelFamily::custom);
    key.add(2U);
    const auto text = [&] {
      return gpu::glsl_prelude({.threads = kThreads}) +
             gpu::glsl_parameters(
                 "uint64_t a; uint64_t b; uint64_t y; uint64_t errors; int rows; int columns; "
                 "int depth; int a_row; int a_depth; int b_depth; int b_column; ",
                 parameters.size_bytes()) +
             fmt::format(R"(
void main() {{
  const uint i = GROUP * {0}u + THREAD;
  // Edges too: the first and the last rows and columns are half of all.
  const uint far = i * 2654435761u;
  const int row = (i & 3u) == 0u ? p.rows - 1 - int(far % 200u) % p.rows : int(far % uint(p.rows));
  const uint more = far / 7u + i * 40503u;
  const int column = (i & 3u) == 1u ? p.columns - 1 - int(more % 200u) % p.columns
                                    : int(more % uint(p.columns));
  float sum = 0.0;
  for (int k = 0; k < p.depth; ++k) {{
    sum += float(load_{1}(p.a, row * p.a_row + k * p.a_depth) *
                 load_{1}(p.b, k * p.b_depth + column * p.b_column));
  }}
  const float off = abs(float(load_{2}(p.y, row * p.columns + column)) - sum);
  store_f32(p.errors, int(i), off >= 0.0 ? off : 1e30);
}})",
                         kThreads,
                         gpu::glsl_suffix(choice_.dtype),
                         gpu::glsl_suffix(result_dtype()));
    };
    const gpu::KernelHandle kernel = kernels_->kernel(key, text).value();
    ops_->barrier();
    ops_->begin_launch({}, {}).value();
    ops_->dispatch(kernel, parameters, {.x = kSamples / kThreads}).value();
    ops_->barrier();
    wait();
    const auto* const found = reinterpret_cast<const float*>(errors_.host());  // NOLINT
    return *std::max_element(found, found + kSamples);
  }

  double microseconds(int count) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) {
      encode();
    }
    wait();
    return Seconds(std::chrono::steady_clock::now() - start).count() / count * 1e6;
  }

  void measure(int tile, const std::string& text, const std::string& label) {
    const std::string dump =
        choice_.dump.empty() ? "" : fmt::format("{}/{}.ours.comp", choice_.dump, tile);
    encoder_->set(tile, text, dump);
    try {
      // Poisons the result, so that unwritten elements are found.
      fill(y_, result_dtype(), choice_.rows * choice_.columns, 3);
      encode();
      if (choice_.pretends) {
        return;
      }
      const double error = largest_error();
      const double once = microseconds(2);
      const int count = std::clamp(static_cast<int>(20000 / once), 2, 200);
      for (double spent = 0; spent < 150000;) {
        spent += microseconds(count) * count;
      }
      std::array<double, 9> times{};
      for (double& time : times) {
        time = microseconds(count);
      }
      std::ranges::sort(times);
      const double median = times[times.size() / 2];
      const double work = 2.0 * static_cast<double>(choice_.rows) *
                          static_cast<double>(choice_.columns) * static_cast<double>(choice_.depth);
      fmt::print(
          "{{\"tile\": \"{}\", \"dtype\": \"{}\", \"size\": \"{}x{}x{}\", \"transposed\": \"{}\", "
          "\"median_us\": {:.2f}, \"min_us\": {:.2f}, \"TFLOPs\": {:.1f}, \"error\": {:.3g}}}\n",
          label,
          name(choice_.dtype),
          choice_.rows,
          choice_.columns,
          choice_.depth,
          choice_.transposed,
          median,
          times.front(),
          work / median / 1e6,
          error);
    } catch (const std::exception& error) {
      fmt::print("{{\"tile\": \"{}\", \"failed\": \"{:.300}\"}}\n", label, error.what());
    }
    std::fflush(stdout);
  }

  Choice choice_;
  std::shared_ptr<const VulkanDevice> device_;
  std::shared_ptr<const gpu::GpuDevice> gpu_;
  std::unique_ptr<gpu::KernelStore> kernels_;
  std::unique_ptr<gpu::LaunchStream> ops_;
  std::unique_ptr<TileEncoder> encoder_;
  Buffer a_, b_, y_, errors_;
};

constexpr std::string_view kUsage =
    "usage: hearth-gpu-tiles [--device 0] [--dtype f16|bf16|f32|f64|i8] "
    "[--size ROWSxCOLUMNSxDEPTH]\n"
    "       [--transposed a|b|ab] [--tile N] [--dump FOLDER] [--pretend 1] [--texts FOLDER] "
    "[--f16-sums 1]\n";

/// An argument without a valid meaning.
struct BadArgument : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Errors: BadArgument.
Choice parse(const std::vector<std::string>& arguments) {
  Choice choice;
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    const std::string& key = arguments[i];
    if (i + 1 == arguments.size()) {
      throw BadArgument("no option " + key + ", or it has no value");
    }
    const std::string& value = arguments[i + 1];
    if (key == "--dtype") {
      choice.dtype = value == "f32"    ? DType::f32
                     : value == "f64"  ? DType::f64
                     : value == "bf16" ? DType::bf16
                     : value == "i8"   ? DType::i8
                                       : DType::f16;
    } else if (key == "--size") {
      const std::size_t x = value.find('x');
      const std::size_t second = value.find('x', x + 1);
      choice.rows = std::stoll(value);
      choice.columns = std::stoll(value.substr(x + 1));
      choice.depth = std::stoll(value.substr(second + 1));
    } else if (key == "--transposed") {
      choice.transposed = value;
    } else if (key == "--tile") {
      choice.tile = std::stoi(value);
    } else if (key == "--dump") {
      choice.dump = value;
    } else if (key == "--texts") {
      choice.texts = value;
    } else if (key == "--pretend") {
      choice.pretends = value == "1";
    } else if (key == "--f16-sums") {
      choice.sums_f16 = value == "1";
    } else if (key == "--device") {
      choice.device = value;
    } else {
      throw BadArgument("no option " + key);
    }
  }
  return choice;
}

}  // namespace
}  // namespace hearth::vulkan

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (std::ranges::find(arguments, "--help") != arguments.end()) {
    fmt::print("{}", hearth::vulkan::kUsage);
    return 0;
  }
  try {
    hearth::vulkan::Tiles(hearth::vulkan::parse(arguments)).run();
    return 0;
  } catch (const hearth::vulkan::BadArgument& error) {
    fmt::print(stderr, "hearth-gpu-tiles: {}\n{}", error.what(), hearth::vulkan::kUsage);
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "hearth-gpu-tiles: {}\n", error.what());
    return 1;
  }
}
