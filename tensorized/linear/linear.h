#pragma once

#include <array>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "kernels/core/tensors/parameter.h"
#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/activation.h"
#include "kernels/ops/tensor_trains/tt_linear.h"
#include "tensorized/linear/float8_state.h"
#include "tensorized/linear/kept_state.h"
#include "tensorized/plan.h"
#include "tensorized/ranked_layer.h"

namespace comera {

class MergedGradients;
class Merging;
class TTLinear;

// The left and right factors of a layer, contracted before a pass together with those of other layers
// (tensorized/fused/merging.h). Empty: the layer contracts its own.
struct MergedFactors {
  Tensor a;                                 // (inputs, sum of the ranks)
  std::array<Tensor, max_group_outputs> b;  // (rank, outputs) of each output
};

// One linear layer, or up to three with the same input (Q, K and V): y_i = activation(x W_i + bias_i).
// Callers do not know how W_i is represented. A tensor train may be removed: then its W_i is zero, but for a
// diagonal beside it, and without one neither pass computes anything with it.
class Linear {
 public:
  struct Spec {
    std::string name;  // of the layer, for instance "encoder.0.attention"
    std::vector<std::string>
        outputs;  // for instance {"query", "key", "value"}; one empty name for a single output
    std::int64_t input_size = 0;
    std::int64_t output_size = 0;  // of each output
    bool scores = false;           // outputs are predictions; optimizers of hidden matrices skip it

    std::string output_name(int i) const { return outputs[i].empty() ? name : name + "." + outputs[i]; }
  };

  struct Pass {
    Activation activation = Activation::none;
    bool biased = true;      // false: the consumer of the output applies the bias and computes its gradient
    bool training = true;    // false: the evaluated weights, where training uses others (LteLinear)
    MergedFactors merged{};  // of merge(), for as many tokens
  };

  // What forward keeps for backward, in the arena.
  struct Saved {
    Tensor x;
    Pass pass;
    std::array<Tensor, max_group_outputs> u;  // before the activation
    std::array<Tensor, max_group_outputs> y;  // after it; without data if there is none
    KeptState kept;                           // what its kind of layer needs besides

    Tensor output(int i = 0) const { return pass.activation == Activation::none ? u[i] : y[i]; }
  };

  Linear(ParameterStore& store, const Spec& spec) : store_(store), spec_(spec) {}
  virtual ~Linear() = default;
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;

  // Registers its factors for a pass over this many tokens. Empty on a CPU, which gains nothing from it, and
  // for layers that are not evaluated by left and right factors.
  virtual MergedFactors merge(const Context& /*context*/, std::int64_t /*tokens*/,
                              Merging& /*merging*/) const {
    return {};
  }
  Saved forward(const Context& context, const Tensor& x, const Pass& pass) const;
  // Overwrites dy_i. Writes dx, or adds to it with accumulate_dx. Adds the parameter gradients. After a pass
  // with merged factors their gradients may wait in `merged`: then x and dy must not change until
  // MergedGradients::end_block().
  void backward(const Context& context, const Saved& saved, const std::array<Tensor, max_group_outputs>& dy,
                const Tensor& dx, bool accumulate_dx, MergedGradients* merged = nullptr) const;
  // Adds what training keeps apart to the evaluated weights, for layers that do (LteLinear); called between
  // updates.
  virtual void consolidate(const Context& /*context*/) const {}
  // How a machine of this kind evaluates the layer for this many tokens, as text.
  virtual std::string explain(std::int64_t tokens, const MachineModel& machine) const = 0;
  // One line: "dense 768 x 768" or the modes and ranks of an output's train.
  virtual std::string shape_text(int output) const = 0;

  // W_i as evaluated, (inputs, outputs), row-major, on the host and in double. The parameters must be in the
  // memory of their allocator, with adapters merged.
  virtual std::vector<double> matrix(int output = 0) const = 0;

  // This layer if it is a tensor train: for computations across several layers
  // (tensorized/fused/tt_attention.h).
  virtual const TTLinear* as_tensor_train() const { return nullptr; }
  // The tensor trains whose ranks training may change, in the order of the outputs; removed ones are not
  // listed.
  virtual std::vector<RankedLayer> ranked_layers() const { return {}; }
  // Whether rank adaptation has removed an output's tensor train, so that only the bias is left
  // (TTShape::removed).
  virtual bool removed(int /*output*/ = 0) const { return false; }

  // From now on this layer's products use 8-bit operands where possible.
  void use_float8(const Float8Layer& layer) { float8_ = layer; }
  const std::optional<Float8Layer>& float8() const { return float8_; }
  // Whether its sizes are multiples of 16, as tensor cores require in 8 bits.
  bool fits_float8() const {
    return spec_.input_size % float8_multiple == 0 && spec_.output_size % float8_multiple == 0;
  }

  // The scope of this layer's products in a product log. `suited`: whether they could have 8-bit operands.
  [[nodiscard]] ProductPlace place(const Context& context, bool suited = true) const;

  int outputs() const { return static_cast<int>(spec_.outputs.size()); }
  ParameterId bias(int i = 0) const { return biases_[i]; }
  const Spec& spec() const { return spec_; }
  std::string output_name(int i) const { return spec_.output_name(i); }

 protected:
  // The two passes, called within the scope of this layer.
  virtual Saved run_forward(const Context& context, const Tensor& x, const Pass& pass) const = 0;
  virtual void run_backward(const Context& context, const Saved& saved,
                            const std::array<Tensor, max_group_outputs>& dy, const Tensor& dx,
                            bool accumulate_dx, MergedGradients* merged) const = 0;
  // Whether the products for this many tokens could have 8-bit operands, sizes aside.
  virtual bool suits_float8(std::int64_t /*tokens*/, const MachineModel& /*machine*/) const { return true; }

  void add_bias(ParameterStore& store, int i, ParameterRole role = ParameterRole::dense);
  // Allocates u and, with an activation, y.
  Saved begin(const Context& context, const Tensor& x, const Pass& pass) const;
  // u_i = x w (inputs, outputs), and what add_bias_and_activate() does.
  void multiply(const Context& context, const Saved& saved, int i, const Tensor& w) const;
  // u_i += bias_i and y_i = activation(u_i), as far as the pass needs them.
  void add_bias_and_activate(const Context& context, const Saved& saved, int i) const;
  // Turns dy_i into the gradient of u_i, and adds the bias gradient.
  void bias_activation_backward(const Context& context, const Saved& saved, int i, const Tensor& dy) const;

  const ParameterStore& store_;
  Spec spec_;
  std::vector<ParameterId> biases_;
  std::optional<Float8Layer> float8_;

 private:
  ProductPlace place_of_pass(const Context& context, std::int64_t tokens) const;
};

// The representations of a layer's W_i.
struct DenseForm {};
struct TensorTrainForm {
  std::vector<TTShape> shapes;  // per output: the tensor trains of a group may differ in modes and ranks
  PlanKind plan = PlanKind::automatic;
};
struct LowRankForm {
  std::int64_t rank = 0;  // per output
  friend bool operator==(const LowRankForm&, const LowRankForm&) = default;
};
// Names after Huh et al., 2024: see tensorized/linear/lte_linear.h.
struct LteForm {
  std::int64_t lora_r = 0;  // rank of an adapter
  double lora_alpha = 0;    // adapters are multiplied by lora_alpha / lora_r
  std::int64_t num_heads = 0;
  friend bool operator==(const LteForm&, const LteForm&) = default;
};
using LinearForm = std::variant<DenseForm, TensorTrainForm, LowRankForm, LteForm>;

// The store must outlive the layer. Throws Error if the form does not fit its sizes.
std::unique_ptr<Linear> make_linear(ParameterStore& store, const Linear::Spec& spec, const LinearForm& form);
// Tensor trains of these shapes, or dense layers without shapes.
std::unique_ptr<Linear> make_linear(ParameterStore& store, const Linear::Spec& spec,
                                    const std::vector<TTShape>& shapes, PlanKind plan);

}  // namespace comera
