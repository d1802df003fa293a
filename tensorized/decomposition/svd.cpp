#include "tensorized/decomposition/svd.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/core/check.h"

// LAPACK's routines, by its Fortran interface: everything by reference, matrices column-major, string lengths
// after the other arguments. Our row-major matrices are the transposes.
extern "C" {
void dgelqf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work,
             const int* lwork, int* info);
void dorglq_(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau,
             double* work, const int* lwork, int* info);
void dsyevd_(const char* jobz, const char* uplo, const int* n, double* a, const int* lda, double* w,
             double* work, const int* lwork, int* iwork, const int* liwork, int* info,
             std::size_t jobz_length, std::size_t uplo_length);
}

namespace comera {

namespace {

int as_int(std::int64_t size) {
  COMERA_CHECK(size <= std::numeric_limits<int>::max(), "a matrix with a side of {} is too large for LAPACK",
               size);
  return static_cast<int>(size);
}

int workspace(double wanted) {
  COMERA_CHECK(wanted < std::numeric_limits<int>::max(), "a matrix is too large for LAPACK's workspace");
  return static_cast<int>(wanted);
}

// For `a` (m × n, row-major, m > n): overwrites it by Q (m × n) of A = Q R and returns R (n × n). Aᵀ = Rᵀ Qᵀ
// is LAPACK's LQ.
std::vector<double> triangular_factor(std::vector<double>& a, std::int64_t m, std::int64_t n) {
  const int rows = as_int(n), columns = as_int(m), query = -1;
  int info = 0;
  double for_factor = 0, for_q = 0;
  std::vector<double> tau(n);
  dgelqf_(&rows, &columns, a.data(), &rows, tau.data(), &for_factor, &query, &info);
  dorglq_(&rows, &columns, &rows, a.data(), &rows, tau.data(), &for_q, &query, &info);
  const int size = workspace(std::max(for_factor, for_q));
  std::vector<double> work(size);
  dgelqf_(&rows, &columns, a.data(), &rows, tau.data(), work.data(), &size, &info);
  std::vector<double> triangle(n * n, 0.0);
  for (std::int64_t i = 0; i < n; ++i) std::copy_n(a.data() + i * n + i, n - i, triangle.data() + i * n + i);
  if (info == 0) dorglq_(&rows, &columns, &rows, a.data(), &rows, tau.data(), work.data(), &size, &info);
  COMERA_CHECK(info == 0, "LAPACK could not factor a matrix of {} x {} ({})", m, n, info);
  return triangle;
}

struct Gram {
  std::vector<double> vectors;  // in LAPACK's layout; undefined without `with_vectors`
  std::vector<double> values;   // ascending
};

// For A Aᵀ, or for Aᵀ A with `inner`.
Gram eigen_of_gram(std::span<const double> a, std::int64_t m, std::int64_t n, bool inner, bool with_vectors) {
  const int ld = as_int(n), query = -1, size = as_int(inner ? n : m), summed = as_int(inner ? m : n);
  Gram gram{.vectors = std::vector<double>(static_cast<std::size_t>(size) * size),
            .values = std::vector<double>(size)};
  cblas_dsyrk(CblasColMajor, CblasLower, inner ? CblasNoTrans : CblasTrans, size, summed, 1, a.data(), ld, 0,
              gram.vectors.data(), size);
  const char* job = with_vectors ? "V" : "N";
  int info = 0, wanted_integers = 0;
  double wanted = 0;
  dsyevd_(job, "L", &size, gram.vectors.data(), &size, gram.values.data(), &wanted, &query, &wanted_integers,
          &query, &info, 1, 1);
  const int doubles = workspace(wanted);
  std::vector<double> work(doubles);
  std::vector<int> integers(wanted_integers);
  dsyevd_(job, "L", &size, gram.vectors.data(), &size, gram.values.data(), work.data(), &doubles,
          integers.data(), &wanted_integers, &info, 1, 1);
  COMERA_CHECK(info == 0, "the singular vectors of a matrix of {} x {} could not be found (dsyevd: {})", m, n,
               info);
  return gram;
}

// The eigenvectors of A Aᵀ as columns (m × m, row-major), largest eigenvalues first.
std::vector<double> eigenvectors_of_gram(std::span<const double> a, std::int64_t m, std::int64_t n) {
  const std::vector<double> gram = eigen_of_gram(a, m, n, false, true).vectors;
  // LAPACK stores them as column-major columns, ascending.
  std::vector<double> vectors(m * m);
  constexpr std::int64_t tile = 32;
  for (std::int64_t first = 0; first < m; first += tile)
    for (std::int64_t j = 0; j < m; ++j)
      for (std::int64_t i = first; i < std::min(first + tile, m); ++i)
        vectors[i * m + j] = gram[(m - 1 - j) * m + i];
  return vectors;
}

void check_matrix(std::span<const double> a, std::int64_t m, std::int64_t n) {
  COMERA_CHECK(m > 0 && n > 0 && std::ssize(a) == m * n, "{} numbers are no matrix of {} x {}", a.size(), m,
               n);
  COMERA_CHECK(std::ranges::all_of(a, [](double value) { return std::isfinite(value); }),
               "a matrix of {} x {} has entries that are not finite", m, n);
}

// The last columns of an m × m matrix in LAPACK's ascending order, as rows: the last one first.
std::vector<double> last_columns(const std::vector<double>& columns, std::int64_t m, std::int64_t count) {
  std::vector<double> rows;
  rows.reserve(count * m);
  for (std::int64_t i = 0; i < count; ++i)
    rows.insert(rows.end(), columns.begin() + (m - 1 - i) * m, columns.begin() + (m - i) * m);
  return rows;
}

}  // namespace

LeftBasis left_basis(std::span<const double> a, std::int64_t m, std::int64_t n) {
  check_matrix(a, m, n);
  LeftBasis basis{.count = std::min(m, n), .vectors = {}, .projected = {}, .norms = {}};
  basis.projected.resize(basis.count * n);
  if (m <= n) {
    basis.vectors = eigenvectors_of_gram(a, m, n);
    multiply(basis.vectors, a, basis.projected, m, n, m, true);
  } else {
    std::vector<double> q(a.begin(), a.end());
    const std::vector<double> triangle = triangular_factor(q, m, n);
    const std::vector<double> turn = eigenvectors_of_gram(triangle, n, n);
    basis.vectors.resize(m * n);
    multiply(q, turn, basis.vectors, m, n, n);
    multiply(turn, triangle, basis.projected, n, n, n, true);
  }
  for (std::int64_t i = 0; i < basis.count; ++i)
    basis.norms.push_back(frobenius_norm(std::span(basis.projected).subspan(i * n, n)));
  return basis;
}

std::vector<double> leading_directions(std::span<const double> a, std::int64_t m, std::int64_t n,
                                       std::int64_t count) {
  check_matrix(a, m, n);
  COMERA_CHECK(count > 0 && count <= std::min(m, n), "a matrix of {} x {} has no {} directions", m, n, count);
  if (m <= n) return last_columns(eigen_of_gram(a, m, n, false, true).vectors, m, count);
  std::vector<double> q(a.begin(), a.end());
  const std::vector<double> triangle = triangular_factor(q, m, n);
  const std::vector<double> turn = last_columns(eigen_of_gram(triangle, n, n, false, true).vectors, n, count);
  std::vector<double> vectors(count * m);  // turn Qᵀ
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, as_int(count), as_int(m), as_int(n), 1, turn.data(),
              as_int(n), q.data(), as_int(n), 0, vectors.data(), as_int(m));
  return vectors;
}

std::vector<double> squared_singular_values(std::span<const double> a, std::int64_t m, std::int64_t n) {
  COMERA_CHECK(m > 0 && n > 0 && std::ssize(a) == m * n,
               "squared_singular_values: {} numbers are no matrix of {} x {}", a.size(), m, n);
  std::vector<double> values = eigen_of_gram(a, m, n, m > n, false).values;
  std::ranges::reverse(values);
  for (double& value : values) value = std::max(value, 0.0);
  return values;
}

void multiply(std::span<const double> a, std::span<const double> b, std::span<double> c, std::int64_t m,
              std::int64_t n, std::int64_t k, bool transpose_a) {
  COMERA_CHECK(static_cast<std::int64_t>(a.size()) == m * k && static_cast<std::int64_t>(b.size()) == k * n &&
                   static_cast<std::int64_t>(c.size()) == m * n,
               "multiply: {}, {} and {} numbers for a product of {} x {} x {}", a.size(), b.size(), c.size(),
               m, k, n);
  cblas_dgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans, CblasNoTrans, as_int(m), as_int(n),
              as_int(k), 1, a.data(), as_int(transpose_a ? m : k), b.data(), as_int(n), 0, c.data(),
              as_int(n));
}

void add_gram(std::span<const double> a, std::span<double> c, std::int64_t m, std::int64_t n) {
  COMERA_CHECK(std::ssize(a) == m * n && std::ssize(c) == n * n,
               "add_gram: {} and {} numbers for {} rows of {}", a.size(), c.size(), m, n);
  if (m > 0)
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, as_int(n), as_int(m), 1, a.data(), as_int(n), 1,
                c.data(), as_int(n));
}

std::vector<double> transposed(std::span<const double> a, std::int64_t m, std::int64_t n) {
  std::vector<double> across(a.size());
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) across[j * m + i] = a[i * n + j];
  return across;
}

double frobenius_norm(std::span<const double> a) {
  double largest = 0;
  for (double value : a) {
    if (!std::isfinite(value)) return std::abs(value);
    largest = std::max(largest, std::abs(value));
  }
  if (largest == 0) return 0;
  double sum = 0;
  for (double value : a) sum += (value / largest) * (value / largest);
  return largest * std::sqrt(sum);
}

}  // namespace comera
