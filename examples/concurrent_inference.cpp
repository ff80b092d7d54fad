// Many clients at once on one model: loads the weights that train_mnist saved and lets client threads ask for the class of test pictures.
//   concurrent_inference --clients N --seconds T --weights FOLDER --data builtin|mnist|DIR --devices cpu:0,cpu:1
// Each thread owns a Stream; the weights are frozen, so that all of them read the same memory without a lock. Where nothing was saved
// and no folder is named, it trains a small network first.
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

#include <CLI/CLI.hpp>

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

using hearth::Tensor;
using Clock = std::chrono::steady_clock;

constexpr const char* kSavedWeights = "checkpoints/mnist";  // where train_mnist puts them

struct Options {
  int clients = 16;
  double seconds = 5;
  std::string weights;
  std::string data;  // empty: what the weights were trained on
  std::vector<std::string> devices = {"cpu:0", "cpu:1"};
};

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

/// How long requests took, in steps of 5 %. One thread adds, another may read meanwhile.
class Latencies {
 public:
  using Counts = std::array<std::uint64_t, 400>;

  void add(Clock::duration time) {
    const double us = std::max(1.0, std::chrono::duration<double, std::micro>(time).count());
    const auto step = static_cast<std::size_t>(std::log(us) / kStep);
    counts_[std::min(step, counts_.size() - 1)].fetch_add(1, std::memory_order_relaxed);
  }
  void add_to(Counts& sum) const {
    for (std::size_t i = 0; i < sum.size(); ++i) {
      sum[i] += counts_[i].load(std::memory_order_relaxed);
    }
  }
  [[nodiscard]] static double quantile_us(const Counts& counts, double share) {
    std::uint64_t left = static_cast<std::uint64_t>(share * static_cast<double>(total(counts)));
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > left) {
        return std::exp((static_cast<double>(i) + 0.5) * kStep);
      }
      left -= counts[i];
    }
    return 0;
  }
  [[nodiscard]] static std::uint64_t total(const Counts& counts) {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts) {
      sum += count;
    }
    return sum;
  }

 private:
  static constexpr double kStep = 0.05;
  std::array<std::atomic<std::uint64_t>, 400> counts_{};
};

struct Client {
  hearth::Device device;
  Latencies latencies;
  std::uint64_t right = 0;
  std::string failure;
};

/// Asks again and again, each time when the last answer is there.
template <class Model>
void ask(Client& client,
         const hearth::Frozen<Model>& model,
         const hearth::ImageDataset& pictures,
         std::int64_t first,
         const std::atomic<bool>& is_over) try {
  hearth::Stream stream(model.device());
  const hearth::StreamScope scope(stream);
  for (std::int64_t i = first; !is_over.load(std::memory_order_acquire); i += 7) {
    const std::array<std::int64_t, 1> index{i % pictures.size()};
    hearth::Examples example = pictures.read(index);
    const auto label = example.targets.template values<std::int64_t>()[0];
    const Clock::time_point start = Clock::now();
    const Tensor x = std::move(example.inputs).to(model.device());
    const std::vector<float> scores = model->forward(x).template to_vector<float>();
    client.latencies.add(Clock::now() - start);
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

void print_row(const std::string& name,
               const Latencies::Counts& counts,
               double seconds,
               double right) {
  const auto requests = static_cast<double>(Latencies::total(counts));
  std::printf("%-10s %10.0f %12.0f %10.0f %10.0f %9.2f %%\n",
              name.c_str(),
              requests,
              requests / seconds,
              Latencies::quantile_us(counts, 0.5),
              Latencies::quantile_us(counts, 0.99),
              100 * right / std::max(requests, 1.0));
}

void print_table(const std::vector<std::unique_ptr<Client>>& clients,
                 const std::vector<hearth::Device>& devices,
                 double seconds) {
  std::printf("\n%-10s %10s %12s %10s %10s %11s\n",
              "device",
              "requests",
              "requests/s",
              "p50 us",
              "p99 us",
              "right");
  Latencies::Counts all{};
  double all_right = 0;
  for (const hearth::Device& device : devices) {
    Latencies::Counts own{};
    double right = 0;
    for (const auto& client : clients) {
      if (client->device == device) {
        client->latencies.add_to(own);
        client->latencies.add_to(all);
        right += static_cast<double>(client->right);
      }
    }
    all_right += right;
    print_row(device.name(), own, seconds, right);
  }
  print_row("all", all, seconds, all_right);
  std::printf("device memory %.1f MiB, process %.1f MiB\n", device_mib(devices), process_mib());
}

template <class Model>
int serve(const Model& trained,
          const std::vector<hearth::Device>& devices,
          const hearth::ImageDataset& pictures,
          const Options& options) {
  std::vector<hearth::Frozen<Model>> replicas;
  for (const hearth::Device& device : devices) {
    replicas.push_back(hearth::freeze(hearth::fork(trained, device)));
  }
  std::vector<std::unique_ptr<Client>> clients;
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < options.clients; ++i) {
    const auto& replica = replicas[static_cast<std::size_t>(i) % replicas.size()];
    clients.push_back(std::make_unique<Client>());
    clients.back()->device = replica.device();
    threads.emplace_back([&, i, client = clients.back().get()] {
      ask(*client, replica, pictures, i * 101, is_over);
    });
  }
  const bool is_terminal = isatty(STDOUT_FILENO) == 1;
  const Clock::time_point start = Clock::now();
  const auto seconds_since = [](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  };
  const hearth::Promise<void> never;
  const hearth::Pending<void> end = never.pending();  // what the main thread waits for in between
  Latencies::Counts before{};
  Clock::time_point last = start;
  while (seconds_since(start) < options.seconds) {
    const double left = options.seconds - seconds_since(start);
    const std::chrono::duration<double> pause(std::clamp(left, 0.01, 0.5));
    static_cast<void>(end.wait_for(std::chrono::duration_cast<std::chrono::nanoseconds>(pause)));
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
  is_over.store(true, std::memory_order_release);
  const double seconds = seconds_since(start);
  for (std::thread& thread : threads) {
    thread.join();
  }
  print_table(clients, devices, seconds);
  int failures = 0;
  for (const auto& client : clients) {
    if (!client->failure.empty()) {
      std::fprintf(stderr,
                   "a client on %s ended: %s\n",
                   client->device.name().c_str(),
                   client->failure.c_str());
      ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}

/// Two epochs on built-in digits, for who has not run train_mnist yet.
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
      hearth::detail::weights_file(is_named ? options.weights : kSavedWeights);
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
  CLI::App app("Lets many client threads ask one model for the classes of pictures.");
  app.add_option("--clients", options.clients, "client threads")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "how long")
      ->check([](const std::string& text) {
        const double seconds = std::strtod(text.c_str(), nullptr);
        return seconds > 0 && seconds <= 1e6 ? "" : text + " is not above 0 and at most 1000000";
      })
      ->capture_default_str();
  app.add_option(
      "--weights",
      options.weights,
      "folder or file that train_mnist has saved; without: checkpoints/mnist, or a small "
      "network trained now");
  app.add_option(
      "--data",
      options.data,
      "pictures to ask about: builtin, mnist, or a folder; without: those of the training");
  app.add_option("--devices", options.devices, "devices, each with a copy of the weights")
      ->delimiter(',')
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "concurrent_inference: %s\n", error.what());
    return 1;
  }
}
