#include "kernels/ops/tt_halves.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

std::int64_t product_of_modes(const TTTrain& train, int begin, int end) {
  std::int64_t size = 1;
  for (int k = begin; k < end; ++k) size *= train.mode(k);
  return size;
}

void check_train(const char* name, const TTTrain& train, DType dtype) {
  COMERA_CHECK(train.inputs >= 1 && train.inputs < train.order && train.order <= max_tt_cores,
               "{}: {} cores, {} of them with input modes; expected at most {}, and some on each side", name,
               train.order, train.inputs, max_tt_cores);
  for (int k = 0; k < train.order; ++k) {
    const std::int64_t before = k == 0 ? 1 : train.rank(k - 1);
    check_tensor(name, "core", train.core[k], {before, train.mode(k), train.rank(k)}, dtype);
    if (k + 1 < train.order) check_tensor(name, "gate", train.gate[k], {train.rank(k)}, dtype);
  }
  COMERA_CHECK(train.rank(train.order - 1) == 1, "{}: the last core ends in rank {}", name,
               train.rank(train.order - 1));
}

void check_halves(const char* name, const TTTrain& train, const Tensor& a, std::int64_t a_apart,
                  std::int64_t columns, const Tensor& b, const Tensor& last_row, DType dtype) {
  check_train(name, train, dtype);
  const std::int64_t rank = train.rank(train.inputs - 1), outputs = train.output_size();
  COMERA_CHECK(a && a.dtype() == dtype && columns >= rank && a_apart >= columns &&
                   a.elements() >= (train.input_size() - 1) * a_apart + columns,
               "{}: a half of {} rows of {}, {} apart, does not lie in {} {}", name, train.input_size(),
               columns, a_apart, name_of(a.dtype()), a.shape().text());
  const std::int64_t least = last_row ? rank + 1 : rank;
  COMERA_CHECK(b && b.shape().dims() == 2 && b.dim(0) >= least, "{}: b is {}, expected at least {} rows",
               name, b.shape().text(), least);
  check_tensor(name, "b", b, {b.dim(0), outputs}, dtype);
  if (last_row) check_tensor(name, "the last row", last_row, {outputs}, dtype);
}

// Work of the products L_{k-1} S_k and S_k R_{k+1}.
double merge_flops(const TTTrain& train) {
  double flops = 0;
  std::int64_t rows = train.mode(0);
  for (int k = 1; k < train.inputs; ++k) {
    flops += product(rows, train.mode(k) * train.rank(k), train.rank(k - 1));
    rows *= train.mode(k);
  }
  std::int64_t width = train.mode(train.order - 1);
  for (int k = train.order - 2; k >= train.inputs; --k) {
    flops += product(train.rank(k - 1) * train.mode(k), width, train.rank(k));
    width *= train.mode(k);
  }
  return flops;
}

double bytes_of_a(const TTTrain& train) {
  return bytes_of(train.input_size() * train.rank(train.inputs - 1), train.core[0].dtype());
}

}  // namespace

std::int64_t TTTrain::input_size() const { return product_of_modes(*this, 0, inputs); }
std::int64_t TTTrain::output_size() const { return product_of_modes(*this, inputs, order); }

void TTHalvesForward::check() const {
  COMERA_CHECK(!halves.empty(), "TTHalvesForward: no tensor train was given");
  for (const Half& half : halves)
    check_halves("TTHalvesForward", half.train, half.a, half.a_apart, half.columns(), half.b, half.last_row,
                 compute());
}

Work work_of(const TTHalvesForward& op) {
  Work work;
  for (const auto& half : op.halves) {
    work.flops += merge_flops(half.train);
    work.bytes += bytes_of_a(half.train) + once(half.b);
    for (int k = 0; k < half.train.order; ++k) work.bytes += once(half.train.core[k], half.train.gate[k]);
  }
  return work;
}

void TTHalvesBackward::check() const {
  COMERA_CHECK(!halves.empty(), "TTHalvesBackward: no tensor train was given");
  for (const Half& half : halves) {
    check_halves("TTHalvesBackward", half.train, half.da, half.a_apart,
                 half.train.rank(half.train.inputs - 1), half.db, half.dlast_row, compute());
    for (int k = 0; k < half.train.order; ++k) {
      check_tensor("TTHalvesBackward", "dcore", half.dcore[k], half.train.core[k].shape(), compute());
      if (k + 1 < half.train.order)
        check_tensor("TTHalvesBackward", "dgate", half.dgate[k], half.train.gate[k].shape(), compute());
    }
  }
}

Work work_of(const TTHalvesBackward& op) {
  Work work;
  for (const auto& half : op.halves) {
    work.flops += 2 * merge_flops(half.train);
    work.bytes += bytes_of_a(half.train) + once(half.db);
    for (int k = 0; k < half.train.order; ++k)
      work.bytes += once(half.train.core[k], half.train.gate[k]) + twice(half.dcore[k], half.dgate[k]);
  }
  return work;
}

}  // namespace comera
