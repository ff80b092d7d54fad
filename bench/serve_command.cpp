// hearth-bench serve: a ModelServer under load, and plain streams beside it. Closed loop: each
// client sends its next request when it has the last answer. With --rate, requests arrive at random
// times (Poisson) with a time limit, and answers in time count as goodput.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include <hearth/parallel/model_server.hpp>
#include <hearth/runtime/base/philox.hpp>
#include <hearth/runtime/stream.hpp>

#include "bench_models.hpp"
#include "commands.hpp"

namespace hearth::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct ServeArguments {
  std::string model = "mlp";
  std::vector<std::string> devices{"cpu:0"};
  std::vector<int> clients{1, 16, 64};
  double rate = 0;  // requests a second, in all; 0: closed loop
  double limit_ms = 20;
  double seconds = 1.5;
  int rounds = 1;
  std::int64_t max_batch = 64;
  bool plain = false;
};

/// Results of one run.
struct Load {
  std::vector<double> times_us;    // of answers in time
  std::vector<double> refused_us;  // of calls that were refused
  std::uint64_t late = 0;
  std::uint64_t failed = 0;

  void add(Load&& other) {
    times_us.insert(times_us.end(), other.times_us.begin(), other.times_us.end());
    refused_us.insert(refused_us.end(), other.refused_us.begin(), other.refused_us.end());
    late += other.late;
    failed += other.failed;
  }
};

double quantile(std::vector<double>& times, double share) {
  if (times.empty()) {
    return 0;
  }
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(times.size() - 1));
  std::nth_element(times.begin(), times.begin() + place, times.end());
  return times[static_cast<std::size_t>(place)];
}

/// Memory of this process that is in use, in MiB.
double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double microseconds(Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

template <class Model>
std::vector<float> one_input() {
  return std::vector<float>(static_cast<std::size_t>(Model::input_shape(1).element_count()), 0.5F);
}

/// Runs `request` in a closed loop. Counts those that begin and end within the measured time.
template <class Request>
Load close_loop(const Request& request, const std::atomic<int>& phase) {
  Load load;
  for (int before = phase.load(std::memory_order_acquire); before != 2;
       before = phase.load(std::memory_order_acquire)) {
    const Clock::time_point start = Clock::now();
    request();
    if (before == 1 && phase.load(std::memory_order_acquire) == 1) {
      load.times_us.push_back(microseconds(Clock::now() - start));
    }
  }
  return load;
}

template <class Model>
Load plain_client(const Frozen<Model>& model, const std::atomic<int>& phase) {
  Stream stream(model.device());
  const StreamScope scope(stream);
  const std::vector<float> input = one_input<Model>();
  return close_loop(
      [&] {
        const Tensor x = Tensor::from(model.device(), input, Model::input_shape(1));
        static_cast<void>(model->forward(x).template to_vector<float>());
      },
      phase);
}

template <class Model>
Load server_client(ModelServer<Model>& server, const std::atomic<int>& phase) {
  const auto input = std::make_shared<const std::vector<float>>(one_input<Model>());
  return close_loop(
      [&] {
        static_cast<void>(server.answer({RequestInput(std::as_bytes(std::span<const float>(*input)),
                                                      input,
                                                      DType::f32,
                                                      Model::input_shape(1))}));
      },
      phase);
}

/// Sends requests at random times; a second thread reads the answers in order.
template <class Model>
Load random_client(ModelServer<Model>& server,
                   double rate,
                   std::chrono::nanoseconds limit,
                   std::uint64_t seed,
                   const std::atomic<int>& phase) {
  struct Sent {
    Clock::time_point time;
    Pending<Answer> answer;
    Clock::duration call = {};  // time of ask()
    bool is_measured = false;
  };
  detail::Mailbox<Sent> sent;
  Load load;
  std::thread reader([&] {
    while (std::optional<Sent> next = sent.pop(Deadline::never())) {
      const Status status = next->answer.wait();
      const Clock::duration time = Clock::now() - next->time;
      if (!next->is_measured) {
        continue;
      }
      if (status.has_value() && time <= limit) {
        load.times_us.push_back(microseconds(time));
      } else if (status.has_value() || status.error().code == ErrorCode::deadline_exceeded) {
        ++load.late;
      } else if (status.error().code == ErrorCode::overloaded) {
        load.refused_us.push_back(microseconds(next->call));
      } else {
        ++load.failed;
      }
    }
  });
  const auto input = std::make_shared<const std::vector<float>>(one_input<Model>());
  Clock::time_point next = Clock::now();
  for (std::uint64_t i = 0; phase.load(std::memory_order_acquire) != 2; ++i) {
    const double uniform = (static_cast<double>(philox::block(seed, i)[0]) + 1) / 0x1p32;
    next += std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(-std::log(uniform) / rate));
    std::this_thread::sleep_until(next);
    const bool is_measured = phase.load(std::memory_order_acquire) == 1;
    const Clock::time_point asked = Clock::now();
    Pending<Answer> answer = server.ask({RequestInput(std::as_bytes(std::span<const float>(*input)),
                                                      input,
                                                      DType::f32,
                                                      Model::input_shape(1))},
                                        {.deadline = Deadline::at(next + limit)});
    sent.push({.time = next,
               .answer = std::move(answer),
               .call = Clock::now() - asked,
               .is_measured = is_measured});
  }
  sent.close();
  reader.join();
  return load;
}

/// Runs the clients, and prints one line.
template <class Client>
void measure(const std::string& name, const ServeArguments& arguments, int clients, Client client) {
  std::atomic<int> phase{0};
  std::vector<Load> loads(static_cast<std::size_t>(clients));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    threads.emplace_back([&, i] { loads[i] = client(i, phase); });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  phase.store(1, std::memory_order_release);
  const double memory = resident_mib();
  const Clock::time_point start = Clock::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(arguments.seconds));
  phase.store(2, std::memory_order_release);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const double grown = resident_mib() - memory;
  for (std::thread& thread : threads) {
    thread.join();
  }
  Load all;
  for (Load& load : loads) {
    all.add(std::move(load));
  }
  std::printf("%-8s %4d clients %9.0f answers/s  p50 %8.1f us  p99 %8.1f us",
              name.c_str(),
              clients,
              static_cast<double>(all.times_us.size()) / seconds,
              quantile(all.times_us, 0.5),
              quantile(all.times_us, 0.99));
  if (arguments.rate > 0) {
    std::printf("  refused %zu (p99 %.1f us)  late %llu  failed %llu  memory %+.1f MiB",
                all.refused_us.size(),
                quantile(all.refused_us, 0.99),
                static_cast<unsigned long long>(all.late),
                static_cast<unsigned long long>(all.failed),
                grown);
  }
  std::printf("\n");
  std::fflush(stdout);
}

template <class Model>
void serve(const ServeArguments& arguments) {
  RuntimeOptions options;
  for (const std::string& name : arguments.devices) {
    options.devices.push_back({.name = name});
  }
  const Runtime runtime(options);
  std::vector<Frozen<Model>> models;
  for (const Device& device : runtime.devices()) {
    Generator generator(1);
    models.push_back(freeze(Model(device, generator)));
  }
  for (int round = 0; round < arguments.rounds; ++round) {
    for (const int clients : arguments.clients) {
      if (arguments.plain && arguments.rate == 0) {
        measure("streams", arguments, clients, [&](std::size_t i, const std::atomic<int>& phase) {
          return plain_client(models[i % models.size()], phase);
        });
      }
      ModelServer<Model> server(
          runtime, models[0], {.max_batch = arguments.max_batch, .devices = runtime.devices()});
      measure("server", arguments, clients, [&](std::size_t i, const std::atomic<int>& phase) {
        if (arguments.rate == 0) {
          return server_client(server, phase);
        }
        const auto limit = std::chrono::duration_cast<std::chrono::nanoseconds>(
            std::chrono::duration<double, std::milli>(arguments.limit_ms));
        return random_client(server, arguments.rate / clients, limit, i + 1, phase);
      });
      const ServerStatistics statistics = server.statistics();
      std::printf("         %.1f rows a batch, %.1f %% filled by repeated rows\n",
                  static_cast<double>(statistics.rows) / static_cast<double>(statistics.batches),
                  100.0 * static_cast<double>(statistics.padded_rows) /
                      static_cast<double>(statistics.rows + statistics.padded_rows));
    }
  }
}

}  // namespace

int serve_command(int argc, char** argv) {
  CLI::App app(
      "Measures a ModelServer: answers a second and their times. Clients send the next request "
      "when they have the last answer; with --rate, requests arrive at random times, and only "
      "answers within the limit count.",
      "hearth-bench serve");
  ServeArguments arguments;
  app.add_option("MODEL", arguments.model, "mlp or cnn")
      ->check(CLI::IsMember({"mlp", "cnn"}))
      ->capture_default_str();
  app.add_option("--device", arguments.devices, "devices that share the work")
      ->capture_default_str();
  app.add_option("--clients", arguments.clients, "numbers of clients, one run each")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--rate", arguments.rate, "requests a second of all clients; 0 = closed loop")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--limit", arguments.limit_ms, "time limit of a request with --rate, in ms")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seconds", arguments.seconds, "time of one run")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", arguments.rounds, "rounds of all runs")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--max-batch", arguments.max_batch, "largest batch, in rows")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_flag("--plain", arguments.plain, "also run clients with a stream each, in turns");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (arguments.model == "mlp") {
    serve<Mlp>(arguments);
  } else {
    serve<Cnn>(arguments);
  }
  return 0;
}

}  // namespace hearth::bench
