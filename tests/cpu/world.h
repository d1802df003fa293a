#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/core/arena.h"
#include "kernels/ops/context.h"
#include "kernels/shared/step_values.h"

namespace comera::test {

// The tensors of one run of an operation under one backend and compute type, in the memory of a device. The
// same case run in two worlds gets the same numbers (drawn in single precision), so that the outputs can be
// compared.
class World {
 public:
  // Inputs of the compute type are numbers that `exact` also represents, so that a world of double gets the
  // same as one of bfloat16.
  World(const Backend& backend, DType compute, Allocator& allocator = host_allocator(),
        DType exact = DType::float32)
      : backend_(backend), compute_(compute), exact_(exact), allocator_(allocator) {}

  struct Output {
    std::string name;
    std::vector<double> values;
    std::vector<std::byte> bits;
    bool overrun = false;    // something before or after the tensor was overwritten
    bool statistic = false;  // of statistic()
  };

  // Uniform in [-range, range].
  Tensor input(Shape shape, double range = 1);
  // As input, and compared after the run: for tensors that are added to, overwritten, or must be unchanged.
  Tensor output(const std::string& name, Shape shape, double range = 1);
  // The same of the compute type's master type (kernels/core/dtype.h): parameters, their gradients,
  // statistics.
  Tensor master(Shape shape, double range = 1);
  Tensor master_output(const std::string& name, Shape shape, double range = 1);
  // As master_output, for numbers that a narrow type's kernels must not round in between: means,
  // log-sum-exps.
  Tensor statistic(const std::string& name, Shape shape);
  // As output, with the values given.
  Tensor chosen(const std::string& name, Shape shape, const std::vector<float>& values);
  // Values of the master type that are not compared.
  Tensor chosen_master(Shape shape, const std::vector<float>& values);
  // As output, of float64 whatever the compute type.
  Tensor output_double(const std::string& name, Shape shape);
  // The same with the values given.
  Tensor chosen_double(const std::string& name, const std::vector<double>& values);
  // Of float32 and int64 whatever the compute type, and compared.
  Tensor chosen_float(const std::string& name, const std::vector<float>& values);
  Tensor chosen_integer(const std::string& name, std::int64_t value);
  // Of parameters.
  DType master() const { return master_of(compute_); }
  Tensor chosen_integers(const std::string& name, const std::vector<std::int32_t>& values);
  // Finite codes of an 8-bit type, compared after the run; integers if `whole`.
  Tensor codes(const std::string& name, Shape shape, DType type, double range = 200, bool whole = false);
  Tensor integers(const std::vector<std::int32_t>& values);
  Tensor floats(const std::vector<float>& values);  // whatever the compute type
  Tensor bytes(const void* data, std::size_t size);
  Tensor step_inputs(const StepInputs& values) { return bytes(&values, sizeof values); }
  Tensor results(const StepResults& values = {});

  // From now on the drawn tensor of this number has a NaN in its middle.
  void plant_nan(std::uint32_t tensor) { planted_ = tensor; }
  std::uint32_t drawn_tensors() const { return drawn_; }

  template <class Operation>
  void run(const Operation& operation) {
    Arena measuring = Arena::measuring(allocator_.device());
    comera::run(Context{backend_, measuring, allocator_.stream()}, operation);
    Arena arena(allocator_, measuring.peak(), true);
    spoil(arena, measuring.peak().total);
    comera::run(Context{backend_, arena, allocator_.stream()}, operation);
    allocator_.synchronize(allocator_.stream());
  }
  std::vector<Output> outputs() const;

 private:
  struct Block {
    std::string name;  // empty: an input
    Tensor tensor;     // within the memory, between two fences
    Buffer memory;
    bool is_results = false;
    bool is_statistic = false;
  };
  Tensor make(const std::string& name, Shape shape, DType dtype, const void* contents);
  // Scratch is not a number, so that it is noticed if it is read before it is written.
  void spoil(Arena& arena, std::size_t bytes) const;
  // Between the two, AddressSanitizer detects accesses outside of a tensor.
  void guard(const Block& block) const;
  void unguard(const Block& block) const;
  Tensor draw(const std::string& name, Shape shape, DType dtype, double range, DType exact);

  const Backend& backend_;
  DType compute_, exact_;
  Allocator& allocator_;
  std::vector<Block> blocks_;
  std::uint32_t drawn_ = 0;
  std::optional<std::uint32_t> planted_;
};

// GoogleTest failures if outputs differ, by the measure of OperationCase::tolerance, or are NaN where a
// number was expected, or if something around a tensor was overwritten.
void expect_close(const std::vector<World::Output>& got, const std::vector<World::Output>& expected,
                  double tolerance, double statistic_tolerance);
inline void expect_close(const std::vector<World::Output>& got, const std::vector<World::Output>& expected,
                         double tolerance) {
  expect_close(got, expected, tolerance, tolerance);
}

// One operation on one set of shapes and flags.
struct OperationCase {
  std::string name;
  double tolerance;  // of |a - b| / (|b| + largest |b| / 4), a float32's
  std::function<void(World&)> run;
};

// For the names of tests, which would show addresses otherwise.
inline void PrintTo(const OperationCase& operation, std::ostream* out) { *out << operation.name; }

// tests/cpu/*_cases.cpp
void add_product_cases(std::vector<OperationCase>& cases);
void add_attention_cases(std::vector<OperationCase>& cases);
void add_norm_cases(std::vector<OperationCase>& cases);
void add_elementwise_cases(std::vector<OperationCase>& cases);
void add_embedding_cases(std::vector<OperationCase>& cases);
void add_loss_cases(std::vector<OperationCase>& cases);
void add_click_cases(std::vector<OperationCase>& cases);
void add_optimizer_cases(std::vector<OperationCase>& cases);
void add_rank_cases(std::vector<OperationCase>& cases);
void add_float8_cases(std::vector<OperationCase>& cases);

// All of the above, and those of them whose operation a backend has in a compute type.
std::vector<OperationCase> operation_cases();
std::vector<OperationCase> operation_cases_of(const Backend& backend, DType compute = DType::float32);
// For a narrow type, which rounds outputs and intermediate values to 8 bits: replaces a case's tolerance.
inline constexpr double narrow_tolerance = 4e-2;
inline constexpr double narrow_statistic_tolerance = 2e-5;
// The cases whose operands are rounded to TF32 on request, with its tolerance.
std::vector<OperationCase> tf32_cases();

inline StepInputs example_step() {
  StepInputs inputs;
  inputs.dropout = {0x123456789abcdef0ULL, 7, 3};
  return inputs;
}

}  // namespace comera::test
