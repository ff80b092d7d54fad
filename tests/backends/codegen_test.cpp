// The texts of shaders, without a device: each kind of op, in each type and form, compiles to valid
// SPIR-V; the printed text of a few kernels is reviewed by eye.
#include "backends/gpu/pointwise/pointwise_text.hpp"
#include "backends/gpu/pointwise/rows_text.hpp"
#include "backends/gpu/text/glsl_library.hpp"
#include "backends/gpu/text/glsl_math.hpp"
#include "backends/gpu/text/glsl_prelude.hpp"
#include "backends/gpu/text/glsl_vectors.hpp"
#include "backends/gpu/text/kernel_printer.hpp"
#include "backends/gpu/text/row_stages.hpp"
#include "backends/vulkan/spirv/spirv_compiler.hpp"
#include "tests/conformance/prepared_call.hpp"
#include "tests/streams/kernel/example_kernels.hpp"
#include "tests/streams/kernel/golden.hpp"

#include <hearth/streams/kernel/op_expression.hpp>
#include <hearth/streams/op_facts.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::gpu {
namespace {

using namespace vulkan;

using conformance::CallSpec;
using conformance::OpCase;
using conformance::PreparedCall;
using hearth::testing::axis;

void expect_valid(const std::string& what, const std::string& text) {
  for (const bool converts_f16 : {false, true}) {  // as drivers in software, and as cards
    const Result<SpirvModule> module = compile_glsl(
        what,
        text,
        {.validate = true, .converts_f16 = converts_f16, .has_long_grids = converts_f16});
    EXPECT_TRUE(module.has_value()) << what << ": " << module.error().text;
  }
}

// ---- pointwise ----

KernelIR kernel_of(const KernelCall& call) {
  KernelBuilder builder({0});
  std::vector<KernelValue> inputs;
  std::vector<KernelValue> parameters;
  std::vector<DType> types;
  for (const TensorView& view : call.inputs) {
    inputs.push_back(builder.input(view.dtype, {axis(0)}));
  }
  for (const KernelParameter& each :
       op_parameters(call.op, (call.inputs.empty() ? call.outputs : call.inputs)[0].dtype)) {
    parameters.push_back(builder.parameter(each.type));
  }
  for (const TensorView& view : call.outputs) {
    types.push_back(view.dtype);
  }
  for (const KernelValue& value : op_expression(builder, call.op, inputs, parameters, types)) {
    builder.output(value);
  }
  return builder.take();
}

// By number: vectors, one operand a single cell; rows of vectors; strides; strides of 64 bits; one
// by one.
PointwiseForm form_of(std::size_t number, const KernelIR& kernel, bool fails) {
  PointwiseForm form{.may_fail = fails};
  const std::size_t last = kernel.inputs.empty() ? 0 : kernel.inputs.size() - 1;
  switch (number % 5) {
    case 0:
      form.vector = 4;
      form.pieces = 2;
      form.access[last] = last > 0 ? Access::cell : Access::linear;
      break;
    case 1:
      form.vector = 8;
      form.rank = 3;
      form.access[last] = Access::rows;
      form.access[0] = last > 0 ? Access::columns : form.access[0];
      form.is_guarded = !kernel.inputs.empty() && kernel.inputs[0].dtype == kernel.outputs[0].dtype;
      break;
    case 2:
    case 3:
      form.pieces = 2;
      form.rank = 4;
      form.is_wide = number % 5 == 3;
      form.access[last] = Access::any;
      break;
    default:
      form.run = 4;
      form.rank = 2;
      form.access[last] = Access::any;
      break;
  }
  return form;
}

TEST(Codegen, MakesValidShadersOfEveryElementwiseKind) {
  std::size_t texts = 0;
  for (const OpInfo& info : op_table()) {
    if (!has_expression(info.kind)) {
      continue;
    }
    const OpCase op_case = conformance::op_case(info.kind);
    for (const DType dtype : op_case.dtypes()) {
      for (const CallSpec& spec : op_case.calls) {
        const bool is_small = spec.outputs[0].shape == Shape{7} ||
                              (info.kind == OpKind::arange && spec.outputs[0].shape == Shape{64});
        if ((spec.dtypes & dtype_bit(dtype)) == 0 || !is_small || (texts % 3 == 1 && ++texts > 0)) {
          continue;  // calls of a kind differ little: skip two of three
        }
        const PreparedCall prepared(info.kind, spec, dtype);
        const KernelCall call = prepared.call();
        const KernelIR kernel = kernel_of(call);
        const bool fails =
            may_fail(info.kind, (call.inputs.empty() ? call.outputs : call.inputs)[0].dtype);
        const PointwiseForm form = form_of(texts++, kernel, fails);
        // Few parameters are pushed; many are read through an address.
        expect_valid(prepared.to_string(), pointwise_text(kernel, form, texts % 2 == 0 ? 64 : 256));
      }
    }
  }
  EXPECT_GT(texts, 300U);
}

TEST(Codegen, HasValidElementaryFunctionsAndVectors) {
  std::string text = glsl_prelude({}) + std::string(glsl_math());
  text += glsl_vector_types();
  for (int type = 0; type < kDTypeCount; ++type) {
    const auto dtype = static_cast<DType>(type);
    for (const int elements : {4, 8, 16}) {
      text += glsl_vector_access(dtype, elements);
    }
  }
  expect_valid("functions", text + "void main() {}\n");
}

// A text includes the functions that it calls, with their dependences, and no others.
TEST(Codegen, TakesTheFunctionsThatAreCalled) {
  EXPECT_EQ(glsl_library("const float y = x + 1.0;"), "");
  const std::string library = glsl_library("y = bf16_of_f32(sticky_of_f64(x));");
  EXPECT_NE(library.find("float bf16_of_f32("), std::string::npos);
  EXPECT_NE(library.find("float sticky_of_f64("), std::string::npos);
  EXPECT_EQ(library.find(" f16_of_f32("), std::string::npos);
  MathUse use;
  use.add(MathFunction::tanh, false);
  const std::string math = glsl_math(use);
  EXPECT_NE(math.find("float m_exp("), std::string::npos);
  EXPECT_EQ(math.find("double"), std::string::npos);
  EXPECT_EQ(math.find("m_pow"), std::string::npos);
}

// Drivers in software lower a table that is read by index to a ladder of branches.
TEST(Codegen, HasNoTablesInElementaryFunctions) {
  EXPECT_EQ(glsl_math().find("uint[]("), std::string_view::npos);
  EXPECT_EQ(glsl_math().find("const uint k"), std::string_view::npos);
}

// ---- rows ----

std::vector<AffineIndex> row_map() {
  return {axis(0), axis(1)};
}

KernelIR softmax_of(Primitive primitive, DType dtype) {
  KernelBuilder b({0, 1}, 0b10);
  std::vector<KernelValue> operands;
  const bool is_backward =
      primitive == Primitive::softmax_backward || primitive == Primitive::log_softmax_backward;
  for (int i = 0; i < (is_backward ? 2 : 1); ++i) {
    operands.push_back(
        b.convert(b.input(dtype, row_map()), dtype == DType::f64 ? dtype : DType::f32));
  }
  b.output(b.convert(b.apply(primitive, operands[0].type, operands), dtype));
  return b.take();
}

// All folds over a type that supports them.
KernelIR all_folds(DType type) {
  KernelBuilder b({0, 1}, 0b10);
  const KernelValue x = b.input(type, row_map());
  for (int i = 0; i < kFoldOpCount; ++i) {
    if (static_cast<FoldOp>(i) != FoldOp::mean || is_float(type)) {
      b.output(b.fold(static_cast<FoldOp>(i), x));
    }
  }
  return b.take();
}

TEST(Codegen, MakesValidShadersOfRows) {
  const std::vector<RowForm> forms{
      {.threads = 256, .row_threads = 8, .vector = 4, .chunks = 2},
      {.threads = 512, .row_threads = 512, .vector = 1, .chunks = 4, .kept_rank = 2, .row_rank = 2},
      {.threads = 256, .row_threads = 256, .vector = 1, .chunks = 0, .is_wide = true}};
  for (RowForm form : forms) {
    form.access.fill(form.row_rank == 2 ? RowAccess::strided : RowAccess::vectors);
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      for (const Primitive primitive : {Primitive::softmax,
                                        Primitive::log_softmax,
                                        Primitive::softmax_backward,
                                        Primitive::log_softmax_backward}) {
        const KernelIR kernel = spell_out_row_functions(softmax_of(primitive, dtype));
        expect_valid(std::string(name(primitive)), rows_text(kernel, form, 64));
      }
    }
    for (const DType type :
         {DType::f32, DType::f64, DType::i32, DType::i64, DType::u8, DType::i8}) {
      expect_valid("folds", rows_text(all_folds(type), form, 64));
    }
    expect_valid("root mean square", rows_text(testing::root_mean_square(), form, 64));
  }
}

TEST(Codegen, WorksOnRowsInStages) {
  const KernelIR kernel = spell_out_row_functions(softmax_of(Primitive::softmax, DType::f32));
  const RowStages stages(kernel);
  EXPECT_EQ(stages.count, 3);
  std::vector<Primitive> kept;
  for (std::int32_t place = 0; place < kernel.node_count(); ++place) {
    if (stages.is_kept[static_cast<std::size_t>(place)]) {
      kept.push_back(kernel.node(place).primitive);
    }
  }
  EXPECT_EQ(kept, (std::vector<Primitive>{Primitive::input, Primitive::exp}));
  EXPECT_EQ(stages.folds_of(kernel, 0).size(), 1U);
  EXPECT_EQ(stages.folds_of(kernel, 1).size(), 1U);
  EXPECT_EQ(stages.elements_of(kernel, 2, true).size(), 1U);   // the product
  EXPECT_EQ(stages.elements_of(kernel, 2, false).size(), 4U);  // and its inputs
}

// ---- reviewed by eye ----

std::string printed(const KernelIR& kernel) {
  BodyPrinter printer(kernel, glsl_spelling());
  std::string text;
  printer.print_all(text);
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    text += fmt::format("y{} = {};\n", i, printer.stored(i));
  }
  return text;
}

// The first call of a kind whose result has one axis.
std::string printed(OpKind kind, DType dtype) {
  for (const CallSpec& spec : conformance::op_case(kind).calls) {
    if ((spec.dtypes & dtype_bit(dtype)) != 0 && spec.outputs[0].shape.rank() == 1) {
      const PreparedCall prepared(kind, spec, dtype);
      return fmt::format("// {}\n{}", prepared.to_string(), printed(kernel_of(prepared.call())));
    }
  }
  return "no call\n";
}

TEST(Codegen, PrintsKindsAsTheyWereReviewed) {
  std::string text;
  const std::vector<std::pair<OpKind, DType>> kinds{{OpKind::add, DType::f32},
                                                    {OpKind::add, DType::u8},
                                                    {OpKind::mul, DType::i8},
                                                    {OpKind::abs, DType::i8},
                                                    {OpKind::div, DType::i32},
                                                    {OpKind::div, DType::bf16},
                                                    {OpKind::pow, DType::i64},
                                                    {OpKind::min, DType::f64},
                                                    {OpKind::relu, DType::f16},
                                                    {OpKind::sigmoid, DType::f32},
                                                    {OpKind::sigmoid, DType::f16},
                                                    {OpKind::log1p, DType::f32},
                                                    {OpKind::round, DType::f64},
                                                    {OpKind::where, DType::bf16},
                                                    {OpKind::cast, DType::f64},
                                                    {OpKind::dropout, DType::f32},
                                                    {OpKind::random_normal, DType::f64},
                                                    {OpKind::sgd_step, DType::f32},
                                                    {OpKind::adam_step, DType::f16}};
  for (const auto& [kind, dtype] : kinds) {
    text += printed(kind, dtype);
  }
  testing::expect_golden("printed_kinds.glsl", text);
}

TEST(Codegen, PrintsConversionsAndConstantsAsTheyWereReviewed) {
  KernelBuilder b({0});
  const KernelValue wide = b.input(DType::f64, {axis(0)});
  const KernelValue whole = b.input(DType::i64, {axis(0)});
  const KernelValue half = b.input(DType::f16, {axis(0)});
  b.output(b.convert(wide, DType::f16));  // the store rounds
  const KernelValue rounded = b.convert(b.convert(whole, DType::bf16), DType::f32);
  b.output(rounded + b.constant(-INFINITY, DType::f32) * b.constant(0.1, DType::f32));
  b.output(b.convert(wide * b.constant(-0.0, DType::f64), DType::i32));
  b.output(select(b.convert(half, DType::boolean), whole, b.constant(-3, DType::i64)));
  testing::expect_golden("printed_conversions.glsl", printed(b.take()));
}

// One copy of the body for all elements of a thread.
TEST(Codegen, RowsThatAreRolledHaveLoops) {
  RowForm form{.threads = 128, .row_threads = 128, .vector = 4, .chunks = 4};
  form.access.fill(RowAccess::vectors);
  const KernelIR kernel = spell_out_row_functions(softmax_of(Primitive::softmax, DType::f32));
  const auto main_of = [&](bool is_rolled) {
    form.is_rolled = is_rolled;
    const std::string text = rows_text(kernel, form, 64);
    return text.substr(text.find("void main("));
  };
  std::string unrolled = main_of(false);
  EXPECT_EQ(main_of(true).find("UNROLLED"), std::string::npos);
  for (std::size_t at = unrolled.find("UNROLLED"); at != std::string::npos;
       at = unrolled.find("UNROLLED")) {
    unrolled.replace(at, 8, "ROLLED");
  }
  EXPECT_EQ(main_of(true), unrolled);
}

TEST(Codegen, PrintsRowsAsTheyWereReviewed) {
  RowForm form{.threads = 128, .row_threads = 128, .vector = 4, .chunks = 4};
  form.access.fill(RowAccess::vectors);
  const KernelIR kernel = spell_out_row_functions(softmax_of(Primitive::softmax, DType::f32));
  std::string text = rows_text(kernel, form, 64);
  text = text.substr(text.find("void main("));
  testing::expect_golden("printed_softmax.glsl", text);
}

}  // namespace
}  // namespace hearth::gpu
