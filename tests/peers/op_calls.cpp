// Runs the calls that op_calls.py drew and writes their results: op_calls CALLS RESULTS. Both are
// files of JSON, one call a line: {"op", "inputs": [tensor or number], "args": {}, "cotangents":
// []}, and {"outputs": [tensor], "gradients": [tensor or null]} or {"error": text}. A tensor is
// {"dtype", "shape", "data"}; its numbers are written so that they are read back exactly.
#include <cmath>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/fourier_ops.hpp>
#include <hearth/runtime/linalg_ops.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <nlohmann/json.hpp>

namespace {

using hearth::Arg;
using hearth::DType;
using hearth::Shape;
using hearth::Tensor;
using nlohmann::json;
using Tensors = std::vector<Tensor>;

DType dtype_of_name(const std::string& name) {
  for (int i = 0; i < hearth::kDTypeCount; ++i) {
    if (hearth::name(static_cast<DType>(i)) == name) {
      return static_cast<DType>(i);
    }
  }
  throw std::runtime_error("no element type " + name);
}

double number_of(const json& value) {
  if (value.is_string()) {  // JSON has no words for these
    const auto text = value.get<std::string>();
    return text == "nan" ? std::numeric_limits<double>::quiet_NaN()
                         : (text == "inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
  }
  return value.get<double>();
}
json json_of(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  return std::isinf(value) ? json(value > 0 ? "inf" : "-inf") : json(value);
}

Shape shape_of(const json& sizes) {
  Shape shape;
  for (const json& size : sizes) {
    shape.push_back(size.get<std::int64_t>());
  }
  return shape;
}

Tensor tensor_of(const hearth::Device& device, const json& value) {
  const DType dtype = dtype_of_name(value.at("dtype").get<std::string>());
  const Shape shape = shape_of(value.at("shape"));
  if (hearth::is_float(dtype)) {
    std::vector<double> numbers;
    for (const json& number : value.at("data")) {
      numbers.push_back(number_of(number));
    }
    return cast(Tensor::from(device, numbers, shape), dtype);
  }
  return cast(Tensor::from(device, value.at("data").get<std::vector<std::int64_t>>(), shape),
              dtype);
}

json json_of(const Tensor& tensor) {
  json out{
      {"dtype", hearth::name(tensor.dtype())}, {"shape", json::array()}, {"data", json::array()}};
  for (const std::int64_t size : tensor.shape().dims()) {
    out["shape"].push_back(size);
  }
  if (hearth::is_float(tensor.dtype())) {
    for (const double value : cast(tensor, DType::f64).to_vector<double>()) {
      out["data"].push_back(json_of(value));
    }
  } else {
    for (const std::int64_t value : cast(tensor, DType::i64).to_vector<std::int64_t>()) {
      out["data"].push_back(value);
    }
  }
  return out;
}

/// The arguments of an op: its inputs, which are tensors or numbers, and named arguments.
class Call {
 public:
  Call(const json& call, Tensors tensors) : call_(call), tensors_(std::move(tensors)) {}

  [[nodiscard]] Arg operator()(std::size_t input) const {
    const json& value = call_.at("inputs").at(input);
    if (value.is_object()) {
      return tensors_.at(input);
    }
    return value.is_number_integer() ? Arg(value.get<std::int64_t>()) : Arg(number_of(value));
  }
  [[nodiscard]] const Tensor& tensor(std::size_t input) const { return tensors_.at(input); }
  [[nodiscard]] const Tensors& tensors() const { return tensors_; }
  [[nodiscard]] std::size_t count() const { return tensors_.size(); }
  [[nodiscard]] bool has(const char* name) const { return call_.at("args").contains(name); }
  template <class T>
  [[nodiscard]] T arg(const char* name) const {
    return call_.at("args").at(name).get<T>();
  }
  [[nodiscard]] std::vector<std::int64_t> sizes(const char* name) const {
    return arg<std::vector<std::int64_t>>(name);
  }
  [[nodiscard]] std::array<std::int64_t, 2> pair(const char* name) const {
    const std::vector<std::int64_t> both = sizes(name);
    return {both.at(0), both.at(1)};
  }
  [[nodiscard]] int axis() const { return arg<int>("axis"); }
  [[nodiscard]] hearth::Axes axes() const {
    return has("axes") ? hearth::Axes(arg<std::vector<int>>("axes")) : hearth::Axes();
  }
  [[nodiscard]] hearth::ReduceOptions keeps() const {
    return {.keep_dims = has("keep_dims") && arg<bool>("keep_dims")};
  }

 private:
  const json& call_;
  Tensors tensors_;
};

using Op = std::function<Tensors(const Call&)>;

template <class Fn>
Op one(Fn fn) {
  return [fn](const Call& in) { return Tensors{fn(in)}; };
}
Op map_of(Tensor (*op)(Arg)) {
  return [op](const Call& in) { return Tensors{op(in(0))}; };
}
Op pair_of(Tensor (*op)(Arg, Arg)) {
  return [op](const Call& in) { return Tensors{op(in(0), in(1))}; };
}

void add_elementwise(std::map<std::string, Op>& ops) {
  const std::map<std::string, Tensor (*)(Arg)> maps{{"neg", hearth::neg},
                                                    {"abs", hearth::abs},
                                                    {"exp", hearth::exp},
                                                    {"expm1", hearth::expm1},
                                                    {"log", hearth::log},
                                                    {"log1p", hearth::log1p},
                                                    {"sqrt", hearth::sqrt},
                                                    {"rsqrt", hearth::rsqrt},
                                                    {"square", hearth::square},
                                                    {"sin", hearth::sin},
                                                    {"cos", hearth::cos},
                                                    {"tanh", hearth::tanh},
                                                    {"erf", hearth::erf},
                                                    {"sigmoid", hearth::sigmoid},
                                                    {"recip", hearth::recip},
                                                    {"relu", hearth::relu},
                                                    {"silu", hearth::silu},
                                                    {"floor", hearth::floor},
                                                    {"ceil", hearth::ceil},
                                                    {"round", hearth::round},
                                                    {"trunc", hearth::trunc},
                                                    {"sign", hearth::sign},
                                                    {"is_finite", hearth::is_finite},
                                                    {"logical_not", hearth::logical_not},
                                                    {"contiguous", hearth::contiguous}};
  for (const auto& [name, op] : maps) {
    ops.emplace(name, map_of(op));
  }
  const std::map<std::string, Tensor (*)(Arg, Arg)> pairs{
      {"add", hearth::add},
      {"sub", hearth::sub},
      {"mul", hearth::mul},
      {"div", hearth::div},
      {"pow", hearth::pow},
      {"floor_divide", hearth::floor_divide},
      {"remainder", hearth::remainder},
      {"minimum", hearth::minimum},
      {"maximum", hearth::maximum},
      {"equal", hearth::equal},
      {"not_equal", hearth::not_equal},
      {"less", hearth::less},
      {"less_equal", hearth::less_equal},
      {"greater", hearth::greater},
      {"greater_equal", hearth::greater_equal},
      {"logical_and", hearth::logical_and},
      {"logical_or", hearth::logical_or},
      {"logical_xor", hearth::logical_xor},
      {"and", hearth::operator& }, {"or", hearth::operator| }, {"xor", hearth::operator^ } };
  for (const auto& [name, op] : pairs) {
    ops.emplace(name, pair_of(op));
  }
  ops["cast"] =
      one([](const Call& in) { return cast(in(0), dtype_of_name(in.arg<std::string>("dtype"))); });
  ops["leaky_relu"] =
      one([](const Call& in) { return leaky_relu(in(0), in.arg<double>("slope")); });
  ops["gelu"] = one([](const Call& in) {
    return gelu(in(0), in.arg<bool>("tanh") ? hearth::GeluForm::tanh : hearth::GeluForm::erf);
  });
  ops["clamp"] = one([](const Call& in) {
    using Bound = std::optional<Arg>;
    return clamp(in(0),
                 in.arg<bool>("low") ? Bound(in(1)) : Bound(),
                 in.arg<bool>("high") ? Bound(in(2)) : Bound());
  });
  ops["where"] = one([](const Call& in) { return where(in(0), in(1), in(2)); });
  ops["masked_fill"] = one([](const Call& in) { return masked_fill(in(0), in(1), in(2)); });
}

void add_views(std::map<std::string, Op>& ops) {
  ops["reshape"] = one([](const Call& in) { return reshape(in(0), in.sizes("shape")); });
  ops["flatten"] = one([](const Call& in) { return flatten(in(0), in.axis()); });
  ops["permute"] = one([](const Call& in) {
    return permute(in(0), std::span<const int>(in.arg<std::vector<int>>("axes")));
  });
  ops["transpose"] =
      one([](const Call& in) { return transpose(in(0), in.axis(), in.arg<int>("other")); });
  ops["slice"] = one([](const Call& in) {
    return slice(in(0),
                 in.axis(),
                 {.start = in.arg<std::int64_t>("start"),
                  .stop = in.arg<std::int64_t>("stop"),
                  .step = in.arg<std::int64_t>("step")});
  });
  ops["expand"] = one([](const Call& in) { return expand(in(0), shape_of(in.sizes("shape"))); });
  ops["unsqueeze"] = one([](const Call& in) { return unsqueeze(in(0), in.axis()); });
  ops["squeeze"] = one([](const Call& in) { return squeeze(in(0), in.axis()); });
  ops["split"] = [](const Call& in) {
    return split(in(0), in.arg<std::int64_t>("size"), in.axis());
  };
  ops["chunk"] = [](const Call& in) {
    return chunk(in(0), in.arg<std::int64_t>("count"), in.axis());
  };
  ops["tril"] = one([](const Call& in) { return tril(in(0), in.arg<std::int64_t>("diagonal")); });
  ops["triu"] = one([](const Call& in) { return triu(in(0), in.arg<std::int64_t>("diagonal")); });
  ops["concat"] = one([](const Call& in) { return concat(in.tensors(), in.axis()); });
  ops["stack"] = one([](const Call& in) { return stack(in.tensors(), in.axis()); });
  ops["repeat"] = one([](const Call& in) { return repeat(in(0), in.sizes("counts")); });
  ops["pad"] = one([](const Call& in) {
    const std::map<std::string, hearth::PadMode> modes{{"constant", hearth::PadMode::constant},
                                                       {"reflect", hearth::PadMode::reflect},
                                                       {"replicate", hearth::PadMode::replicate},
                                                       {"circular", hearth::PadMode::circular}};
    const double value = in.has("value") ? in.arg<double>("value") : 0;
    return pad(in(0),
               {{.axis = -1, .before = in.pair("last")[0], .after = in.pair("last")[1]}},
               {.mode = modes.at(in.arg<std::string>("mode")), .value = value});
  });
}

void add_indexing(std::map<std::string, Op>& ops) {
  ops["gather"] = one([](const Call& in) { return gather(in(0), in.axis(), in(1)); });
  ops["index_select"] = one([](const Call& in) { return index_select(in(0), in.axis(), in(1)); });
  ops["embedding"] = one([](const Call& in) { return embedding(in(0), in(1)); });
  ops["scatter_add"] =
      one([](const Call& in) { return scatter_add(in(0), in.axis(), in(1), in(2)); });
  ops["index_add"] = one([](const Call& in) { return index_add(in(0), in.axis(), in(1), in(2)); });
  ops["one_hot"] = one(
      [](const Call& in) { return one_hot(in(0), in.arg<std::int64_t>("classes"), DType::i64); });
  ops["topk"] = [](const Call& in) {
    hearth::TopK best = topk(in(0),
                             in.arg<std::int64_t>("count"),
                             {.axis = in.axis(), .descending = in.arg<bool>("largest")});
    return Tensors{best.values, best.positions};
  };
  ops["sort"] = [](const Call& in) {
    hearth::TopK sorted =
        sort(in(0), {.axis = in.axis(), .descending = in.arg<bool>("descending")});
    return Tensors{sorted.values, sorted.positions};
  };
}

void add_reductions(std::map<std::string, Op>& ops) {
  ops["sum"] = one([](const Call& in) { return sum(in(0), in.axes(), in.keeps()); });
  ops["mean"] = one([](const Call& in) { return mean(in(0), in.axes(), in.keeps()); });
  ops["max"] = one([](const Call& in) { return max(in(0), in.axes(), in.keeps()); });
  ops["min"] = one([](const Call& in) { return min(in(0), in.axes(), in.keeps()); });
  ops["prod"] = one([](const Call& in) { return prod(in(0), in.axes(), in.keeps()); });
  ops["any"] = one([](const Call& in) { return any(in(0), in.axes(), in.keeps()); });
  ops["all"] = one([](const Call& in) { return all(in(0), in.axes(), in.keeps()); });
  ops["var"] = one([](const Call& in) {
    return var(in(0),
               in.axes(),
               {.keep_dims = in.keeps().keep_dims, .correction = in.arg<double>("correction")});
  });
  ops["stddev"] = one([](const Call& in) {
    return stddev(in(0),
                  in.axes(),
                  {.keep_dims = in.keeps().keep_dims, .correction = in.arg<double>("correction")});
  });
  ops["logsumexp"] = one([](const Call& in) { return logsumexp(in(0), in.axes(), in.keeps()); });
  ops["argmax"] = one([](const Call& in) { return argmax(in(0), in.axis(), in.keeps()); });
  ops["argmin"] = one([](const Call& in) { return argmin(in(0), in.axis(), in.keeps()); });
  ops["softmax"] = one([](const Call& in) { return softmax(in(0), in.axis()); });
  ops["log_softmax"] = one([](const Call& in) { return log_softmax(in(0), in.axis()); });
  ops["cumsum"] = one([](const Call& in) { return cumsum(in(0), in.axis()); });
}

void add_contractions(std::map<std::string, Op>& ops) {
  ops["matmul"] = one([](const Call& in) {
    return in.count() == 3 ? matmul(in(0), in(1), in(2)) : matmul(in(0), in(1));
  });
  ops["einsum"] =
      one([](const Call& in) { return einsum(in.arg<std::string>("equation"), in.tensors()); });
  ops["conv2d"] = one([](const Call& in) {
    return conv2d(in(0),
                  in(1),
                  in(2),
                  {.stride = in.pair("stride"),
                   .padding = in.pair("padding"),
                   .dilation = in.pair("dilation"),
                   .groups = in.arg<std::int64_t>("groups")});
  });
  ops["conv1d"] = one([](const Call& in) {
    return conv1d(in(0),
                  in(1),
                  in(2),
                  {.stride = in.arg<std::int64_t>("stride"),
                   .padding = in.arg<std::int64_t>("padding"),
                   .groups = in.arg<std::int64_t>("groups")});
  });
  const auto pool = [](const Call& in) {
    return hearth::Pool2dOptions{.kernel = in.pair("kernel"),
                                 .stride = in.pair("stride"),
                                 .padding = in.pair("padding"),
                                 .count_include_pad = in.arg<bool>("count_include_pad")};
  };
  ops["max_pool2d"] = one([pool](const Call& in) { return max_pool2d(in(0), pool(in)); });
  ops["avg_pool2d"] = one([pool](const Call& in) { return avg_pool2d(in(0), pool(in)); });
  ops["adaptive_avg_pool2d"] =
      one([](const Call& in) { return adaptive_avg_pool2d(in(0), in.pair("size")); });
  ops["attention"] = one([](const Call& in) {
    const hearth::AttentionOptions options{.causal = in.arg<bool>("causal")};
    return in.count() == 4 ? attention(in(0), in(1), in(2), in(3), options)
                           : attention(in(0), in(1), in(2), options);
  });
}

void add_norms_and_losses(std::map<std::string, Op>& ops) {
  ops["layer_norm"] = one([](const Call& in) {
    return layer_norm(in(0), in(1), in(2), {.axis_count = in.arg<int>("axis_count")});
  });
  ops["rms_norm"] = one([](const Call& in) { return rms_norm(in(0), in(1)); });
  ops["group_norm"] = one([](const Call& in) {
    return group_norm(in(0), in.arg<std::int64_t>("groups"), in(1), in(2));
  });
  ops["cross_entropy"] = one([](const Call& in) {
    hearth::CrossEntropyOptions options{.label_smoothing = in.arg<double>("label_smoothing")};
    if (in.has("ignore_index")) {
      options.ignore_index = in.arg<std::int64_t>("ignore_index");
    }
    if (in.count() == 3) {
      options.class_weights = in.tensor(2);
    }
    return cross_entropy(in(0), in(1), options);
  });
  ops["nll_loss"] = pair_of(hearth::nll_loss);
  ops["mse_loss"] = pair_of(hearth::mse_loss);
  ops["l1_loss"] = pair_of(hearth::l1_loss);
  ops["kl_div_loss"] = pair_of(hearth::kl_div_loss);
  ops["binary_cross_entropy_with_logits"] = one([](const Call& in) {
    return binary_cross_entropy_with_logits(in(0), in(1), {.positive_weight = in.tensor(2)});
  });
  ops["huber_loss"] =
      one([](const Call& in) { return huber_loss(in(0), in(1), in.arg<double>("delta")); });
  ops["smooth_l1_loss"] =
      one([](const Call& in) { return smooth_l1_loss(in(0), in(1), in.arg<double>("beta")); });
}

// Symmetric matrices, and squares of vectors, whose signs differ between libraries.
void add_linear(std::map<std::string, Op>& ops) {
  using hearth::FourierNorm;
  ops["cholesky"] = map_of(hearth::cholesky);
  ops["inverse"] = map_of(hearth::inverse);
  ops["determinant"] = map_of(hearth::determinant);
  ops["solve"] = pair_of(hearth::solve);
  ops["lstsq"] = pair_of(hearth::lstsq);
  ops["slogdet"] = [](const Call& in) {
    const auto [sign, log_magnitude] = hearth::slogdet(in(0));
    return Tensors{sign, log_magnitude};
  };
  ops["solve_triangular"] = one([](const Call& in) {
    return solve_triangular(in(0),
                            in(1),
                            {.upper = in.arg<bool>("upper"),
                             .left = in.arg<bool>("left"),
                             .unit_diagonal = in.arg<bool>("unit")});
  });
  ops["qr"] = [](const Call& in) {
    const auto [q, r] = hearth::qr(in(0));
    return Tensors{q, r};
  };
  ops["eigh"] = [](const Call& in) {
    const Tensor x = in.tensor(0);
    const auto [values, vectors] = hearth::eigh(x + transpose(x));
    return Tensors{values, square(vectors)};
  };
  ops["svd"] = [](const Call& in) {
    const auto [u, values, vt] = hearth::svd(in(0));
    return Tensors{square(u), values, square(vt)};
  };
  const auto options = [](const Call& in) {
    hearth::FourierOptions given{.axis = in.axis()};
    if (in.has("length")) {
      given.length = in.arg<std::int64_t>("length");
    }
    const auto norm = in.arg<std::string>("norm");
    given.norm = norm == "ortho"     ? FourierNorm::ortho
                 : norm == "forward" ? FourierNorm::forward
                                     : FourierNorm::backward;
    return given;
  };
  ops["fft"] = one([options](const Call& in) { return fft(in(0), options(in)); });
  ops["ifft"] = one([options](const Call& in) { return ifft(in(0), options(in)); });
  ops["rfft"] = one([options](const Call& in) { return rfft(in(0), options(in)); });
  ops["irfft"] = one([options](const Call& in) { return irfft(in(0), options(in)); });
  ops["stft"] = one([](const Call& in) {
    return stft(in(0),
                in(1),
                {.size = in.arg<std::int64_t>("size"),
                 .hop = in.arg<std::int64_t>("hop"),
                 .center = in.arg<bool>("center")});
  });
}

void add_creations(std::map<std::string, Op>& ops, const hearth::Device& device) {
  ops["arange"] = one([device](const Call& in) {
    return hearth::arange(device,
                          in.arg<double>("start"),
                          in.arg<double>("stop"),
                          in.arg<double>("step"),
                          dtype_of_name(in.arg<std::string>("dtype")));
  });
  ops["linspace"] = one([device](const Call& in) {
    return hearth::linspace(device,
                            in.arg<double>("start"),
                            in.arg<double>("stop"),
                            in.arg<std::int64_t>("count"),
                            dtype_of_name(in.arg<std::string>("dtype")));
  });
  ops["eye"] = one([device](const Call& in) {
    return hearth::eye(device, in.arg<std::int64_t>("rows"), in.arg<std::int64_t>("columns"));
  });
  ops["full"] = one([device](const Call& in) {
    return hearth::full(device,
                        shape_of(in.sizes("shape")),
                        in.arg<double>("value"),
                        dtype_of_name(in.arg<std::string>("dtype")));
  });
}

// The sum of the outputs' products with the cotangents, in f64.
Tensor weighted(const Tensors& outputs, const Tensors& cotangents) {
  Tensor total;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (hearth::is_float(outputs[i].dtype())) {
      const Tensor part = sum(cast(outputs[i], DType::f64) * cotangents.at(i));
      total = !total.is_valid() ? part : total + part;
    }
  }
  return total;
}

json result_of(const hearth::Device& device,
               const json& call,
               const std::map<std::string, Op>& ops) {
  const Op& op = ops.at(call.at("op").get<std::string>());
  Tensors inputs;
  for (const json& input : call.at("inputs")) {
    inputs.push_back(input.is_object() ? tensor_of(device, input) : Tensor());
  }
  json out{{"outputs", json::array()}, {"gradients", json::array()}};
  for (const Tensor& output : op(Call(call, inputs))) {
    out["outputs"].push_back(json_of(output));
  }
  if (call.at("cotangents").empty()) {
    return out;
  }
  Tensors cotangents;
  for (const json& each : call.at("cotangents")) {
    cotangents.push_back(each.is_null() ? Tensor() : tensor_of(device, each));
  }
  Tensors leaves;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_valid() && hearth::is_float(inputs[i].dtype())) {
      leaves.push_back(inputs[i]);
      places.push_back(i);
    }
  }
  const Tensors gradients = hearth::grad(
      [&](const Tensors& tracked) {
        Tensors given = inputs;
        for (std::size_t i = 0; i < places.size(); ++i) {
          given[places[i]] = tracked[i];
        }
        return weighted(op(Call(call, given)), cotangents);
      },
      leaves);
  out["gradients"] = json(std::vector<json>(inputs.size()));
  for (std::size_t i = 0; i < places.size(); ++i) {
    out["gradients"][places[i]] = json_of(gradients[i]);
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: op_calls CALLS RESULTS\n";
    return 2;
  }
  const hearth::Runtime runtime({.devices = {{.name = "cpu:0"}}});
  const hearth::Device device = runtime.device("cpu:0");
  std::map<std::string, Op> ops;
  add_elementwise(ops);
  add_views(ops);
  add_indexing(ops);
  add_reductions(ops);
  add_contractions(ops);
  add_norms_and_losses(ops);
  add_linear(ops);
  add_creations(ops, device);
  std::ifstream calls(argv[1]);
  std::ofstream results(argv[2]);
  for (std::string line; std::getline(calls, line);) {
    json result;
    try {
      result = result_of(device, json::parse(line), ops);
    } catch (const std::exception& error) {
      result = json{{"error", error.what()}};
    }
    results << result.dump() << "\n";
  }
  return results.good() ? 0 : 1;
}
