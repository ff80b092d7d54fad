// Convolutions beside oneDNN, in turns on one thread: hearth-onednn [--filter TEXT] [--rounds N]
// [--suite NAME]. oneDNN runs its direct forms, on plain layouts and on the layouts that it
// prefers, whose conversion is not counted.
#include "bench/kernels/bench_device.hpp"
#include "bench/kernels/operands.hpp"
#include "bench/kernels/problem.hpp"
#include "bench/kernels/suites.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <dnnl.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hearth::bench {
namespace {

using dnnl::memory;

constexpr auto kFloat = memory::data_type::f32;
// A sample lasts at least this long.
constexpr double kSampleSeconds = 1e-3;

// The processor time of the thread, without the time of other programs.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// One way to run a problem.
struct Side {
  std::string name;
  std::function<void()> run;
  int repeats = 1;
  std::vector<double> seconds = {};  ///< Time of a run, one for each round.

  void calibrate() {
    run();
    const double begin = thread_seconds();
    run();
    const double once = std::max(1e-7, thread_seconds() - begin);
    repeats = std::max(1, static_cast<int>(kSampleSeconds / once));
  }
  void sample() {
    const double begin = thread_seconds();
    for (int i = 0; i < repeats; ++i) {
      run();
    }
    seconds.push_back((thread_seconds() - begin) / repeats);
  }
};

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(
      std::lround(share * static_cast<double>(values.size() - 1)))];
}

// oneDNN's memory of one operand, filled with the same kind of elements as ours.
memory filled(const memory::desc& desc, const dnnl::engine& engine) {
  memory result(desc, engine);
  auto* const values = static_cast<float*>(result.get_data_handle());
  for (std::size_t i = 0; i < desc.get_size() / sizeof(float); ++i) {
    values[i] = static_cast<float>((i * 2654435761U >> 8U) % 2000U) / 1000.0F - 1.0F;
  }
  return result;
}

memory::dims dims_of(const Shape& shape) {
  memory::dims dims;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    dims.push_back(shape[axis]);
  }
  return dims;
}

// A convolution of oneDNN.
class Peer {
 public:
  Peer(const Problem& problem, bool is_plain) {
    ConvAttributes attributes;
    std::memcpy(&attributes, problem.attributes.data(), sizeof(attributes));
    const bool is_forward = problem.kind == OpKind::conv2d;
    const bool is_input = problem.kind == OpKind::conv2d_backward_input;
    const Shape& x = is_input ? problem.outputs[0].shape : problem.inputs[0].shape;
    const Shape& y = is_forward ? problem.outputs[0].shape
                     : is_input ? problem.inputs[0].shape
                                : problem.inputs[1].shape;
    const Shape& w = is_forward || is_input ? problem.inputs[1].shape : problem.outputs[0].shape;
    memory::dims weights = dims_of(w);
    if (attributes.groups > 1) {
      weights[0] /= attributes.groups;
      weights.insert(weights.begin(), attributes.groups);
    }
    using Tag = memory::format_tag;
    const memory::desc source(dims_of(x), kFloat, is_plain ? Tag::nchw : Tag::any);
    const memory::desc target(dims_of(y), kFloat, is_plain ? Tag::nchw : Tag::any);
    const memory::desc weight(weights,
                              kFloat,
                              !is_plain               ? Tag::any
                              : attributes.groups > 1 ? Tag::goihw
                                                      : Tag::oihw);
    const memory::dims strides{attributes.stride[0], attributes.stride[1]};
    const memory::dims padding{attributes.padding[0], attributes.padding[1]};
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const dnnl::convolution_forward::primitive_desc forward(
        {is_forward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training,
         kDirect,
         source,
         weight,
         target,
         strides,
         padding,
         padding},
        engine_);
    if (is_forward) {
      take(forward, dnnl::convolution_forward(forward));
      add(DNNL_ARG_SRC, forward.src_desc());
      add(DNNL_ARG_WEIGHTS, forward.weights_desc());
      add(DNNL_ARG_DST, forward.dst_desc());
    } else if (is_input) {
      const dnnl::convolution_backward_data::primitive_desc desc(
          {kDirect, source, weight, target, strides, padding, padding}, engine_, forward);
      take(desc, dnnl::convolution_backward_data(desc));
      add(DNNL_ARG_DIFF_SRC, desc.diff_src_desc());
      add(DNNL_ARG_WEIGHTS, desc.weights_desc());
      add(DNNL_ARG_DIFF_DST, desc.diff_dst_desc());
    } else {
      const dnnl::convolution_backward_weights::primitive_desc desc(
          {kDirect, source, weight, target, strides, padding, padding}, engine_, forward);
      take(desc, dnnl::convolution_backward_weights(desc));
      add(DNNL_ARG_SRC, desc.src_desc());
      add(DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc());
      add(DNNL_ARG_DIFF_DST, desc.diff_dst_desc());
    }
  }

  void run() {
    primitive_.execute(stream_, operands_);
    stream_.wait();
  }
  [[nodiscard]] const std::string& implementation() const { return implementation_; }

 private:
  template <class Desc>
  void take(const Desc& desc, dnnl::primitive primitive) {
    implementation_ = desc.impl_info_str();
    primitive_ = std::move(primitive);
  }
  void add(int argument, const memory::desc& desc) {
    operands_.emplace(argument, filled(desc, engine_));
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::primitive primitive_;
  std::string implementation_;
  std::unordered_map<int, memory> operands_;
};

// Medians of a problem, and the ratio of ours to the fastest form of oneDNN in each round.
void measure(BenchDevice& device, const std::string& name, const Problem& problem, int rounds) {
  const std::unique_ptr<Operands> operands = Operands::make(device, problem, Heat::hot).value();
  operands->fill(Data::uniform).value();
  std::vector<Side> sides;
  sides.push_back(
      {.name = "hearth", .run = [&] { device.run(operands->call(0), detail::kRulePick).value(); }});
  std::vector<std::unique_ptr<Peer>> peers;
  std::string implementations;
  for (const bool is_plain : {true, false}) {
    try {
      peers.push_back(std::make_unique<Peer>(problem, is_plain));
    } catch (const dnnl::error& error) {
      fmt::print(stderr,
                 "{}: oneDNN has no {} form: {}\n",
                 name,
                 is_plain ? "plain" : "blocked",
                 error.what());
      continue;
    }
    Peer* const peer = peers.back().get();
    sides.push_back({.name = is_plain ? "plain" : "blocked", .run = [peer] { peer->run(); }});
    implementations += (implementations.empty() ? "" : " | ") + peer->implementation();
  }
  for (Side& side : sides) {
    side.calibrate();
  }
  for (int round = 0; round < rounds; ++round) {
    for (Side& side : sides) {
      side.sample();
    }
  }
  std::vector<double> ratios;
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round) {
    double best = HUGE_VAL;
    for (std::size_t i = 1; i < sides.size(); ++i) {
      best = std::min(best, sides[i].seconds[round]);
    }
    ratios.push_back(sides[0].seconds[round] / best);
  }
  fmt::print("{:28} {:>9.1f}", name, quantile(sides[0].seconds, 0.5) * 1e6);
  for (const char* form : {"plain", "blocked"}) {
    const auto side = std::ranges::find(sides, form, &Side::name);
    fmt::print(
        " {:>9}",
        side == sides.end() ? "-" : fmt::format("{:.1f}", quantile(side->seconds, 0.5) * 1e6));
  }
  fmt::print("  {:6.2f} [{:.2f} {:.2f}]  {}\n",
             quantile(ratios, 0.5),
             quantile(ratios, 0.1),
             quantile(ratios, 0.9),
             implementations);
  std::fflush(stdout);
}

int run(int argument_count, char** arguments) {
  std::string filter = "mobile";
  int rounds = 11;
  for (int i = 1; i + 1 < argument_count; i += 2) {
    const std::string option = arguments[i];
    if (option == "--filter") {
      filter = arguments[i + 1];
    } else if (option == "--rounds") {
      rounds = std::max(1, std::atoi(arguments[i + 1]));
    } else {
      fmt::print(stderr, "usage: hearth-onednn [--filter SUITE|TEXT] [--rounds N]\n");
      return 2;
    }
  }
  const char* const threads = std::getenv("OMP_NUM_THREADS");
  if (threads == nullptr || std::string(threads) != "1") {
    fmt::print(stderr, "hearth-onednn: set OMP_NUM_THREADS=1, or oneDNN runs on several threads\n");
    return 2;
  }
  const std::unique_ptr<BenchDevice> device = BenchDevice::open("cpu:0", 1).value();
  fmt::print(
      "{:28} {:>9} {:>9} {:>9}  ratio to the best [10 % 90 %]\n", "row", "us", "plain", "blocked");
  const std::vector<SelectedRow> rows = select_rows(filter).value();
  for (const SelectedRow& selected : rows) {
    const std::vector<Problem> problems = parse_problems(selected.row.problem).value();
    for (const Problem& problem : problems) {
      measure(*device, std::string(selected.row.name), problem, rounds);
    }
  }
  return 0;
}

}  // namespace
}  // namespace hearth::bench

int main(int argument_count, char** arguments) {
  try {
    return hearth::bench::run(argument_count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hearth-onednn: %s\n", error.what());
    return 1;
  }
}
