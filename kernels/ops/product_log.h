#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/tensors/dtype.h"

namespace comera {

struct AttentionBackward;
struct AttentionForward;
struct Float8Product;
struct MatrixProduct;

// A dry run's log of the products of a pass: the type in which each is computed, and why.
class ProductLog {
 public:
  struct Entry {
    std::string place{};  // location in the model: "encoder.0.ffn.up"
    std::string why{};    // the reason for this type
    const char* operation = "";
    DType type = DType::float32;  // of its operands; for two 8-bit ones, the gradient's
    std::int64_t batch = 1, m = 0, n = 0, k = 0;

    double flops() const { return 2.0 * static_cast<double>(batch * m * n) * static_cast<double>(k); }
    friend bool operator==(const Entry&, const Entry&) = default;
  };

  const std::vector<Entry>& entries() const { return entries_; }
  void add(Entry entry);

 private:
  friend class ProductPlace;
  std::vector<Entry> entries_;
  std::string place_, why_;
};

// Whether the operation is a single product, which is logged as such.
template <class Operation>
bool log_product(ProductLog&, const Operation&) {
  return false;
}
bool log_product(ProductLog& log, const MatrixProduct& product);
bool log_product(ProductLog& log, const Float8Product& product);
bool log_product(ProductLog& log, const AttentionForward& attention);
bool log_product(ProductLog& log, const AttentionBackward& attention);

// Sets the location of products logged until the end of the scope, and the reason for their type. An empty
// location or reason keeps that of the enclosing scope. Does nothing without a log.
class ProductPlace {
 public:
  ProductPlace(ProductLog* log, const std::string& place, const char* why = "");
  ~ProductPlace();
  ProductPlace(const ProductPlace&) = delete;
  ProductPlace& operator=(const ProductPlace&) = delete;

 private:
  ProductLog* log_;
  std::string place_, why_;  // of the enclosing scope
};

}  // namespace comera
