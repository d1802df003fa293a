#include "kernels/ops/product_log.h"

#include "kernels/ops/attention/attention.h"
#include "kernels/ops/products/float8.h"
#include "kernels/ops/products/matrix_product.h"

namespace comera {

void ProductLog::add(Entry entry) {
  entry.place = place_;
  entry.why = why_;
  entries_.push_back(std::move(entry));
}

bool log_product(ProductLog& log, const MatrixProduct& product) {
  log.add({.operation = "MatrixProduct",
           .type = product.a.dtype(),
           .batch = product.batch,
           .m = product.m,
           .n = product.n,
           .k = product.k});
  return true;
}

bool log_product(ProductLog& log, const Float8Product& product) {
  const bool gradient = product.b.dtype() == DType::float8_e5m2;
  log.add({.operation = "Float8Product",
           .type = gradient ? product.b.dtype() : product.a.dtype(),
           .m = product.m,
           .n = product.n,
           .k = product.k});
  return true;
}

namespace {

// Scores and attended values, or their gradients: two products, or five, for every head.
template <class Attention>
bool log_attention(ProductLog& log, const Attention& op, const char* operation, int of_scores,
                   int of_values) {
  const std::int64_t tokens = op.q.dim(0);
  const auto add = [&](std::int64_t width) {
    log.add({.operation = operation,
             .type = op.q.dtype(),
             .batch = op.heads,
             .m = tokens,
             .n = op.longest,
             .k = width});
  };
  for (int i = 0; i < of_scores; ++i) add(op.key_size());
  for (int i = 0; i < of_values; ++i) add(op.value_size());
  return true;
}

}  // namespace

bool log_product(ProductLog& log, const AttentionForward& attention) {
  return log_attention(log, attention, "AttentionForward", 1, 1);
}

bool log_product(ProductLog& log, const AttentionBackward& attention) {
  return log_attention(log, attention, "AttentionBackward", 3, 2);
}

ProductPlace::ProductPlace(ProductLog* log, const std::string& place, const char* why) : log_(log) {
  if (log == nullptr) return;
  place_ = log->place_;
  why_ = log->why_;
  if (!place.empty()) log->place_ = place;
  if (why != nullptr) log->why_ = why;
}

ProductPlace::~ProductPlace() {
  if (log_ == nullptr) return;
  log_->place_ = place_;
  log_->why_ = why_;
}

}  // namespace comera
