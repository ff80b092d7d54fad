// A program that mpirun starts in mpirun_test. Its arguments are words "name=value":
//   train=10          steps of a DataParallel; process 0 prints the weights
//   fit=2             epochs of a Trainer, in folder=PATH, which resumes
//   devices=2         CPU devices of this process
//   shards=12,12      samples by rank in each step
//   drop=no           no Dropout, whose numbers differ by rank
//   fault=kill        in process at=1, before step step=3: kill, stop, throw, nan, exit, seed, halt
//   group=none        forgets the group; group=own has called MPI_Init itself
// Exit codes: 0; 3 after an exception, whose text is printed with the process's number.
#include <hearth/modules/activations.hpp>
#include <hearth/modules/digits.hpp>
#include <hearth/modules/evaluation_metric.hpp>
#include <hearth/modules/flatten.hpp>
#include <hearth/modules/image_dataset.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/parallel/trainer.hpp>

#include "training_support.hpp"

#include <dlfcn.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using hearth::DType;
using hearth::RankRange;
using hearth::testing::Samples;
using hearth::testing::TinyNet;

class Words final {
 public:
  Words(int count, char** words) {
    for (int i = 1; i < count; ++i) {
      const std::string word = words[i];
      const std::size_t end = word.find('=');
      values_[word.substr(0, end)] = word.substr(end + 1);
    }
  }
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise = "") const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }
  [[nodiscard]] std::int64_t number(const std::string& name, std::int64_t otherwise) const {
    return std::stoll(text(name, std::to_string(otherwise)));
  }
  [[nodiscard]] std::vector<std::int64_t> numbers(const std::string& name,
                                                  const std::string& otherwise) const {
    std::vector<std::int64_t> all;
    std::istringstream list(text(name, otherwise));
    for (std::string each; std::getline(list, each, ',');) {
      all.push_back(std::stoll(each));
    }
    return all;
  }

 private:
  std::map<std::string, std::string> values_;
};

// Calls MPI_Init as a program of its own would.
void init_mpi() {
  void* const library = ::dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  const auto init = library == nullptr
                        ? nullptr
                        : reinterpret_cast<int (*)(int*, char***)>(::dlsym(library, "MPI_Init"));
  if (init == nullptr || init(nullptr, nullptr) != 0) {
    throw std::runtime_error("no MPI_Init");
  }
}
void finalize_mpi() {
  void* const library = ::dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  reinterpret_cast<int (*)()>(::dlsym(library, "MPI_Finalize"))();
}

hearth::ProcessGroup group_of(const Words& words) {
  const std::string which = words.text("group", "environment");
  if (which == "none") {
    return {};
  }
  if (which == "own") {
    init_mpi();
  }
  return hearth::ProcessGroup::from_environment(
      {.deadline = std::chrono::milliseconds(words.number("deadline", 5000)),
       .library = words.text("library", "libmpi.so.40")});
}

// The fault of this process before a step, if there is one.
void meet_fault(const Words& words, int process, std::int64_t step) {
  if (process != words.number("at", 1) || step != words.number("step", 3)) {
    return;
  }
  const std::string fault = words.text("fault");
  if (fault == "kill") {
    std::raise(SIGKILL);
  } else if (fault == "stop") {
    std::raise(SIGSTOP);
  } else if (fault == "exit") {
    throw std::runtime_error("the data end here");
  }
}

Samples shard_of(const std::vector<std::int64_t>& sizes, int wanted, std::int64_t step) {
  std::int64_t begin = 0;
  for (int rank = 0; rank < wanted; ++rank) {
    begin += sizes.at(static_cast<std::size_t>(rank));
  }
  std::int64_t all = 0;
  for (const std::int64_t size : sizes) {
    all += size;
  }
  const Samples batch =
      hearth::testing::random_samples(all, TinyNet::kSide, static_cast<std::uint64_t>(step));
  return hearth::testing::cut(batch, begin, begin + sizes.at(static_cast<std::size_t>(wanted)));
}

void train(const Words& words, const hearth::ProcessGroup& group) {
  const hearth::Runtime runtime(
      hearth::testing::cpu_devices(static_cast<int>(words.number("devices", 1))));
  hearth::Generator generator(static_cast<std::uint64_t>(group.rank()) + 3);
  const double drop = words.text("drop", "yes") == "yes" ? 0.25 : 0;
  const TinyNet model(runtime.device("cpu:0"), generator, DType::f32, drop);
  const bool is_faulty = group.rank() == words.number("at", 1);
  const std::string fault = words.text("fault");
  const auto loss =
      [is_faulty, fault, left = words.number("step", 3)](
          const TinyNet& net, Samples& shard, hearth::WorkerContext& context) mutable {
        hearth::Tensor mean = hearth::testing::mean_loss(net, shard, context.device, DType::f32);
        if (is_faulty && left-- == 1) {
          if (fault == "throw") {
            throw std::runtime_error("the planted exception");
          }
          if (fault == "nan") {
            return mean * std::numeric_limits<double>::quiet_NaN();
          }
        }
        return mean;
      };
  const std::uint64_t seed = 5 + (is_faulty && fault == "seed" ? 1 : 0);
  hearth::DataParallel<TinyNet, Samples> trainer(
      runtime,
      model,
      loss,
      {.devices = runtime.devices(),
       .optimizer = hearth::Sgd::Config{.learning_rate = 0.1, .momentum = 0.9},
       .bucket_bytes = 256,
       .seed = seed,
       .processes = group});
  const std::vector<std::int64_t> sizes = words.numbers("shards", "12,12");
  const RankRange ranks = trainer.ranks();
  for (std::int64_t step = 1; step <= words.number("train", 0); ++step) {
    meet_fault(words, group.rank(), step);
    std::vector<Samples> shards;
    for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
      shards.push_back(shard_of(sizes, rank, step));
    }
    try {
      static_cast<void>(trainer.step(std::move(shards)));
    } catch (const hearth::Exception& exception) {
      // A step that failed for an ordinary reason: all processes go on.
      if (exception.code() == hearth::ErrorCode::collective_failed) {
        throw;
      }
      std::printf("process %d, step %d failed: %s\n",
                  group.rank(),
                  static_cast<int>(step),
                  exception.error().text.c_str());
    }
  }
  const std::vector<double> weights = hearth::testing::weights_of(trainer.snapshot());
  if (group.is_first()) {
    std::printf("weights:");
    for (const double weight : weights) {
      std::printf(" %a", weight);
    }
    std::printf("\n");
  }
}

void fit(const Words& words, const hearth::ProcessGroup& group) {
  const hearth::Runtime runtime(
      hearth::testing::cpu_devices(static_cast<int>(words.number("devices", 1))));
  hearth::Generator generator(1);
  const hearth::Device device = runtime.device("cpu:0");
  const hearth::Sequential model(hearth::Flatten(),
                                 hearth::Linear({.in = 784, .out = 16}, device, generator),
                                 hearth::Relu(),
                                 hearth::Linear({.in = 16, .out = 10}, device, generator));
  const hearth::ImageDataset digits(hearth::make_digits({.count = 210}));
  const hearth::ImageDataset judged(hearth::make_digits({.count = 70, .seed = 9}));
  const auto on_step = [&](const hearth::TrainingStep& step, hearth::RunControl& control) {
    meet_fault(words, group.rank(), step.step);
    control.stop = words.text("fault") == "halt" && group.rank() == 1 && step.step == 3;
  };
  hearth::TrainerOptions options;
  options.epochs = words.number("fit", 1);
  options.batch_size = 30;
  options.metrics = {hearth::accuracy_metric()};
  options.folder = words.text("folder");
  options.save_every = 2;
  options.resume = true;
  options.console.style = hearth::ConsoleStyle::plain;
  options.callbacks.push_back({.on_step = on_step});
  options.parallel.processes = group;
  hearth::Trainer trainer(runtime, model, hearth::CrossEntropyLoss(), options);
  const hearth::TrainingResult result = trainer.fit(digits, judged);
  if (group.is_first() && !result.history.epochs.empty()) {
    std::printf("world %d, loss %a\n",
                trainer.parallel().world(),
                result.history.epochs.back().validation_loss.value());
  }
}

}  // namespace

int main(int count, char** arguments) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const Words words(count, arguments);
  int process = -1;
  int code = 0;
  try {
    const hearth::ProcessGroup group = group_of(words);
    process = group.rank();
    words.text("fit").empty() ? train(words, group) : fit(words, group);
  } catch (const std::exception& exception) {
    std::printf("process %d ends: %s\n", process, exception.what());
    code = 3;
  }
  if (code == 0 && words.text("group") == "own") {
    finalize_mpi();
  }
  return code;
}
