#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/core/device.h"
#include "kernels/core/tensors/dtype.h"
#include "kernels/ops/machine.h"

// All operations. Each is a struct of this name in kernels/ops with its arguments, formula and shapes.
#define COMERA_OPERATIONS(X)         \
  X(MatrixProduct)                   \
  X(BiasedProduct)                   \
  X(MatrixProducts)                  \
  X(WeightGradients)                 \
  X(TTLinearForward)                 \
  X(TTLinearBackward)                \
  X(TTFactorsForward)                \
  X(TTFactorsBackward)               \
  X(DiagonalForward)                 \
  X(DiagonalBackward)                \
  X(TTFeedForwardForward)            \
  X(TTFeedForwardBackward)           \
  X(TTInnerForward)                  \
  X(TTInnerBackward)                 \
  X(BiasActivationForward)           \
  X(BiasActivationBackward)          \
  X(AttentionForward)                \
  X(AttentionBackward)               \
  X(Rotary)                          \
  X(LayerNormForward)                \
  X(LayerNormBackward)               \
  X(BiasDropoutResidualNormForward)  \
  X(BiasDropoutResidualNormBackward) \
  X(Dropout)                         \
  X(EmbeddingSum)                    \
  X(SegmentSum)                      \
  X(TableGradient)                   \
  X(GatherRows)                      \
  X(ScatterRows)                     \
  X(SoftmaxCrossEntropy)             \
  X(SoftmaxDivergence)               \
  X(DrawClasses)                     \
  X(ReplaceTokens)                   \
  X(OrderIds)                        \
  X(DenseMaskedCrossEntropy)         \
  X(TTMMaskedCrossEntropy)           \
  X(SquaredError)                    \
  X(SquaredDistance)                 \
  X(RelationDivergence)              \
  X(BinaryCrossEntropy)              \
  X(DivideBags)                      \
  X(DotInteractionForward)           \
  X(DotInteractionBackward)          \
  X(SequenceMean)                    \
  X(SequenceMeanBackward)            \
  X(PairFeaturesForward)             \
  X(PairFeaturesBackward)            \
  X(TTMRowsForward)                  \
  X(TTMRowsBackward)                 \
  X(TTMTableForward)                 \
  X(TTMTableBackward)                \
  X(TTMChainForward)                 \
  X(TTMChainBackward)                \
  X(ScaleColumnsForward)             \
  X(ScaleColumnsBackward)            \
  X(SwapAxes)                        \
  X(Float8Quantize)                  \
  X(Float8Expand)                    \
  X(Float8Product)                   \
  X(Float8LinearForward)             \
  X(Float8LinearBackward)            \
  X(Float8NextScales)                \
  X(Fill)                            \
  X(Cast)                            \
  X(Add)                             \
  X(TouchRows)                       \
  X(ClearTouchedRows)                \
  X(GradientNorm)                    \
  X(AdamW)                           \
  X(AverageParameters)               \
  X(Muon)                            \
  X(AdamDirection)                   \
  X(TrustRatios)                     \
  X(FollowDirections)                \
  X(RankObjective)                   \
  X(PruneRanks)

namespace comera {

#define COMERA_DECLARE(name) struct name;
COMERA_OPERATIONS(COMERA_DECLARE)
#undef COMERA_DECLARE

enum class OperationId : std::uint8_t {
#define COMERA_ID(name) name,
  COMERA_OPERATIONS(COMERA_ID)
#undef COMERA_ID
};

inline constexpr std::string_view operation_names[] = {
#define COMERA_NAME(name) #name,
    COMERA_OPERATIONS(COMERA_NAME)
#undef COMERA_NAME
};
inline constexpr int operation_count = static_cast<int>(std::size(operation_names));

template <class Operation>
struct OperationIdOf;
#define COMERA_ID_OF(name)                                  \
  template <>                                               \
  struct OperationIdOf<name> {                              \
    static constexpr OperationId value = OperationId::name; \
  };
COMERA_OPERATIONS(COMERA_ID_OF)
#undef COMERA_ID_OF

struct Context;

// A kernel's arguments besides its operation. Scratch is aligned to 64 bytes and has the requested size.
struct KernelContext {
  Stream stream;
  std::byte* scratch = nullptr;
  std::size_t scratch_bytes = 0;
};

// A table of kernels; a slot is (operation, compute type). Running an empty slot throws.
class Backend {
 public:
  enum class Support : std::uint8_t { missing, composed, native };

  // Starts with the fallback decompositions of kernels/ops/compositions.h.
  Backend(std::string_view name, Device device, const MachineModel& machine);

  // Sets a kernel of this backend, with the scratch bytes that it needs for an operation (nullptr: none), and
  // whether it supports the operation (nullptr: always); unsupported ones are decomposed.
  template <class Operation>
  void set(DType compute, void (*kernel)(const Operation&, const KernelContext&),
           std::size_t (*scratch)(const Operation&) = nullptr, bool (*fits)(const Operation&) = nullptr) {
    Slot& slot = slots_[index(OperationIdOf<Operation>::value, compute)];
    slot.kernel = reinterpret_cast<Erased>(kernel);
    slot.scratch = reinterpret_cast<Erased>(scratch);
    slot.fits = reinterpret_cast<Erased>(fits);
  }
  // Sets the fallback decomposition of an operation into others, used if a backend sets no kernel.
  template <class Operation>
  void compose(DType compute, void (*composition)(const Operation&, const Context&)) {
    slots_[index(OperationIdOf<Operation>::value, compute)].composition =
        reinterpret_cast<Erased>(composition);
  }

  std::string_view name() const { return name_; }
  Device device() const { return device_; }
  const MachineModel& machine() const { return machine_; }
  Support support(OperationId operation, DType compute) const;

 private:
  template <class Operation>
  friend void run(const Context& context, const Operation& operation);

  using Erased = void (*)();
  struct Slot {
    Erased kernel = nullptr;
    Erased scratch = nullptr;
    Erased fits = nullptr;
    Erased composition = nullptr;
  };
  static constexpr int dtypes = 3;  // float32, float64, bfloat16
  static std::size_t index(OperationId operation, DType compute);
  const Slot& find(OperationId operation, DType compute) const;  // throws if the slot is empty

  std::string_view name_;
  Device device_;
  MachineModel machine_;
  std::array<Slot, operation_count * dtypes> slots_{};
};

}  // namespace comera
