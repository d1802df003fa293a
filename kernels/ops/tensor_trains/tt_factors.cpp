#include "kernels/ops/tensor_trains/tt_factors.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"

namespace comera {

namespace {

std::int64_t product_of_modes(const TTCoreChain& train, int begin, int end) {
  std::int64_t size = 1;
  for (int k = begin; k < end; ++k) size *= train.mode(k);
  return size;
}

void check_train(const char* name, const TTCoreChain& train, DType dtype) {
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

void check_factors(const char* name, const TTCoreChain& train, const Tensor& a, std::int64_t a_apart,
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
double merge_flops(const TTCoreChain& train) {
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

double bytes_of_a(const TTCoreChain& train) {
  return bytes_of(train.input_size() * train.rank(train.inputs - 1), train.core[0].dtype());
}

}  // namespace

std::int64_t TTCoreChain::input_size() const { return product_of_modes(*this, 0, inputs); }
std::int64_t TTCoreChain::output_size() const { return product_of_modes(*this, inputs, order); }

void TTFactorsForward::check() const {
  COMERA_CHECK(!factors.empty(), "TTFactorsForward: no tensor train was given");
  for (const Factors& each : factors)
    check_factors("TTFactorsForward", each.train, each.a, each.a_apart, each.columns(), each.b, each.last_row,
                  compute());
}

Work work_of(const TTFactorsForward& op) {
  Work work;
  for (const auto& factors : op.factors) {
    work.flops += merge_flops(factors.train);
    work.bytes += bytes_of_a(factors.train) + once(factors.b);
    for (int k = 0; k < factors.train.order; ++k)
      work.bytes += once(factors.train.core[k], factors.train.gate[k]);
  }
  return work;
}

void TTFactorsBackward::check() const {
  COMERA_CHECK(!factors.empty(), "TTFactorsBackward: no tensor train was given");
  for (const Factors& each : factors) {
    check_factors("TTFactorsBackward", each.train, each.da, each.a_apart,
                  each.train.rank(each.train.inputs - 1), each.db, each.dlast_row, compute());
    for (int k = 0; k < each.train.order; ++k) {
      check_tensor("TTFactorsBackward", "dcore", each.dcore[k], each.train.core[k].shape(), compute());
      if (k + 1 < each.train.order)
        check_tensor("TTFactorsBackward", "dgate", each.dgate[k], each.train.gate[k].shape(), compute());
    }
  }
}

Work work_of(const TTFactorsBackward& op) {
  Work work;
  for (const auto& factors : op.factors) {
    work.flops += 2 * merge_flops(factors.train);
    work.bytes += bytes_of_a(factors.train) + once(factors.db);
    for (int k = 0; k < factors.train.order; ++k)
      work.bytes +=
          once(factors.train.core[k], factors.train.gate[k]) + twice(factors.dcore[k], factors.dgate[k]);
  }
  return work;
}

}  // namespace comera
