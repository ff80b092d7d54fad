#include <cmath>
#include <cstdio>
#include <vector>

#include <hearth/modules/linear.hpp>
#include <hearth/modules/sgd.hpp>
#include <hearth/parallel/data_parallel.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

struct Line {
  hearth::Linear layer;
  hearth::Tensor forward(const hearth::Tensor& x) const { return layer.forward(x); }
  HEARTH_MODULE(Line, layer)
};

struct Points {
  std::vector<float> x, y;
  std::int64_t size = 0;
};

int main() {
  const hearth::Runtime runtime({.devices = {{.name = "cpu:0"}, {.name = "cpu:1"}}});
  const std::vector<hearth::Device> devices{runtime.device("cpu:0"), runtime.device("cpu:1")};
  hearth::Generator generator(7);
  hearth::DataParallel<Line, Points> trainer(
      runtime,
      Line{.layer = {{.in = 1, .out = 1}, devices[0], generator}},
      [](const Line& line, Points& points, hearth::WorkerContext& context) {
        const auto on_device = [&](const std::vector<float>& values) {
          return hearth::Tensor::from(context.device, values, {points.size, 1});
        };
        return mean(square(line.forward(on_device(points.x)) - on_device(points.y)));
      },
      {.devices = devices, .optimizer = hearth::Sgd::Config{.learning_rate = 0.01}});
  const std::vector<Points> batch{{.x = {0, 1}, .y = {1, 3}, .size = 2},
                                  {.x = {2, 3}, .y = {5, 7}, .size = 2}};
  const double before = trainer.step(batch).loss;
  const double after = trainer.step(batch).loss;
  std::printf("loss after one step on two devices: %.4f\n", after);
  return std::isfinite(after) && after < before ? 0 : 1;
}
