// Many clients at once on one model: loads the weights that train_mnist saved and lets client
// threads ask for the class of test pictures.
//   concurrent_inference --clients N --seconds T --weights FOLDER --data builtin|mnist|DIR
//   --devices cpu:0,cpu:1 --limit-ms L --load X
// Each thread owns a Stream; the weights are frozen, so that all of them read the same memory
// without a lock. Where nothing was saved and no folder is named, it trains a small network first.
// With --limit-ms a request that is not answered in time is given up: what has not begun of it does
// not run. With --load requests come X times as fast as the machine can answer them: a client sheds
// those that have waited for half of their limit, so that the others make it.
#include "concurrent_inference_options.hpp"
#include "latencies.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <hearth/modules/activations.hpp>
#include <hearth/modules/adam.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/data_loader.hpp>
#include <hearth/modules/digits.hpp>
#include <hearth/modules/idx.hpp>
#include <hearth/modules/image_dataset.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/parallel/frozen.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>
#include <hearth/runtime/stream.hpp>

namespace {

using concurrent_inference::Clock;
using concurrent_inference::Latencies;
using concurrent_inference::Options;
using hearth::Tensor;

constexpr const char* kSavedWeights = "checkpoints/mnist";  // where train_mnist puts them

Clock::duration duration_of(double seconds) {
  // Rounded up, so that a time above 0 stays one.
  return std::chrono::ceil<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// The two networks of train_mnist.
struct Mlp {
  hearth::Linear a, b, c;
  Mlp(const hearth::Device& device, hearth::Generator& generator)
      : a({.in = 784, .out = 512}, device, generator),
        b({.in = 512, .out = 512}, device, generator),
        c({.in = 512, .out = 10}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return c.forward(relu(b.forward(relu(a.forward(flatten(x, 1))))));
  }
  HEARTH_MODULE(Mlp, a, b, c)
};
struct Cnn {
  hearth::Conv2d a, b;
  hearth::Linear c;
  Cnn(const hearth::Device& device, hearth::Generator& generator)
      : a({.in = 1, .out = 32, .padding = {1, 1}}, device, generator),
        b({.in = 32, .out = 64, .padding = {1, 1}}, device, generator),
        c({.in = 3136, .out = 10}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    Tensor y = max_pool2d(relu(a.forward(x)));
    y = max_pool2d(relu(b.forward(std::move(y))));
    return c.forward(flatten(std::move(y), 1));
  }
  HEARTH_MODULE(Cnn, a, b, c)
};

struct Client {
  hearth::Device device;
  Latencies latencies;  // of the requests answered in time
  std::uint64_t right = 0;
  std::uint64_t shed = 0;  // turned away before they ran
  std::uint64_t late = 0;  // given up at their limit, or answered after it
  std::string failure;
};

/// Sleeps: nobody ends the wait before its time.
class Pause {
 public:
  void until(Clock::time_point time) const {
    static_cast<void>(end_.wait({.deadline = hearth::Deadline::at(time)}));
  }

 private:
  hearth::Promise<void> never_;
  hearth::Pending<void> end_ = never_.pending();
};

/// When a client's requests come, and how long each may take.
struct Schedule {
  Clock::duration interval{};  // zero: each when the last answer is there
  Clock::duration limit{};     // zero: none
  Clock::time_point next;

  /// Waits for the next request; when it came.
  Clock::time_point take(Client& client, const Pause& pause, const std::atomic<bool>& is_over) {
    if (interval == Clock::duration::zero()) {
      return Clock::now();
    }
    for (Clock::time_point now = Clock::now(); now < next; now = Clock::now()) {
      if (is_over.load(std::memory_order_acquire)) {
        return next;
      }
      pause.until(std::min(next, now + std::chrono::milliseconds(100)));
    }
    // What has waited too long would be late, and would make those behind it late too.
    for (const Clock::time_point oldest = Clock::now() - limit / 2; next < oldest;) {
      next += interval;
      ++client.shed;
    }
    return std::exchange(next, next + interval);
  }
};

/// Asks again and again, until it is over.
template <class Model>
void ask(Client& client,
         const hearth::Frozen<Model>& model,
         const hearth::ImageDataset& pictures,
         std::int64_t first,
         Schedule schedule,
         const std::atomic<bool>& is_over) try {
  const bool has_limit = schedule.limit != Clock::duration::zero();
  const Pause pause;
  hearth::Stream stream(model.device());
  const hearth::StreamScope scope(stream);
  for (std::int64_t i = first;; i += 7) {
    const std::array<std::int64_t, 1> index{i % pictures.size()};
    hearth::Examples example = pictures.read(index);
    const auto label = example.targets.template values<std::int64_t>()[0];
    const Clock::time_point start = schedule.take(client, pause, is_over);
    if (is_over.load(std::memory_order_acquire)) {
      return;
    }
    std::vector<float> scores;
    if (has_limit) {
      stream.set_limits({.deadline = hearth::Deadline::at(start + schedule.limit)});
    }
    try {
      const Tensor x = std::move(example.inputs).to(model.device());
      scores = model->forward(x).template to_vector<float>();
    } catch (const hearth::DeadlineExceeded&) {
      if (!has_limit) {
        throw;
      }
      ++client.late;  // what was queued of it does not run
      continue;
    }
    const Clock::duration time = Clock::now() - start;
    if (has_limit && time > schedule.limit) {
      ++client.late;
      continue;
    }
    client.latencies.add(time);
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    client.right += best == label ? 1 : 0;
  }
} catch (const std::exception& error) {
  client.failure = error.what();
}

Latencies::Counts counts_of(const std::vector<std::unique_ptr<Client>>& clients) {
  Latencies::Counts sum{};
  for (const auto& client : clients) {
    client->latencies.add_to(sum);
  }
  return sum;
}

double device_mib(const std::vector<hearth::Device>& devices) {
  std::int64_t bytes = 0;
  for (const hearth::Device& device : devices) {
    bytes += device.memory().reserved_bytes;
  }
  return static_cast<double>(bytes) / (1 << 20);
}

double process_mib() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

/// What clients have done together.
struct Figures {
  Latencies::Counts counts{};
  std::uint64_t right = 0;
  std::uint64_t shed = 0;
  std::uint64_t late = 0;

  void add(const Client& client) {
    client.latencies.add_to(counts);
    right += client.right;
    shed += client.shed;
    late += client.late;
  }
  void print(const std::string& name, double seconds) const {
    const auto requests = static_cast<double>(Latencies::total(counts));
    std::printf("%-10s %10.0f %12.0f %10.0f %10.0f %9.2f %% %10llu %10llu\n",
                name.c_str(),
                requests,
                requests / seconds,
                Latencies::quantile_us(counts, 0.5),
                Latencies::quantile_us(counts, 0.99),
                100 * static_cast<double>(right) / std::max(requests, 1.0),
                static_cast<unsigned long long>(shed),
                static_cast<unsigned long long>(late));
  }
};

/// Clients that ask for a while.
struct Run {
  std::vector<std::unique_ptr<Client>> clients;
  double seconds = 0;

  [[nodiscard]] Figures figures() const {
    Figures all;
    for (const auto& client : clients) {
      all.add(*client);
    }
    return all;
  }
  [[nodiscard]] double answers_per_second() const {
    return static_cast<double>(Latencies::total(counts_of(clients))) / seconds;
  }
};

void print_table(const Run& run, const std::vector<hearth::Device>& devices) {
  std::printf("\n%-10s %10s %12s %10s %10s %11s %10s %10s\n",
              "device",
              "answered",
              "answers/s",
              "p50 us",
              "p99 us",
              "right",
              "shed",
              "late");
  for (const hearth::Device& device : devices) {
    Figures own;
    for (const auto& client : run.clients) {
      if (client->device == device) {
        own.add(*client);
      }
    }
    own.print(device.name(), run.seconds);
  }
  run.figures().print("all", run.seconds);
  std::printf("device memory %.1f MiB, process %.1f MiB\n", device_mib(devices), process_mib());
}

/// A line twice a second, until the time is over.
void watch(const std::vector<std::unique_ptr<Client>>& clients,
           const std::vector<hearth::Device>& devices,
           double seconds) {
  const Pause pause;
  const bool is_terminal = isatty(STDOUT_FILENO) == 1;
  const Clock::time_point start = Clock::now();
  const auto seconds_since = [](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  };
  Latencies::Counts before{};
  Clock::time_point last = start;
  while (seconds_since(start) < seconds) {
    const double left = seconds - seconds_since(start);
    pause.until(Clock::now() + duration_of(std::clamp(left, 0.01, 0.5)));
    const Latencies::Counts now = counts_of(clients);
    Latencies::Counts window{};
    for (std::size_t i = 0; i < now.size(); ++i) {
      window[i] = now[i] - before[i];
    }
    std::printf("%s%4.1f s  %7.0f requests/s  p50 %5.0f us  p99 %6.0f us  memory %5.1f MiB%s",
                is_terminal ? "\r" : "",
                seconds_since(start),
                static_cast<double>(Latencies::total(window)) / seconds_since(last),
                Latencies::quantile_us(window, 0.5),
                Latencies::quantile_us(window, 0.99),
                device_mib(devices),
                is_terminal ? "  " : "\n");
    std::fflush(stdout);
    before = now;
    last = Clock::now();
  }
}

/// `offered`: requests a second, by all clients together; 0: each asks when it has its answer.
template <class Model>
Run run_clients(const std::vector<hearth::Frozen<Model>>& replicas,
                const std::vector<hearth::Device>& devices,
                const hearth::ImageDataset& pictures,
                const Options& options,
                double offered,
                double limit_ms) {
  Run run;
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  const Clock::time_point start = Clock::now();
  const double interval = offered > 0 ? options.clients / offered : 0;
  for (int i = 0; i < options.clients; ++i) {
    const auto& replica = replicas[static_cast<std::size_t>(i) % replicas.size()];
    run.clients.push_back(std::make_unique<Client>());
    run.clients.back()->device = replica.device();
    const Schedule schedule{.interval = duration_of(interval),
                            .limit = duration_of(limit_ms / 1000),
                            .next = start + duration_of(interval * i / options.clients)};
    threads.emplace_back([&, i, schedule, client = run.clients.back().get()] {
      ask(*client, replica, pictures, i * 101, schedule, is_over);
    });
  }
  watch(run.clients, devices, options.seconds);
  is_over.store(true, std::memory_order_release);
  run.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  for (std::thread& thread : threads) {
    thread.join();
  }
  return run;
}

int failures_of(const Run& run) {
  int failures = 0;
  for (const auto& client : run.clients) {
    if (!client->failure.empty()) {
      std::fprintf(stderr,
                   "a client on %s ended: %s\n",
                   client->device.name().c_str(),
                   client->failure.c_str());
      ++failures;
    }
  }
  return failures;
}

template <class Model>
int serve(const Model& trained,
          const std::vector<hearth::Device>& devices,
          const hearth::ImageDataset& pictures,
          const Options& options) {
  std::vector<hearth::Frozen<Model>> replicas;
  replicas.reserve(devices.size());
  for (const hearth::Device& device : devices) {
    replicas.push_back(hearth::freeze(hearth::fork(trained, device)));
  }
  if (options.load == 0) {
    const Run run = run_clients(replicas, devices, pictures, options, 0, options.limit_ms);
    print_table(run, devices);
    return failures_of(run) == 0 ? 0 : 1;
  }
  std::printf("what the machine can bear:\n");
  const Run free = run_clients(replicas, devices, pictures, options, 0, 0);
  const double capacity = free.answers_per_second();
  const double offered = options.load * capacity;
  std::printf("\n%.1f times that, each request with %.0f ms:\n", options.load, options.limit_ms);
  const Run run = run_clients(replicas, devices, pictures, options, offered, options.limit_ms);
  print_table(run, devices);
  const Figures figures = run.figures();
  std::printf(
      "capacity %.0f requests/s, offered %.0f, answered in time %.0f (%.3f of the capacity), "
      "shed %.0f, late %.0f\n",
      capacity,
      offered,
      run.answers_per_second(),
      run.answers_per_second() / std::max(capacity, 1.0),
      static_cast<double>(figures.shed) / run.seconds,
      static_cast<double>(figures.late) / run.seconds);
  return failures_of(free) + failures_of(run) == 0 ? 0 : 1;
}

/// Two epochs on built-in digits, for users who have not run train_mnist yet.
Mlp trained_now(const hearth::Runtime& runtime, const hearth::Device& device) {
  hearth::Generator generator(1);
  Mlp model(device, generator);
  const hearth::ImageDataset digits(hearth::make_digits({.count = 8000, .seed = 1}),
                                    {.mean = 0.1307F, .deviation = 0.3081F});
  hearth::DataLoader loader(digits, runtime.executor(), {.batch_size = 64});
  hearth::Adam adam({.learning_rate = 1e-3});
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (const auto batch = loader.next(device)) {
      auto result = hearth::value_and_grad(model, [&](const Mlp& tracked) {
        return cross_entropy(tracked.forward(batch->inputs), batch->targets);
      });
      adam.step(model, std::move(result.gradients)).get();
    }
  }
  return model;
}

/// Pictures that train_mnist tests with, and does not train on.
hearth::ImageDataset test_pictures(const std::string& data) {
  constexpr hearth::ImageOptions kLikeTraining{.mean = 0.1307F, .deviation = 0.3081F};
  if (data == "builtin") {
    return hearth::ImageDataset(hearth::make_digits({.count = 2000, .seed = 1, .first = 12000}),
                                kLikeTraining);
  }
  if (data != "mnist") {
    return hearth::ImageDataset(hearth::find_mnist(data).test, kLikeTraining);
  }
  const char* root =
      std::getenv("HEARTH_DATA_DIR");  // NOLINT(concurrency-mt-unsafe): before the clients
  if (root == nullptr) {
    throw std::runtime_error(
        "the pictures of 'mnist' are in mnist/ of the folder HEARTH_DATA_DIR, which is not set; "
        "--data builtin asks about the built-in ones");
  }
  return hearth::ImageDataset(hearth::find_mnist(std::filesystem::path(root) / "mnist").test,
                              kLikeTraining);
}

int run(const Options& options) {
  hearth::RuntimeOptions runtime_options;
  for (const std::string& name : options.devices) {
    runtime_options.devices.push_back({.name = name});
  }
  const hearth::Runtime runtime(runtime_options);
  const std::vector<hearth::Device> devices = runtime.devices();
  const bool is_named = !options.weights.empty();
  const std::filesystem::path file =
      hearth::weights_file(is_named ? options.weights : kSavedWeights);
  if (!is_named && !std::filesystem::exists(file)) {
    std::printf("no %s, which train_mnist makes: training a small mlp first, %d clients\n",
                file.c_str(),
                options.clients);
    return serve(trained_now(runtime, devices.front()), devices, test_pictures("builtin"), options);
  }
  const auto metadata = hearth::SafetensorsFile::read(file).metadata();
  const auto note = [&metadata](const std::string& key, const std::string& otherwise) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? otherwise : found->second;
  };
  const std::string name = note("model", "mlp");
  const std::string data = options.data.empty() ? note("data", "builtin") : options.data;
  const hearth::ImageDataset pictures = test_pictures(data);
  std::printf("%s from %s, asked about pictures of '%s' by %d clients\n",
              name.c_str(),
              file.c_str(),
              data.c_str(),
              options.clients);
  hearth::Generator generator(1);
  if (name == "cnn") {
    Cnn model(devices.front(), generator);
    hearth::load_weights(model, file);
    return serve(model, devices, pictures, options);
  }
  Mlp model(devices.front(), generator);
  hearth::load_weights(model, file);
  return serve(model, devices, pictures, options);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const std::optional<int> exit_code = concurrent_inference::parse(argc, argv, options)) {
    return *exit_code;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "concurrent_inference: %s\n", error.what());
    return 1;
  }
}
